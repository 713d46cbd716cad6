/* sum, mean, max over every set of dimensions against a loop over indices in double, argmax, accuracy, NaN, errors. */
#include "spmd/testing.h"

typedef spmd_status reduce_fn(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep, spmd_tensor *out);

typedef struct reduction {
    reduce_fn *fn;
    const int *dims;
    int n;
    bool keep;
} reduction;

static spmd_status reduce_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const reduction *r = user;
    return r->fn(ctx, &in[0], r->dims, r->n, r->keep, out);
}

static reduce_fn *const fns[] = {spmd_sum, spmd_mean, spmd_max};
enum { SUM, MEAN, MAX, FNS };

static const struct {
    int rank;
    int64_t shape[SPMD_MAX_RANK];
} shapes[] = {{0, {0}},       {1, {1}},        {1, {1031}},       {2, {7, 13}},
              {2, {5, 2050}}, {3, {3, 1, 17}}, {4, {2, 3, 5, 7}}, {6, {2, 1, 3, 2, 1, 4}},
              {2, {0, 3}},    {2, {3, 0}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* The reduction of x over `mask` in double, with sizes of 1 kept. */
static spmd_value reference(int fn, const spmd_value *x, unsigned mask)
{
    int64_t shape[SPMD_MAX_RANK], per = 1;
    for (int d = 0; d < x->rank; d++) {
        shape[d] = mask >> d & 1 ? 1 : x->shape[d];
        per *= mask >> d & 1 ? x->shape[d] : 1;
    }
    spmd_value out = spmd_value_zeros(x->dtype, NULL, x->rank, shape);
    double *sum = calloc((size_t)spmd_value_count(&out) + 1, sizeof *sum);
    ck_assert_ptr_nonnull(sum);
    for (int64_t i = 0; fn == MAX && i < spmd_value_count(&out); i++)
        sum[i] = -INFINITY;
    for (int64_t i = 0; i < spmd_value_count(x); i++) {
        int64_t at = 0, stride = 1, left = i;
        for (int d = x->rank - 1; d >= 0; d--) {
            at += (mask >> d & 1 ? 0 : left % x->shape[d]) * stride;
            left /= x->shape[d];
            stride *= shape[d];
        }
        sum[at] = fn == MAX ? fmax(sum[at], spmd_value_at(x, i)) : sum[at] + spmd_value_at(x, i);
    }
    for (int64_t i = 0; i < spmd_value_count(&out); i++)
        spmd_value_set(&out, i, fn == MEAN ? sum[i] / (double)per : sum[i]);
    free(sum);
    return out;
}

static void check(int fn, const spmd_value *x, unsigned mask, bool keep)
{
    int dims[SPMD_MAX_RANK], n = 0, kept = 0;
    for (int d = x->rank - 1; d >= 0; d--)
        if (mask >> d & 1)
            dims[n++] = d % 2 ? d - x->rank : d; /* in any order, also from the end */
    reduction r = {fns[fn], dims, n, keep};
    spmd_value y, want = reference(fn, x, mask);
    ck_spmd_ok(spmd_test_op(reduce_op, &r, 1, x, &y));
    for (int d = 0; d < x->rank; d++) {
        bool reduced = mask >> d & 1;
        if (!reduced || keep)
            ck_assert_int_eq(y.shape[kept++], reduced ? 1 : x->shape[d]);
    }
    ck_assert_int_eq(y.rank, kept);
    ck_assert_int_eq(spmd_value_count(&y), spmd_value_count(&want));
    for (int64_t i = 0; i < spmd_value_count(&want); i++) {
        double got = spmd_value_at(&y, i), w = spmd_value_at(&want, i), most = x->dtype == SPMD_F32 ? 1e-7 : 1e-2;
        ck_assert_msg((isnan(got) && isnan(w)) || got == w || fabs(got - w) <= most * fabs(w), "%d mask %x: %g not %g",
                      fn, mask, got, w);
    }
    spmd_values_free((spmd_value[]){y, want}, 2);
}

START_TEST(reduction_like_reference)
{
    int fn = _i % FNS, s = _i / FNS % SHAPES;
    spmd_dtype dtype = _i / FNS / SHAPES ? SPMD_BF16 : SPMD_F32;
    spmd_value x = spmd_value_random(dtype, NULL, shapes[s].rank, shapes[s].shape, 3, 17);
    for (unsigned mask = 0; mask < 1u << x.rank; mask++)
        check(fn, &x, mask, mask % 2);
    spmd_value_free(&x);
}
END_TEST

START_TEST(reduction_gradient)
{
    static const int dims[] = {-1, 0};
    reduction r = {fns[_i % FNS], dims, 2, _i / FNS % 2};
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(3, 4, 5), 3, 23);
    /* maxima so far apart that a small step swaps none */
    for (int64_t i = 0; i < spmd_value_count(&x); i++)
        spmd_value_set(&x, i, spmd_value_at(&x, i) / 30 + (double)(i * 7 % 60));
    ck_assert_double_lt(spmd_test_check_grad(reduce_op, &r, 1, &x, 1), 1e-2);
    r.dims = NULL;
    ck_assert_double_lt(spmd_test_check_grad(reduce_op, &r, 1, &x, 1), 1e-2);
    spmd_value_free(&x);
}
END_TEST

/* A million elements, along rows and along columns: the error of a plain f32 loop would be 1e-4. */
START_TEST(long_sums_are_accurate)
{
    const int dim = _i;
    reduction r = {spmd_sum, &dim, 1, false};
    spmd_value x = spmd_value_random(SPMD_F32, NULL, _i ? 1 : 2, (int64_t[]){1000003, 1}, 1, 1), y;
    r.dims = NULL;
    double want = 0;
    for (int64_t i = 0; i < spmd_value_count(&x); i++) {
        spmd_value_set(&x, i, spmd_value_at(&x, i) + 1);
        want += spmd_value_at(&x, i);
    }
    if (_i == 0) { /* as columns: two of them */
        x.shape[0] = 500001;
        x.shape[1] = 2;
        want -= spmd_value_at(&x, 1000002);
        r = (reduction){spmd_sum, &dim, 1, false};
    }
    ck_spmd_ok(spmd_test_op(reduce_op, &r, 1, &x, &y));
    double got = spmd_value_at(&y, 0) + (_i ? 0 : spmd_value_at(&y, 1));
    ck_assert_double_lt(fabs(got - want) / want, 1e-7);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

/* 256 + 1 + 1 + .. stays 256 if bf16 adds: the sum is made in a wider type and rounded once. */
START_TEST(bf16_sums_round_once)
{
    reduction r = {spmd_sum, NULL, 0, false};
    spmd_value x = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(257)), y;
    for (int i = 0; i < 257; i++)
        spmd_value_set(&x, i, i ? 1 : 256);
    ck_spmd_ok(spmd_test_op(reduce_op, &r, 1, &x, &y));
    ck_assert(spmd_value_at(&y, 0) == 512);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

START_TEST(maxima_share_the_gradient)
{
    static const int last = 1;
    reduction r = {spmd_max, &last, 1, false};
    spmd_value x = spmd_value_f32(NULL, SPMD_SHAPE(3, 4), (float[]){1, 5, 5, 2, -INFINITY, -1, -3, -1, 1, NAN, 3, 0});
    spmd_value ct = spmd_value_f32(NULL, SPMD_SHAPE(3), (float[]){8, 6, 1}), y, g;
    const double want[] = {0, 4, 4, 0, 0, 3, 0, 3, 0, 0, 0, 0}; /* NaN equals nothing: no maximum to take it */
    ck_spmd_ok(spmd_test_op(reduce_op, &r, 1, &x, &y));
    ck_assert(spmd_value_at(&y, 0) == 5 && spmd_value_at(&y, 1) == -1 && isnan(spmd_value_at(&y, 2)));
    ck_spmd_ok(spmd_test_vjp(reduce_op, &r, 1, &x, &ct, &g));
    for (int i = 0; i < 12; i++)
        ck_assert_msg(spmd_value_at(&g, i) == want[i], "%d: %g", i, spmd_value_at(&g, i));
    spmd_values_free((spmd_value[]){x, ct, y, g}, 4);
}
END_TEST

START_TEST(max_keeps_nan_anywhere)
{
    static const int dims[] = {0, 1};
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(19, 19), 3, 2), y;
    spmd_value_set(&x, _i, NAN);
    for (int k = 0; k < 3; k++) { /* over all, over columns, over rows */
        reduction r = {spmd_max, k ? &dims[k - 1] : NULL, 1, false};
        int at = k == 0 ? 0 : k == 1 ? _i % 19 : _i / 19;
        ck_spmd_ok(spmd_test_op(reduce_op, &r, 1, &x, &y));
        for (int i = 0; i < spmd_value_count(&y); i++)
            ck_assert(isnan(spmd_value_at(&y, i)) == (i == at));
        spmd_value_free(&y);
    }
    spmd_value_free(&x);
}
END_TEST

static spmd_status argmax_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_argmax(ctx, &in[0], *(int *)user, out);
}

