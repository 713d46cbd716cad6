/* The reductions' loops. A tile of every source is converted to the accumulator's type and folded in order, then the
 * result is converted once and copied to all destinations: three short steps in the first-level cache instead of one
 * loop for every pair of dtype and reduction. 16-bit floats accumulate in f32; integers in two's complement, wrapping,
 * where the low bits of a wider sum are the narrow sum. */
#include "collectives/coll.h"
#include "spmd/half.h"
#include <string.h>

enum { TILE = 1024 };

typedef union tile {
    float f[TILE];
    int32_t i[TILE];
    int64_t l[TILE];
    uint16_t h[TILE];
    int8_t b[TILE];
} tile;

static spmd_dtype accumulator(const spmd_fold *fold)
{
    if (spmd_dtype_is_float(fold->out))
        return SPMD_F32;
    return fold->out == SPMD_I64 ? SPMD_I64 : SPMD_I32;
}

static void load_f32(spmd_dtype dtype, const void *src, float *restrict out, int n)
{
    const uint16_t *h = src;
    const int8_t *s = src;
    const uint8_t *u = src;
    const int32_t *i = src;
    const int64_t *l = src;
    switch (dtype) {
    case SPMD_BF16:
        for (int k = 0; k < n; k++)
            out[k] = spmd__bf16_to_f32(h[k]);
        break;
    case SPMD_F16:
        for (int k = 0; k < n; k++)
            out[k] = spmd__f16_to_f32(h[k]);
        break;
    case SPMD_I8:
        for (int k = 0; k < n; k++)
            out[k] = s[k];
        break;
    case SPMD_I32:
        for (int k = 0; k < n; k++)
            out[k] = (float)i[k];
        break;
    case SPMD_I64:
        for (int k = 0; k < n; k++)
            out[k] = (float)l[k];
        break;
    default: /* u8, bool */
        for (int k = 0; k < n; k++)
            out[k] = u[k];
    }
}

static void load_i32(spmd_dtype dtype, const void *src, int32_t *restrict out, int n)
{
    const int8_t *s = src;
    const uint8_t *u = src;
    if (dtype == SPMD_I8)
        for (int k = 0; k < n; k++)
            out[k] = s[k];
    else /* u8, bool */
        for (int k = 0; k < n; k++)
            out[k] = u[k];
}

/* The source as accumulators: itself if it is that already, else converted into `buffer`. */
static const void *load(spmd_dtype dtype, spmd_dtype to, const void *src, int n, tile *buffer)
{
    if (dtype == to)
        return src;
    if (to == SPMD_F32)
        load_f32(dtype, src, buffer->f, n);
    else
        load_i32(dtype, src, buffer->i, n);
    return buffer;
}

static void combine_f32(spmd_reduction kind, float *restrict acc, const float *restrict x, int n)
{
    if (kind == SPMD_REDUCE_MAX)
        for (int k = 0; k < n; k++)
            acc[k] = x[k] > acc[k] || x[k] != x[k] ? x[k] : acc[k]; /* a NaN comes in here and never leaves */
    else if (kind == SPMD_REDUCE_MIN)
        for (int k = 0; k < n; k++)
            acc[k] = x[k] < acc[k] || x[k] != x[k] ? x[k] : acc[k];
    else
        for (int k = 0; k < n; k++)
            acc[k] += x[k];
}

static void combine_i32(spmd_reduction kind, int32_t *restrict acc, const int32_t *restrict x, int n)
{
    if (kind == SPMD_REDUCE_MAX)
        for (int k = 0; k < n; k++)
            acc[k] = x[k] > acc[k] ? x[k] : acc[k];
    else if (kind == SPMD_REDUCE_MIN)
        for (int k = 0; k < n; k++)
            acc[k] = x[k] < acc[k] ? x[k] : acc[k];
    else
        for (int k = 0; k < n; k++)
            acc[k] = (int32_t)((uint32_t)acc[k] + (uint32_t)x[k]);
}

static void combine_i64(spmd_reduction kind, int64_t *restrict acc, const int64_t *restrict x, int n)
{
    if (kind == SPMD_REDUCE_MAX)
        for (int k = 0; k < n; k++)
            acc[k] = x[k] > acc[k] ? x[k] : acc[k];
    else if (kind == SPMD_REDUCE_MIN)
        for (int k = 0; k < n; k++)
            acc[k] = x[k] < acc[k] ? x[k] : acc[k];
    else
        for (int k = 0; k < n; k++)
            acc[k] = (int64_t)((uint64_t)acc[k] + (uint64_t)x[k]);
}

/* The result as the output's dtype: the accumulators themselves, or converted into `buffer`. */
static const void *finish(const spmd_fold *fold, tile *acc, int n, tile *buffer)
{
    if (fold->kind == SPMD_REDUCE_MEAN)
        for (int k = 0; k < n; k++)
            acc->f[k] /= fold->divisor;
    switch (fold->out) {
    case SPMD_BF16:
        for (int k = 0; k < n; k++)
            buffer->h[k] = spmd__f32_to_bf16(acc->f[k]);
        return buffer;
    case SPMD_F16:
        for (int k = 0; k < n; k++)
            buffer->h[k] = spmd__f32_to_f16(acc->f[k]);
        return buffer;
    case SPMD_I8:
    case SPMD_U8:
    case SPMD_BOOL:
        for (int k = 0; k < n; k++)
            buffer->b[k] = (int8_t)(uint8_t)acc->i[k];
        return buffer;
    default:
        return acc;
    }
}

void spmd__fold(const spmd_fold *fold, const void *const *src, int nsrc, void *const *dst, int ndst, int64_t count)
{
    size_t in = spmd_dtype_size(fold->in), out = spmd_dtype_size(fold->out);
    spmd_dtype type = accumulator(fold);
    tile acc, buffer;
    for (int64_t at = 0; at < count; at += TILE) {
        int n = (int)(count - at < TILE ? count - at : TILE);
        for (int s = 0; s < nsrc; s++) {
            const void *x = load(fold->in, type, (const char *)src[s] + (size_t)at * in, n, &buffer);
            if (s == 0)
                memcpy(&acc, x, (size_t)n * spmd_dtype_size(type));
            else if (type == SPMD_F32)
                combine_f32(fold->kind, acc.f, x, n);
            else if (type == SPMD_I32)
                combine_i32(fold->kind, acc.i, x, n);
            else
                combine_i64(fold->kind, acc.l, x, n);
        }
        const void *result = finish(fold, &acc, n, &buffer);
        for (int d = 0; d < ndst; d++)
            memcpy((char *)dst[d] + (size_t)at * out, result, (size_t)n * out);
    }
}
