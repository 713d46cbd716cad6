/* Private. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a block of random bits
 * as a function of a counter and a key, without state, so any element of any array can be made alone, on any device. */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define SPMD__ANYWHERE __host__ __device__
#else
#define SPMD__ANYWHERE
#endif

/* Replaces the counter c by its four random words. */
SPMD__ANYWHERE static inline void spmd__philox(uint32_t c[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)c[0] * 0xD2511F53u, odd = (uint64_t)c[2] * 0xCD9E8D57u;
        c[0] = (uint32_t)(odd >> 32) ^ c[1] ^ key0;
        c[1] = (uint32_t)odd;
        c[2] = (uint32_t)(even >> 32) ^ c[3] ^ key1;
        c[3] = (uint32_t)even;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* The bits of element `index` of an array, in c. */
SPMD__ANYWHERE static inline void spmd__random_bits(uint64_t index, uint64_t stream, uint64_t seed, uint32_t c[4])
{
    c[0] = (uint32_t)index;
    c[1] = (uint32_t)(index >> 32);
    c[2] = (uint32_t)stream;
    c[3] = (uint32_t)(stream >> 32);
    spmd__philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
}

#endif
