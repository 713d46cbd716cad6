/* What a collective is measured against: loops that move the same bytes and do nothing else. */
#include "bench/coll_measure.h"
#include "spmd/clones.h"
#include <string.h>

enum { BLOCK = 64 }; /* floats: the sums stay in registers or the first-level cache */

SPMD_CLONES
static void sum_blocks(const float *src, float *dst, int64_t blocks, int64_t stride, int reads, int writes)
{
    for (int64_t b = 0; b < blocks; b++) {
        float sum[BLOCK];
        const float *from = src + b * BLOCK;
        for (int k = 0; k < BLOCK; k++)
            sum[k] = from[k];
        for (int r = 1; r < reads; r++)
            for (int k = 0; k < BLOCK; k++)
                sum[k] += from[r * stride + k];
        for (int w = 0; w < writes; w++)
            memcpy(dst + w * stride + b * BLOCK, sum, sizeof sum);
    }
}

void coll_stream(const float *src, float *dst, int64_t count, int reads, int writes)
{
    if (reads == 1 && writes == 1) {
        memcpy(dst, src, (size_t)count * sizeof *dst);
        return;
    }
    int64_t done = count / BLOCK * BLOCK;
    sum_blocks(src, dst, count / BLOCK, count, reads, writes);
    for (int64_t k = done; k < count; k++) {
        float sum = src[k];
        for (int r = 1; r < reads; r++)
            sum += src[r * count + k];
        for (int w = 0; w < writes; w++)
            dst[w * count + k] = sum;
    }
}

SPMD_CLONES
void coll_write(uint64_t *words, int64_t n, uint64_t pattern)
{
    for (int64_t k = 0; k < n; k++)
        words[k] = pattern;
}

SPMD_CLONES
uint64_t coll_read(const uint64_t *words, int64_t n)
{
    uint64_t sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += words[k];
    return sum;
}
