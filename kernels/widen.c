/* Conversions of whole runs between f32 and the 16-bit floats. */
#include "kernels/widen.h"
#include "kernels/clones.h"
#include "spmd/half.h"

SPMD_CLONES
static void widen_bf16(const uint16_t *restrict from, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = spmd__bf16_to_f32(from[i]);
}

SPMD_CLONES
static void narrow_bf16(const float *restrict from, uint16_t *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = spmd__f32_to_bf16(from[i]);
}

static void widen_f16(const uint16_t *restrict from, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = spmd__f16_to_f32(from[i]);
}

static void narrow_f16(const float *restrict from, uint16_t *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = spmd__f32_to_f16(from[i]);
}

void spmd__widen(spmd_dtype dtype, const void *from, float *to, int64_t n)
{
    if (dtype == SPMD_BF16)
        widen_bf16(from, to, n);
    else if (dtype == SPMD_F16)
        widen_f16(from, to, n);
    else
        memcpy(to, from, (size_t)n * sizeof *to);
}

void spmd__narrow(spmd_dtype dtype, const float *from, void *to, int64_t n)
{
    if (dtype == SPMD_BF16)
        narrow_bf16(from, to, n);
    else if (dtype == SPMD_F16)
        narrow_f16(from, to, n);
    else
        memcpy(to, from, (size_t)n * sizeof *from);
}
