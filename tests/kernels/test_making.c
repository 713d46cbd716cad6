/* full, iota, one_hot, cast. */
#include "spmd/testing.h"

static spmd_status full_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    return spmd_full(ctx, *(double *)user, SPMD_F32, SPMD_SHAPE(3, 1031), out);
}

/* Made on every shard alike: a replicated output is accepted. */
static spmd_status full_of_every_dtype(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    for (int k = 0; k < SPMD_DTYPE_COUNT; k++)
        SPMD_TRY(spmd_full(ctx, *(double *)user, (spmd_dtype)k, SPMD_SHAPE(2, 3), &out[k]));
    return SPMD_OK;
}

START_TEST(full_converts)
{
    static const struct {
        double value, want[SPMD_DTYPE_COUNT]; /* f32, bf16, f16, i8, i32, i64, u8, bool */
    } rows[] = {
        {3, {3, 3, 3, 3, 3, 3, 3, 1}},
        {0, {0, 0, 0, 0, 0, 0, 0, 0}},
        {-2.75, {-2.75, -2.75, -2.75, -2, -2, -2, 0, 1}},
        {300, {300, 300, 300, 127, 300, 300, 255, 1}},
        {1e10, {1e10, 9999220736.0, INFINITY, 127, INT32_MAX, 1e10, 255, 1}},
    };
    spmd_value y[SPMD_DTYPE_COUNT] = {{0}};
    ck_spmd_ok(spmd_test_run("x=2", full_of_every_dtype, (void *)&rows[_i].value, 0, NULL, SPMD_DTYPE_COUNT, y));
    for (int k = 0; k < SPMD_DTYPE_COUNT; k++) {
        ck_assert_int_eq(y[k].dtype, k);
        ck_assert_int_eq(spmd_value_count(&y[k]), 6);
        for (int i = 0; i < 6; i++)
            ck_assert_msg(spmd_value_at(&y[k], i) == rows[_i].want[k], "%s %g", spmd_dtype_name((spmd_dtype)k),
                          spmd_value_at(&y[k], i));
    }
    spmd_values_free(y, SPMD_DTYPE_COUNT);
}
END_TEST

START_TEST(full_fills_all)
{
    double pi = 3.25;
    spmd_value y;
    ck_spmd_ok(spmd_test_op(full_op, &pi, 0, NULL, &y));
    ck_assert_int_eq(spmd_value_count(&y), 3 * 1031);
    for (int64_t i = 0; i < spmd_value_count(&y); i++)
        ck_assert(spmd_value_at(&y, i) == pi);
    spmd_value_free(&y);
}
END_TEST

typedef struct make {
    spmd_dtype dtype;
    int64_t n;
} make;

static spmd_status iota_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const make *m = user;
    (void)in;
    return spmd_iota(ctx, m->dtype, m->n, out);
}

START_TEST(iota_counts)
{
    const spmd_dtype dtypes[] = {SPMD_F32, SPMD_I32, SPMD_I64};
    const int64_t sizes[] = {0, 1, 1031};
    make m = {dtypes[_i % 3], sizes[_i / 3]};
    spmd_value y;
    ck_spmd_ok(spmd_test_op(iota_op, &m, 0, NULL, &y));
    ck_assert(y.dtype == m.dtype && y.rank == 1 && y.shape[0] == m.n);
    for (int64_t i = 0; i < m.n; i++)
        ck_assert(spmd_value_at(&y, i) == (double)i);
    spmd_value_free(&y);
}
END_TEST

static spmd_status one_hot_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const make *m = user;
    return spmd_one_hot(ctx, &in[0], m->n, m->dtype, out);
}

START_TEST(one_hot_sets_one)
{
    static const int32_t indices[] = {0, 6, 3, -1, 7, INT32_MAX};
    make m = {(spmd_dtype)_i, 7};
    spmd_value x = spmd_value_i32(NULL, SPMD_SHAPE(2, 3), indices), y;
    ck_spmd_ok(spmd_test_op(one_hot_op, &m, 1, &x, &y));
    ck_assert(y.dtype == m.dtype && y.rank == 3 && y.shape[0] == 2 && y.shape[1] == 3 && y.shape[2] == 7);
    for (int64_t i = 0; i < spmd_value_count(&y); i++)
        ck_assert(spmd_value_at(&y, i) == (indices[i / 7] == i % 7));
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static spmd_status cast_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_cast(ctx, &in[0], ((const make *)user)->dtype, out);
}

