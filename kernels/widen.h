/* Private. Runs of f32, bf16 or f16 seen as f32: where they are if they are f32, else widened into a buffer of the
 * caller's and rounded once on the way back. Row kernels are so written once, for float. */
#ifndef KERNELS_WIDEN_H
#define KERNELS_WIDEN_H

#include "spmd/op.h"

void spmd__widen(spmd_dtype dtype, const void *from, float *to, int64_t n);
void spmd__narrow(spmd_dtype dtype, const float *from, void *to, int64_t n);

static inline void *spmd__element(spmd_dtype dtype, const void *data, int64_t index)
{
    return (char *)data + (size_t)index * spmd_dtype_size(dtype);
}

/* Elements start .. start+n of `data` to read; the buffer is used unless they are f32. */
static inline const float *spmd__read_f32(spmd_dtype dtype, const void *data, int64_t start, int64_t n, float *buffer)
{
    const void *from = spmd__element(dtype, data, start);
    if (dtype == SPMD_F32)
        return (const float *)from;
    spmd__widen(dtype, from, buffer, n);
    return buffer;
}

/* Where to write what becomes elements start .. start+n of `data`; spmd__wrote_f32 after it. */
static inline float *spmd__write_f32(spmd_dtype dtype, void *data, int64_t start, float *buffer)
{
    return dtype == SPMD_F32 ? (float *)data + start : buffer;
}

static inline void spmd__wrote_f32(spmd_dtype dtype, void *data, int64_t start, int64_t n, const float *buffer)
{
    if (dtype != SPMD_F32)
        spmd__narrow(dtype, buffer, spmd__element(dtype, data, start), n);
}

#endif
