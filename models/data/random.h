/* Private: a counter-based generator: the k-th number of a stream is a function of (key, k), so that order of use,
 * threads and devices cannot change what anyone gets. splitmix64's output function (Steele, Lea, Flood 2014). */
#ifndef MODELS_DATA_RANDOM_H
#define MODELS_DATA_RANDOM_H

#include <stdint.h>

static inline uint64_t random_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t random_at(uint64_t key, uint64_t k)
{
    return random_mix(key + (k + 1) * 0x9e3779b97f4a7c15u);
}

/* A key for the stream that (key, id) names. */
static inline uint64_t random_key(uint64_t key, uint64_t id)
{
    return random_at(random_mix(key ^ 0x6a09e667f3bcc908u), id);
}

/* 0..n-1 from 32 random bits, n < 2^32; each value's share differs from 1/n by less than 2^-32. */
static inline uint32_t random_below(uint64_t bits, uint32_t n)
{
    return (uint32_t)(((bits >> 32) * n) >> 32);
}

#endif
