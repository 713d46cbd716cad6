/* Private. Runs of f32, bf16 or f16 seen as f32: where they lie if they are f32, else widened into a buffer of the
 * caller's and rounded once on the way back. Row kernels are so written once, for float. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include "kernels/elements.h"
#include "spmd/op.h"

/* Elements start .. start+n of `view` to read; the buffer is used unless they are f32. */
static inline const float *spmd__read_f32(const spmd_view *view, int64_t start, int64_t n, float *buffer)
{
    const void *from = spmd__element(view->data, view->dtype, start);
    if (view->dtype == SPMD_F32)
        return (const float *)from;
    spmd__widen(view->dtype, from, n, buffer);
    return buffer;
}

/* Where to write what becomes the elements from `start` on; spmd__wrote_f32 after it. */
static inline float *spmd__write_f32(const spmd_view *view, int64_t start, float *buffer)
{
    return view->dtype == SPMD_F32 ? (float *)view->data + start : buffer;
}

static inline void spmd__wrote_f32(const spmd_view *view, int64_t start, int64_t n, const float *buffer)
{
    if (view->dtype != SPMD_F32)
        spmd__narrow(view->dtype, buffer, n, spmd__element(view->data, view->dtype, start));
}

/* [.., n] as rows of n. */
static inline int64_t spmd__row_length(const spmd_view *view)
{
    return view->shape[view->rank - 1];
}

static inline int64_t spmd__row_count(const spmd_view *view)
{
    int64_t rows = 1;
    for (int d = 0; d < view->rank - 1; d++)
        rows *= view->shape[d];
    return rows;
}

/* Column sums over many rows: rows add to a block, every SPMD__SUM_BLOCK rows the block is added to the sums. Rounding
 * errors then grow with rows / SPMD__SUM_BLOCK, and the order is fixed. */
enum { SPMD__SUM_BLOCK = 32 };
static inline void spmd__add_block(float *__restrict__ sums, float *__restrict__ block, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        sums[i] += block[i];
        block[i] = 0.0f;
    }
}

#endif
