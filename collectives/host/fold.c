/* The reductions' loops. Tile by tile, small enough for the first-level cache: the sources are folded in order, the
 * result is finished (divided, converted) into the first destination and copied to the others. Floats accumulate in
 * f32, 16-bit ones through conversions of whole tiles; integers in their own type, wrapping. */
#include "collectives/coll.h"
#include "spmd/clones.h"
#include "spmd/half.h"
#include <string.h>

enum { TILE = 512 }; /* of 4-byte elements 2 KiB: larger copies go by string instructions, which are slower */

typedef union tile {
    float f[TILE];
    int32_t i[TILE];
    int64_t l[TILE];
    uint16_t h[TILE];
    uint8_t b[TILE];
} tile;

/* --- sources to accumulators: only where the dtypes differ --- */
SPMD_CLONES static void widen_bf16(const uint16_t *restrict src, float *restrict out, int n)
{
    for (int k = 0; k < n; k++)
        out[k] = spmd__bf16_to_f32(src[k]);
}

SPMD_CLONES static void widen_f16(const uint16_t *restrict src, float *restrict out, int n)
{
    for (int k = 0; k < n; k++)
        out[k] = spmd__f16_to_f32(src[k]);
}

/* For means of integers. */
static void integers_to_f32(spmd_dtype dtype, const void *src, float *restrict out, int n)
{
    const int8_t *s = src;
    const uint8_t *u = src;
    const int32_t *i = src;
    const int64_t *l = src;
    for (int k = 0; k < n; k++)
        out[k] = dtype == SPMD_I8 ? s[k] : dtype == SPMD_I32 ? (float)i[k] : dtype == SPMD_I64 ? (float)l[k] : u[k];
}

/* The source as accumulators: itself if it is that already, else converted into `buffer`. */
static const void *load(spmd_dtype dtype, spmd_dtype to, const void *src, int n, tile *buffer)
{
    const uint8_t *flags = src;
    if (dtype == to)
        return src;
    if (dtype == SPMD_BF16)
        widen_bf16(src, buffer->f, n);
    else if (dtype == SPMD_F16)
        widen_f16(src, buffer->f, n);
    else if (to == SPMD_F32)
        integers_to_f32(dtype, src, buffer->f, n);
    else
        for (int k = 0; k < n; k++) /* bools are counted in i32 */
            buffer->i[k] = flags[k];
    return buffer;
}

/* --- out = a op b, element by element; out may be a or b, which the pragma tells the compiler --- */
SPMD_CLONES static void combine_f32(spmd_reduction kind, float *out, const float *a, const float *b, int n)
{
    if (kind == SPMD_REDUCE_MAX) {
        SPMD_SAME_PLACE
        for (int k = 0; k < n; k++)
            out[k] = ((b[k] > a[k]) | (b[k] != b[k])) ? b[k] : a[k]; /* a NaN comes in here and never leaves */
    } else if (kind == SPMD_REDUCE_MIN) {
        SPMD_SAME_PLACE
        for (int k = 0; k < n; k++)
            out[k] = ((b[k] < a[k]) | (b[k] != b[k])) ? b[k] : a[k];
    } else {
        SPMD_SAME_PLACE
        for (int k = 0; k < n; k++)
            out[k] = a[k] + b[k];
    }
}

/* Integers of one type; sums are computed unsigned, where they may wrap. */
#define DEFINE_COMBINE(name, type, sum_type)                                                          \
    SPMD_CLONES static void name(spmd_reduction kind, type *out, const type *a, const type *b, int n) \
    {                                                                                                 \
        if (kind == SPMD_REDUCE_MAX) {                                                                \
            SPMD_SAME_PLACE                                                                           \
            for (int k = 0; k < n; k++)                                                               \
                out[k] = b[k] > a[k] ? b[k] : a[k];                                                   \
        } else if (kind == SPMD_REDUCE_MIN) {                                                         \
            SPMD_SAME_PLACE                                                                           \
            for (int k = 0; k < n; k++)                                                               \
                out[k] = b[k] < a[k] ? b[k] : a[k];                                                   \
        } else {                                                                                      \
            SPMD_SAME_PLACE                                                                           \
            for (int k = 0; k < n; k++)                                                               \
                out[k] = (type)((sum_type)a[k] + (sum_type)b[k]);                                     \
        }                                                                                             \
    }
