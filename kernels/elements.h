/* Private. Elements of any dtype in two working forms: floats as f32, integers and bool as i64. A kernel widens a tile
 * that fits in L1, computes, and narrows it once, so that one loop serves all dtypes. */
#ifndef KERNELS_ELEMENTS_H
#define KERNELS_ELEMENTS_H

#include "spmd/dtype.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPMD__TILE = 1024 }; /* elements; 4 KiB of f32: a few tiles stay in L1 */

void spmd__widen(spmd_dtype dtype, const void *from, int64_t n, float *to);        /* f32, bf16, f16 */
void spmd__narrow(spmd_dtype dtype, const float *from, int64_t n, void *to);       /* likewise; to nearest even */
void spmd__widen_int(spmd_dtype dtype, const void *from, int64_t n, int64_t *to);  /* i8, i32, i64, u8, bool */
void spmd__narrow_int(spmd_dtype dtype, const int64_t *from, int64_t n, void *to); /* likewise; wraps; bool: != 0 */
/* Truncated and saturated to what `dtype` (an integer, or bool) holds; NaN is 0. */
int64_t spmd__saturate(spmd_dtype dtype, double x);
void spmd__encode(spmd_dtype dtype, double x, void *to); /* one element; integers saturate */

void spmd__splat(const void *element, size_t size, int64_t n, void *to); /* n copies of an element of `size` bytes */
/* `rows` pieces of `width` bytes from every `from_stride` bytes to every `to_stride` bytes. */
void spmd__copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t width, int64_t rows);

static inline void *spmd__element(void *base, spmd_dtype dtype, int64_t i)
{
    return (char *)base + (size_t)i * spmd_dtype_size(dtype);
}

#ifdef __cplusplus
}
#endif
#endif
