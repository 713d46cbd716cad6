/* Conversions between the dtypes and the two working forms. The loops are compiled for several vector levels: they are
 * most of the time of every bf16 kernel. */
#include "kernels/elements.h"
#include "spmd/clones.h"
#include "spmd/half.h"

SPMD_CLONES static void from_bf16(const uint16_t *restrict from, int64_t n, float *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = spmd__bf16_to_f32(from[i]);
}

SPMD_CLONES static void to_bf16(const float *restrict from, int64_t n, uint16_t *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = spmd__f32_to_bf16(from[i]);
}

void spmd__widen(spmd_dtype dtype, const void *from, int64_t n, float *to)
{
    if (n == 0)
        return;
    if (dtype == SPMD_BF16) {
        from_bf16(from, n, to);
    } else if (dtype == SPMD_F16) {
        const uint16_t *half = from;
        for (int64_t i = 0; i < n; i++)
            to[i] = spmd__f16_to_f32(half[i]);
    } else {
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}

void spmd__narrow(spmd_dtype dtype, const float *from, int64_t n, void *to)
{
    if (n == 0)
        return;
    if (dtype == SPMD_BF16) {
        to_bf16(from, n, to);
    } else if (dtype == SPMD_F16) {
        uint16_t *half = to;
        for (int64_t i = 0; i < n; i++)
            half[i] = spmd__f32_to_f16(from[i]);
    } else {
        memcpy(to, from, (size_t)n * sizeof *from);
    }
}

void spmd__widen_int(spmd_dtype dtype, const void *from, int64_t n, int64_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        if (dtype == SPMD_I64)
            to[i] = ((const int64_t *)from)[i];
        else if (dtype == SPMD_I32)
            to[i] = ((const int32_t *)from)[i];
        else if (dtype == SPMD_I8)
            to[i] = ((const int8_t *)from)[i];
        else
            to[i] = ((const uint8_t *)from)[i];
    }
}

void spmd__narrow_int(spmd_dtype dtype, const int64_t *from, int64_t n, void *to)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = (uint64_t)from[i];
        if (dtype == SPMD_I64)
            ((int64_t *)to)[i] = from[i];
        else if (dtype == SPMD_I32)
            ((uint32_t *)to)[i] = (uint32_t)u;
        else if (dtype == SPMD_BOOL)
            ((uint8_t *)to)[i] = u != 0;
        else
            ((uint8_t *)to)[i] = (uint8_t)u;
    }
}

int64_t spmd__saturate(spmd_dtype dtype, double x)
{
    static const int64_t low[SPMD_DTYPE_COUNT] = {[SPMD_I8] = INT8_MIN, [SPMD_I32] = INT32_MIN, [SPMD_I64] = INT64_MIN};
    static const int64_t high[SPMD_DTYPE_COUNT] = {
        [SPMD_I8] = INT8_MAX, [SPMD_I32] = INT32_MAX, [SPMD_I64] = INT64_MAX, [SPMD_U8] = UINT8_MAX};
    if (dtype == SPMD_BOOL)
        return x != 0;
    if (x != x)
        return 0;
    return x <= (double)low[dtype] ? low[dtype] : x >= (double)high[dtype] ? high[dtype] : (int64_t)x;
}

void spmd__encode(spmd_dtype dtype, double x, void *to)
{
    if (spmd_dtype_is_float(dtype)) {
        float f = (float)x;
        spmd__narrow(dtype, &f, 1, to);
    } else {
        int64_t i = spmd__saturate(dtype, x);
        spmd__narrow_int(dtype, &i, 1, to);
    }
}

void spmd__splat(const void *element, size_t size, int64_t n, void *to)
{
    size_t total = size * (size_t)n, done = size;
    if (n == 0)
        return;
    memcpy(to, element, size);
    for (; done < total; done *= 2) /* copies what is there already, so nearly all of it in long copies */
        memcpy((char *)to + done, to, done < total - done ? done : total - done);
}

void spmd__copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t width, int64_t rows)
{
    if (width == 0)
        return;
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to + (size_t)i * to_stride, (const char *)from + (size_t)i * from_stride, width);
}