/* What small integers are in every dtype is exact: all pairs agree, more than a tile of them. */
START_TEST(cast_keeps_small_integers)
{
    spmd_dtype from = (spmd_dtype)(_i / SPMD_DTYPE_COUNT), to = (spmd_dtype)(_i % SPMD_DTYPE_COUNT);
    make m = {to, 0};
    spmd_value x = spmd_value_exact(from, NULL, SPMD_SHAPE(1031), 5), y;
    ck_spmd_ok(spmd_test_op(cast_op, &m, 1, &x, &y));
    ck_assert_int_eq(y.dtype, to);
    for (int64_t i = 0; i < spmd_value_count(&x); i++)
        ck_assert(spmd_value_at(&y, i) == (to == SPMD_BOOL ? spmd_value_at(&x, i) != 0 : spmd_value_at(&x, i)));
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static const struct {
    spmd_dtype from, to;
    double x, want;
} casts[] = {
    {SPMD_F32, SPMD_I32, 2.9, 2},
    {SPMD_F32, SPMD_I32, -2.9, -2},
    {SPMD_F32, SPMD_I32, 1e10, INT32_MAX},
    {SPMD_F32, SPMD_I32, -INFINITY, INT32_MIN},
    {SPMD_F32, SPMD_I32, NAN, 0},
    {SPMD_F32, SPMD_I64, 1e30, 9223372036854775808.0},
    {SPMD_F32, SPMD_I8, -1000, -128},
    {SPMD_F32, SPMD_U8, -3, 0},
    {SPMD_BF16, SPMD_U8, 400, 255},
    {SPMD_F32, SPMD_BOOL, 0.25, 1},
    {SPMD_F32, SPMD_BOOL, -0.0, 0},
    {SPMD_I32, SPMD_I8, 300, 44}, /* integers wrap */
    {SPMD_I64, SPMD_BOOL, 4294967296.0, 1},
    {SPMD_I32, SPMD_F32, 16777217, 16777216},
    {SPMD_F32, SPMD_BF16, 1.00390625, 1}, /* halfway: to even */
    {SPMD_F32, SPMD_BF16, 1.01171875, 1.015625},
    {SPMD_F32, SPMD_F16, 65520, INFINITY},
    {SPMD_F32, SPMD_F16, 5.9604645e-8, 5.9604644775390625e-8},
    {SPMD_BF16, SPMD_F16, NAN, NAN},
};

START_TEST(cast_at_the_edges)
{
    make m = {casts[_i].to, 0};
    spmd_value x = spmd_value_zeros(casts[_i].from, NULL, 0, NULL), y;
    spmd_value_set(&x, 0, casts[_i].x);
    ck_spmd_ok(spmd_test_op(cast_op, &m, 1, &x, &y));
    bool same = spmd_value_at(&y, 0) == casts[_i].want || (isnan(casts[_i].want) && isnan(spmd_value_at(&y, 0)));
    ck_assert_msg(same, "%g to %s: %g, not %g", casts[_i].x, spmd_dtype_name(m.dtype), spmd_value_at(&y, 0),
                  casts[_i].want);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

START_TEST(cast_gradient_has_the_inputs_dtype)
{
    make m = {SPMD_BF16, 0};
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(9), 1, 1),
               ct = spmd_value_exact(SPMD_BF16, NULL, SPMD_SHAPE(9), 2), g;
    ck_spmd_ok(spmd_test_vjp(cast_op, &m, 1, &x, &ct, &g));
    ck_assert_int_eq(g.dtype, SPMD_F32);
    for (int i = 0; i < 9; i++)
        ck_assert(spmd_value_at(&g, i) == spmd_value_at(&ct, i));
    spmd_values_free((spmd_value[]){x, ct, g}, 3);
}
END_TEST

START_TEST(making_errors)
{
    spmd_value f = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(4)), y;
    spmd_value deep = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(1, 1, 1, 1, 1, 1));
    make bf16 = {SPMD_BF16, 3}, negative = {SPMD_F32, -3}, odd = {SPMD_DTYPE_COUNT, 3};
    ck_spmd_fails(spmd_test_op(iota_op, &bf16, 0, NULL, &y), SPMD_EDTYPE, "iota: dtype bf16, expected f32, i32 or i64");
    ck_spmd_fails(spmd_test_op(iota_op, &negative, 0, NULL, &y), SPMD_ESHAPE, "iota: n is -3");
    ck_spmd_fails(spmd_test_op(one_hot_op, &bf16, 1, &f, &y), SPMD_EDTYPE, "one_hot: indices are f32[4]");
    ck_spmd_fails(spmd_test_op(one_hot_op, &negative, 1, &deep, &y), SPMD_ESHAPE, "one_hot: classes is -3");
    ck_spmd_fails(spmd_test_op(one_hot_op, &bf16, 1, &deep, &y), SPMD_ESHAPE, "rank at most 5");
    ck_spmd_fails(spmd_test_op(cast_op, &odd, 1, &f, &y), SPMD_EDTYPE, "cast: dtype 8");
    spmd_values_free((spmd_value[]){f, deep}, 2);
}
END_TEST

SPMD_TEST_MAIN("making", tcase_add_loop_test(tc, full_converts, 0, 5); tcase_add_test(tc, full_fills_all);
               tcase_add_loop_test(tc, iota_counts, 0, 9);
               tcase_add_loop_test(tc, one_hot_sets_one, 0, SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, cast_keeps_small_integers, 0, SPMD_DTYPE_COUNT *SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, cast_at_the_edges, 0, (int)(sizeof casts / sizeof casts[0]));
               tcase_add_test(tc, cast_gradient_has_the_inputs_dtype); tcase_add_test(tc, making_errors);)
