/* Private: how words become a hash. */
#ifndef SPMD_HASH_H
#define SPMD_HASH_H

#include <stdint.h>

static inline uint64_t spmd__mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

#endif