DEFINE_COMBINE(combine_i8, int8_t, uint8_t)
DEFINE_COMBINE(combine_u8, uint8_t, uint8_t)
DEFINE_COMBINE(combine_i32, int32_t, uint32_t)
DEFINE_COMBINE(combine_i64, int64_t, uint64_t)

static void combine(spmd_dtype type, spmd_reduction kind, void *out, const void *a, const void *b, int n)
{
    switch (type) {
    case SPMD_F32:
        combine_f32(kind, out, a, b, n);
        break;
    case SPMD_I32:
        combine_i32(kind, out, a, b, n);
        break;
    case SPMD_I64:
        combine_i64(kind, out, a, b, n);
        break;
    case SPMD_I8:
        combine_i8(kind, out, a, b, n);
        break;
    default: /* u8, bool */
        combine_u8(kind, out, a, b, n);
    }
}

/* --- accumulators to results --- */
/* Of a power of two: to multiply by the inverse is then to divide, in every bit, and much faster. */
static bool has_inverse(float divisor)
{
    return (spmd__f32_bits(divisor) & 0x7fffff) == 0;
}

SPMD_CLONES static void scale(const float *a, float factor, float *out, int n)
{
    SPMD_SAME_PLACE
    for (int k = 0; k < n; k++)
        out[k] = a[k] * factor;
}

SPMD_CLONES static void divide(const float *a, float divisor, float *out, int n)
{
    if (has_inverse(divisor)) {
        scale(a, 1 / divisor, out, n);
        return;
    }
    SPMD_SAME_PLACE
    for (int k = 0; k < n; k++)
        out[k] = a[k] / divisor;
}

SPMD_CLONES static void narrow_bf16(const float *restrict a, uint16_t *restrict out, int n)
{
    for (int k = 0; k < n; k++)
        out[k] = spmd__f32_to_bf16(a[k]);
}

SPMD_CLONES static void narrow_f16(const float *restrict a, uint16_t *restrict out, int n)
{
    for (int k = 0; k < n; k++)
        out[k] = spmd__f32_to_f16(a[k]);
}

/* --- sums and means of 16-bit floats: by pairs, whose halves stay in their 32-bit lanes from load to store, and in one
 * pass where there are two sources. --- */
static inline uint32_t pair(const uint16_t *a, int k)
{
    uint32_t x;
    memcpy(&x, a + 2 * k, sizeof x);
    return x;
}

#define DEFINE_HALF_END(name, half, op)                                                                    \
    SPMD_CLONES static void name(const float *even, const float *odd, float by, uint16_t *out, int n)      \
    {                                                                                                      \
        for (int k = 0; k < n; k++) {                                                                      \
            uint32_t x = spmd__##half##_narrow(even[k] op by) | spmd__##half##_narrow(odd[k] op by) << 16; \
            memcpy(out + 2 * k, &x, sizeof x);                                                             \
        }                                                                                                  \
    }