START_TEST(argmax_like_reference)
{
    int dim = _i % 3, from_the_end = dim - 3;
    spmd_dtype dtype = _i / 3 ? SPMD_BF16 : SPMD_F32;
    spmd_value x = spmd_value_exact(dtype, NULL, SPMD_SHAPE(4, 11, 6), 3), y; /* eight values: many ties */
    ck_spmd_ok(spmd_test_op(argmax_op, _i / 3 ? &from_the_end : &dim, 1, &x, &y));
    ck_assert(y.dtype == SPMD_I32 && y.rank == 2);
    int64_t inner = dim == 2 ? 1 : dim == 1 ? 6 : 66;
    for (int64_t i = 0; i < spmd_value_count(&y); i++) {
        int64_t base = i / inner * inner * x.shape[dim] + i % inner, best = 0;
        for (int64_t k = 1; k < x.shape[dim]; k++)
            if (spmd_value_at(&x, base + k * inner) > spmd_value_at(&x, base + best * inner))
                best = k;
        ck_assert_int_eq((int64_t)spmd_value_at(&y, i), best);
    }
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

START_TEST(argmax_takes_the_first_nan)
{
    int dim = 1;
    spmd_value x = spmd_value_f32(NULL, SPMD_SHAPE(2, 4),
                                  (float[]){1, NAN, 9, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY}),
               y;
    ck_spmd_ok(spmd_test_op(argmax_op, &dim, 1, &x, &y));
    ck_assert(spmd_value_at(&y, 0) == 1 && spmd_value_at(&y, 1) == 0);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

START_TEST(reduction_errors)
{
    static const int twice[] = {1, -1}, far[] = {2};
    int zero = 0, two = 2;
    reduction r = {spmd_mean, twice, 2, false};
    spmd_value x = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(4, 8)),
               n = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(4));
    spmd_value empty = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(0, 3)), y;
    ck_spmd_fails(spmd_test_op(reduce_op, &r, 1, &x, &y), SPMD_EINVAL, "mean: dims[1] is dimension 1");
    r = (reduction){spmd_sum, far, 1, false};
    ck_spmd_fails(spmd_test_op(reduce_op, &r, 1, &x, &y), SPMD_ESHAPE, "sum");
    r.dims = NULL;
    ck_spmd_fails(spmd_test_op(reduce_op, &r, 1, &n, &y), SPMD_EDTYPE, "sum");
    ck_spmd_fails(spmd_test_op(argmax_op, &zero, 1, &empty, &y), SPMD_ESHAPE,
                  "argmax: dimension 0 of f32[0,3] is empty");
    ck_spmd_fails(spmd_test_op(argmax_op, &two, 1, &x, &y), SPMD_ESHAPE, "argmax");
    ck_spmd_fails(spmd_test_op(argmax_op, &zero, 1, &n, &y), SPMD_EDTYPE, "argmax");
    spmd_values_free((spmd_value[]){x, n, empty}, 3);
}
END_TEST

SPMD_TEST_MAIN("reductions", tcase_add_loop_test(tc, reduction_like_reference, 0, FNS *SHAPES * 2);
               tcase_add_loop_test(tc, reduction_gradient, 0, 2 * FNS);
               tcase_add_loop_test(tc, long_sums_are_accurate, 0, 2); tcase_add_test(tc, bf16_sums_round_once);
               tcase_add_test(tc, maxima_share_the_gradient); tcase_add_loop_test(tc, max_keeps_nan_anywhere, 0, 40);
               tcase_add_loop_test(tc, argmax_like_reference, 0, 6); tcase_add_test(tc, argmax_takes_the_first_nan);
               tcase_add_test(tc, reduction_errors);)
