/* Host values: made, filled, read element by element as double (exact for every dtype here but large i64), compared. */
#include "spmd/half.h"
#include "spmd/testing.h"

int64_t spmd_value_count(const spmd_value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++)
        n *= v->shape[d];
    return n;
}

spmd_value spmd_value_zeros(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape)
{
    spmd_value v = {.dtype = dtype, .rank = rank, .spec = spec};
    for (int d = 0; d < rank; d++)
        v.shape[d] = shape[d];
    int64_t count = spmd_value_count(&v);
    v.data = calloc(count ? (size_t)count : 1, spmd_dtype_size(dtype)); /* an empty value has memory, too */
    ck_assert_ptr_nonnull(v.data);
    return v;
}

/* splitmix64: one well mixed word for every (seed, i), so a value does not depend on how many came before. */
static uint64_t mix(unsigned seed, int64_t i)
{
    uint64_t z = ((uint64_t)seed << 40) + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

spmd_value spmd_value_random(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape, double scale,
                             unsigned seed)
{
    spmd_value v = spmd_value_zeros(dtype, spec, rank, shape);
    for (int64_t i = 0, n = spmd_value_count(&v); i < n; i++) {
        double x = scale * ((double)(mix(seed, i) >> 40) * 0x1p-23 - 1);
        spmd_value_set(&v, i, dtype == SPMD_BOOL ? x >= 0 : x);
    }
    return v;
}

spmd_value spmd_value_exact(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape, unsigned seed)
{
    spmd_value v = spmd_value_zeros(dtype, spec, rank, shape);
    for (int64_t i = 0, n = spmd_value_count(&v); i < n; i++)
        spmd_value_set(&v, i, (double)(mix(seed, i) >> (dtype == SPMD_BOOL ? 63 : 61)));
    return v;
}

spmd_value spmd_value_f32(const char *spec, int rank, const int64_t *shape, const float *data)
{
    spmd_value v = spmd_value_zeros(SPMD_F32, spec, rank, shape);
    memcpy(v.data, data, (size_t)spmd_value_count(&v) * sizeof *data);
    return v;
}

spmd_value spmd_value_i32(const char *spec, int rank, const int64_t *shape, const int32_t *data)
{
    spmd_value v = spmd_value_zeros(SPMD_I32, spec, rank, shape);
    memcpy(v.data, data, (size_t)spmd_value_count(&v) * sizeof *data);
    return v;
}

double spmd_value_at(const spmd_value *v, int64_t i)
{
    switch (v->dtype) {
    case SPMD_F32:
        return ((const float *)v->data)[i];
    case SPMD_BF16:
        return spmd__bf16_to_f32(((const uint16_t *)v->data)[i]);
    case SPMD_F16:
        return spmd__f16_to_f32(((const uint16_t *)v->data)[i]);
    case SPMD_I8:
        return ((const int8_t *)v->data)[i];
    case SPMD_I32:
        return ((const int32_t *)v->data)[i];
    case SPMD_I64:
        return (double)((const int64_t *)v->data)[i];
    case SPMD_U8:
    case SPMD_BOOL:
        return ((const uint8_t *)v->data)[i];
    case SPMD_DTYPE_COUNT:
        break;
    }
    return NAN;
}

void spmd_value_set(spmd_value *v, int64_t i, double x)
{
    switch (v->dtype) {
    case SPMD_F32:
        ((float *)v->data)[i] = (float)x;
        return;
    case SPMD_BF16:
        ((uint16_t *)v->data)[i] = spmd__f32_to_bf16((float)x);
        return;
    case SPMD_F16:
        ((uint16_t *)v->data)[i] = spmd__f32_to_f16((float)x);
        return;
    case SPMD_I8:
        ((int8_t *)v->data)[i] = (int8_t)(int64_t)x;
        return;
    case SPMD_I32:
        ((int32_t *)v->data)[i] = (int32_t)(int64_t)x;
        return;
    case SPMD_I64:
        ((int64_t *)v->data)[i] = (int64_t)x;
        return;
    case SPMD_U8:
        ((uint8_t *)v->data)[i] = (uint8_t)(int64_t)x;
        return;
    case SPMD_BOOL:
        ((uint8_t *)v->data)[i] = x != 0;
        return;
    case SPMD_DTYPE_COUNT:
        break;
    }
    ck_abort_msg("value_set: %d is no dtype", (int)v->dtype);
}

void spmd_value_free(spmd_value *v)
{
    free(v->data);
    v->data = NULL;
}

void spmd_values_free(spmd_value *v, int n)
{
    for (int k = 0; k < n; k++)
        spmd_value_free(&v[k]);
}

static bool same_type(const spmd_value *a, const spmd_value *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]);
}

double spmd_value_difference(const spmd_value *a, const spmd_value *b)
{
    if (!same_type(a, b))
        return INFINITY;
    double largest = 1e-30, difference = 0;
    for (int64_t i = 0, n = spmd_value_count(a); i < n; i++) {
        double x = spmd_value_at(a, i), y = spmd_value_at(b, i);
        if (x != y && !(isnan(x) && isnan(y))) { /* equal infinities pass, whose difference is NaN */
            if (!isfinite(x) || !isfinite(y))
                return INFINITY;
            difference = fmax(difference, fabs(x - y));
        }
        if (isfinite(y))
            largest = fmax(largest, fabs(y));
    }
    return difference / largest;
}

int64_t spmd_value_count_wrong(const spmd_value *a, const spmd_value *b)
{
    if (!same_type(a, b))
        return -1;
    size_t size = spmd_dtype_size(a->dtype);
    int64_t wrong = 0;
    for (int64_t i = 0, n = spmd_value_count(a); i < n; i++) {
        const char *x = (const char *)a->data + (size_t)i * size, *y = (const char *)b->data + (size_t)i * size;
        if (memcmp(x, y, size) && !(isnan(spmd_value_at(a, i)) && isnan(spmd_value_at(b, i))))
            wrong++;
    }
    return wrong;
}

double spmd_test_tolerance(spmd_dtype dtype)
{
    switch (dtype) {
    case SPMD_F32:
        return 1e-5;
    case SPMD_BF16:
        return 2e-2;
    case SPMD_F16:
        return 2e-3;
    default:
        return 0;
    }
}