#define DEFINE_HALF_SUM(half)                                                                                          \
    SPMD_CLONES static void half##_start(const uint16_t *restrict a, float *restrict even, float *restrict odd, int n) \
    {                                                                                                                  \
        for (int k = 0; k < n; k++) {                                                                                  \
            uint32_t x = pair(a, k);                                                                                   \
            even[k] = spmd__##half##_widen(x & 0xffff);                                                                \
            odd[k] = spmd__##half##_widen(x >> 16);                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    SPMD_CLONES static void half##_add(const uint16_t *restrict a, float *restrict even, float *restrict odd, int n)   \
    {                                                                                                                  \
        for (int k = 0; k < n; k++) {                                                                                  \
            uint32_t x = pair(a, k);                                                                                   \
            even[k] += spmd__##half##_widen(x & 0xffff);                                                               \
            odd[k] += spmd__##half##_widen(x >> 16);                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    SPMD_CLONES static void half##_two(const uint16_t *a, const uint16_t *b, float factor, uint16_t *out, int n)       \
    {                                                                                                                  \
        SPMD_SAME_PLACE                                                                                                \
        for (int k = 0; k < n; k++) {                                                                                  \
            uint32_t x = pair(a, k), y = pair(b, k);                                                                   \
            float even = spmd__##half##_widen(x & 0xffff) + spmd__##half##_widen(y & 0xffff);                          \
            float odd = spmd__##half##_widen(x >> 16) + spmd__##half##_widen(y >> 16);                                 \
            uint32_t z = spmd__##half##_narrow(even * factor) | spmd__##half##_narrow(odd * factor) << 16;             \
            memcpy(out + 2 * k, &z, sizeof z);                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void half##_fold(const spmd_fold *fold, const uint16_t *const *src, int nsrc, float *even, float *odd,      \
                            uint16_t *out, int n)                                                                      \
    {                                                                                                                  \
        float divisor = fold->kind == SPMD_REDUCE_MEAN ? fold->divisor : 1;                                            \
        if (nsrc == 2 && has_inverse(divisor)) {                                                                       \
            half##_two(src[0], src[1], 1 / divisor, out, n);                                                           \
            return;                                                                                                    \
        }                                                                                                              \
        half##_start(src[0], even, odd, n);                                                                            \
        for (int s = 1; s < nsrc; s++)                                                                                 \
            half##_add(src[s], even, odd, n);                                                                          \
        if (has_inverse(divisor))                                                                                      \
            half##_scaled(even, odd, 1 / divisor, out, n);                                                             \
        else                                                                                                           \
            half##_divided(even, odd, divisor, out, n);                                                                \
    }
DEFINE_HALF_END(bf16_scaled, bf16, *)
DEFINE_HALF_END(bf16_divided, bf16, /)
DEFINE_HALF_END(f16_scaled, f16, *)
DEFINE_HALF_END(f16_divided, f16, /)
DEFINE_HALF_SUM(bf16)
DEFINE_HALF_SUM(f16)

/* The folded tile `a` into `out`; nothing to do where it is there already. `buffer` may be `a`. */
static void finish(const spmd_fold *fold, const void *a, void *out, tile *buffer, int n)
{
    bool half = fold->out == SPMD_BF16 || fold->out == SPMD_F16;
    if (fold->kind == SPMD_REDUCE_MEAN) {
        divide(a, fold->divisor, half ? buffer->f : out, n);
        a = half ? buffer->f : out;
    }
    if (fold->out == SPMD_BF16)
        narrow_bf16(a, out, n);
    else if (fold->out == SPMD_F16)
        narrow_f16(a, out, n);
    else
        spmd__copy(out, a, (size_t)n * spmd__dtype_size(fold->out));
}

/* All sources' tiles folded; the last step goes to `last`, where `last` may be the result's place. */
static const void *fold_tile(const spmd_fold *fold, spmd_dtype type, const void *const *src, int nsrc, size_t at, int n,
                             tile *acc, tile *buffer, void *last)
{
    const void *a = load(fold->in, type, (const char *)src[0] + at, n, acc);
    for (int s = 1; s < nsrc; s++) {
        const void *b = load(fold->in, type, (const char *)src[s] + at, n, buffer);
        void *out = s == nsrc - 1 ? last : acc;
        combine(type, fold->kind, out, a, b, n);
        a = out;
    }
    return a;
}

static bool is_half_sum(const spmd_fold *fold, int nsrc)
{
    bool half = fold->in == SPMD_BF16 || fold->in == SPMD_F16;
    bool sums = fold->kind == SPMD_REDUCE_SUM || fold->kind == SPMD_REDUCE_MEAN;
    return half && fold->out == fold->in && sums && nsrc > 1;
}

static void fold_pairs(const spmd_fold *fold, const uint16_t *const *src, int nsrc, int n, tile *acc, uint16_t *out)
{
    if (fold->in == SPMD_BF16)
        bf16_fold(fold, src, nsrc, acc->f, acc->f + TILE / 2, out, n);
    else
        f16_fold(fold, src, nsrc, acc->f, acc->f + TILE / 2, out, n);
}

static void fold_half_tile(const spmd_fold *fold, const void *const *src, int nsrc, size_t at, int n, tile *acc,
                           uint16_t *out)
{
    const uint16_t *from[SPMD_MAX_DEVICES];
    uint16_t last[SPMD_MAX_DEVICES][2] = {{0}}; /* an odd element, as a pair */
    for (int s = 0; s < nsrc; s++) {
        from[s] = (const uint16_t *)src[s] + at;
        last[s][0] = from[s][n - 1];
    }
    fold_pairs(fold, from, nsrc, n / 2, acc, out);
    if (n % 2 == 0)
        return;
    for (int s = 0; s < nsrc; s++)
        from[s] = last[s];
    fold_pairs(fold, from, nsrc, 1, acc, last[0]);
    out[n - 1] = last[0][0];
}

/* Sums and means of two shards' f32, to both of them: one pass. */
static bool is_f32_twice(const spmd_fold *fold, int nsrc, int ndst)
{
    bool adds = fold->kind == SPMD_REDUCE_SUM || (fold->kind == SPMD_REDUCE_MEAN && has_inverse(fold->divisor));
    return nsrc == 2 && ndst == 2 && adds && fold->in == SPMD_F32 && fold->out == SPMD_F32 && !fold->stream;
}

SPMD_CLONES static void fold_f32_twice(const spmd_fold *fold, float *out, float *too, const float *a, const float *b,
                                       int64_t n)
{
    float factor = 1 / fold->divisor;
    if (fold->kind == SPMD_REDUCE_SUM) { /* even a product is felt: a fifth of the time of 1 MiB */
        SPMD_SAME_PLACE
        for (int64_t k = 0; k < n; k++)
            out[k] = too[k] = a[k] + b[k];
        return;
    }
    SPMD_SAME_PLACE
    for (int64_t k = 0; k < n; k++)
        out[k] = too[k] = (a[k] + b[k]) * factor;
}

/* Small messages feel every instruction: the long ways stay out of the short one. */
#define APART static __attribute__((noinline))

/* Two sources that are accumulators already: no tile is needed in between. */
APART void fold_two(const spmd_fold *fold, const char *a, const char *b, void *const *dst, int ndst, int64_t count)
{
    size_t size = spmd__dtype_size(fold->in);
    for (int64_t at = 0; at < count; at += TILE) {
        int n = (int)(count - at < TILE ? count - at : TILE);
        size_t offset = (size_t)at * size;
        char *first = (char *)dst[0] + offset;
        combine(fold->in, fold->kind, first, a + offset, b + offset, n);
        for (int d = 1; d < ndst; d++)
            memcpy((char *)dst[d] + offset, first, (size_t)n * size);
    }
}

APART void fold_tiles(const spmd_fold *fold, spmd_dtype type, const void *const *src, int nsrc, void *const *dst,
                      int ndst, int64_t count)
{
    size_t in = spmd__dtype_size(fold->in), out = spmd__dtype_size(fold->out);
    bool direct = type == fold->out && fold->kind != SPMD_REDUCE_MEAN, half = is_half_sum(fold, nsrc);
    spmd_copy *copy = fold->stream ? spmd__stream : spmd__copy;
    tile acc, buffer;
    for (int64_t at = 0; at < count; at += TILE) {
        int n = (int)(count - at < TILE ? count - at : TILE);
        void *first = fold->stream ? (void *)&buffer : (char *)dst[0] + (size_t)at * out;
        if (half) {
            fold_half_tile(fold, src, nsrc, (size_t)at, n, &acc, first);
        } else {
            const void *a = fold_tile(fold, type, src, nsrc, (size_t)at * in, n, &acc, &buffer, direct ? first : &acc);
            if (a != first)
                finish(fold, a, first, &acc, n);
        }
        for (int d = fold->stream ? 0 : 1; d < ndst; d++)
            copy((char *)dst[d] + (size_t)at * out, first, (size_t)n * out);
    }
}

void spmd__fold(const spmd_fold *fold, const void *const *src, int nsrc, void *const *dst, int ndst, int64_t count)
{
    bool half = fold->out == SPMD_BF16 || fold->out == SPMD_F16;
    spmd_dtype type = half ? SPMD_F32 : fold->out; /* of the accumulators */
    bool two = nsrc == 2 && fold->in == type && !half && fold->kind != SPMD_REDUCE_MEAN && !fold->stream;
    if (two && ndst == 1 && count <= TILE)
        combine(type, fold->kind, dst[0], src[0], src[1], (int)count);
    else if (is_f32_twice(fold, nsrc, ndst))
        fold_f32_twice(fold, dst[0], dst[1], src[0], src[1], count);
    else if (two)
        fold_two(fold, src[0], src[1], dst, ndst, count);
    else
        fold_tiles(fold, type, src, nsrc, dst, ndst, count);
}
