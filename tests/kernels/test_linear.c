/* linear, linear_gelu and bias_gelu: against double, against JAX, against the unfused ops, gradients, refusals. */
#include "tests/harness/golden.h"

typedef spmd_status affine_fn(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w, const spmd_tensor *bias,
                              spmd_tensor *out);

static spmd_status affine(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return (*(affine_fn *const *)user)(ctx, &in[0], &in[1], &in[2], out);
}

static spmd_status bias_gelu(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_bias_gelu(ctx, &in[0], &in[1], out);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static const struct op_row {
    affine_fn *fn;
    bool gelu;
} ops[] = {{spmd_linear, false}, {spmd_linear_gelu, true}};

static const struct shape_row {
    int rank;
    int64_t x[3], n;
} shapes[] = {{2, {1, 1}, 1},     {2, {7, 13}, 5}, {2, {65, 33}, 17}, {1, {9}, 4},
              {3, {2, 3, 11}, 6}, {2, {0, 3}, 4},  {2, {3, 0}, 4},    {2, {3, 4}, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void operands(const struct shape_row *s, spmd_dtype dtype, spmd_value in[3])
{
    int64_t k = s->x[s->rank - 1];
    in[0] = spmd_value_random(dtype, NULL, s->rank, s->x, 1, 1);
    in[1] = spmd_value_random(dtype, NULL, SPMD_SHAPE(k, s->n), 1, 2);
    in[2] = spmd_value_random(dtype, NULL, SPMD_SHAPE(s->n), 2, 3);
}

START_TEST(affine_like_double)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {2e-6, 4e-3, 6e-4};
    const struct shape_row *s = &shapes[_i];
    for (int d = 0; d < 3; d++)
        for (int o = 0; o < 2; o++) {
            spmd_value in[3], out;
            operands(s, dtypes[d], in);
            affine_fn *fn = ops[o].fn;
            ck_spmd_ok(spmd_test_op(affine, &fn, 3, in, &out));
            spmd_value want = spmd_value_zeros(dtypes[d], NULL, out.rank, out.shape);
            ck_assert_int_eq(out.rank, s->rank);
            ck_assert_int_eq(out.shape[s->rank - 1], s->n);
            int64_t k = s->x[s->rank - 1];
            for (int64_t i = 0; i < spmd_value_count(&want); i++) {
                double z = spmd_value_at(&in[2], i % s->n);
                for (int64_t p = 0; p < k; p++)
                    z += spmd_value_at(&in[0], i / s->n * k + p) * spmd_value_at(&in[1], p * s->n + i % s->n);
                spmd_value_set(&want, i, ops[o].gelu ? gelu(z) : z);
            }
            double error = spmd_value_difference(&out, &want);
            ck_assert_msg(error <= tolerance[d], "shape %d, op %d, %s: %g", _i, o, spmd_dtype_name(dtypes[d]), error);
            spmd_values_free((spmd_value[]){in[0], in[1], in[2], out, want}, 5);
        }
}
END_TEST

START_TEST(affine_gradient)
{
    for (int o = 0; o < 2; o++) {
        spmd_value in[3];
        operands(&shapes[_i], SPMD_F32, in);
        affine_fn *fn = ops[o].fn;
        double error = spmd_test_check_grad(affine, &fn, 3, in, 7);
        ck_assert_msg(error < 1e-2, "shape %d, op %d: %g", _i, o, error);
        spmd_values_free(in, 3);
    }
}
END_TEST

/* The same with ops of their own, which have their own tests. */
static spmd_status unfused(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, false, out));
    SPMD_TRY(spmd_add(ctx, out, &in[2], out));
    return spmd_gelu(ctx, out, out);
}

START_TEST(fused_like_unfused)
{
    static const double tolerance[] = {2e-6, 2e-2};
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16};
    spmd_value in[3], want[3], got[3];
    operands(&shapes[2], dtypes[_i], in);
    spmd_value ct = spmd_value_random(dtypes[_i], NULL, SPMD_SHAPE(65, 17), 1, 9);
    affine_fn *fn = spmd_linear_gelu;
    ck_spmd_ok(spmd_test_vjp(affine, &fn, 3, in, &ct, got));
    ck_spmd_ok(spmd_test_vjp(unfused, NULL, 3, in, &ct, want));
    for (int k = 0; k < 3; k++) {
        double error = spmd_value_difference(&got[k], &want[k]);
        ck_assert_msg(error <= tolerance[_i], "gradient %d: %g", k, error);
    }
    spmd_values_free(in, 3);
    spmd_values_free(got, 3);
    spmd_values_free(want, 3);
    spmd_value_free(&ct);
}
END_TEST

/* 5000 rows of one sum each: blocks of rows keep the column sums exact. */
START_TEST(bias_gradient_of_many_rows)
{
    spmd_value in[3] = {spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(5000, 1)),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(1, 3)),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(3))};
    spmd_value ct = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(5000, 3), 1, 4);
    for (int o = 0; o < 2; o++) {
        spmd_value grads[3];
        affine_fn *fn = ops[o].fn;
        ck_spmd_ok(spmd_test_vjp(affine, &fn, 3, in, &ct, grads));
        for (int64_t j = 0; j < 3; j++) {
            double sum = 0;
            for (int64_t r = 0; r < 5000; r++)
                sum += spmd_value_at(&ct, 3 * r + j) * (ops[o].gelu ? 0.5 : 1); /* gelu'(0) = 1/2 */
            ck_assert_double_eq_tol(spmd_value_at(&grads[2], j), sum, 1e-5 * sqrt(5000));
        }
        spmd_values_free(grads, 3);
    }
    spmd_values_free(in, 3);
    spmd_value_free(&ct);
}
END_TEST

START_TEST(bias_gelu_golden)
{
    spmd_value in[2] = {golden("ops", "bias_gelu.in0", NULL), golden("ops", "bias_gelu.in1", NULL)}, out, grads[2];
    spmd_value ct = golden("ops", "bias_gelu.ct", NULL), want = golden("ops", "bias_gelu.out", NULL);
    spmd_value want0 = golden("ops", "bias_gelu.grad0", NULL), want1 = golden("ops", "bias_gelu.grad1", NULL);
    ck_spmd_ok(spmd_test_op(bias_gelu, NULL, 2, in, &out));
    ck_spmd_ok(spmd_test_vjp(bias_gelu, NULL, 2, in, &ct, grads));
    ck_assert_double_lt(spmd_value_difference(&out, &want), 1e-6);
    ck_assert_double_lt(spmd_value_difference(&grads[0], &want0), 1e-6);
    ck_assert_double_lt(spmd_value_difference(&grads[1], &want1), 1e-5);
    spmd_values_free((spmd_value[]){in[0], in[1], out, grads[0], grads[1], ct, want, want0, want1}, 9);
}
END_TEST

START_TEST(bias_gelu_bf16_rounds_once)
{
    spmd_value in[2] = {spmd_value_random(SPMD_BF16, NULL, SPMD_SHAPE(5, 37), 3, 1),
                        spmd_value_random(SPMD_BF16, NULL, SPMD_SHAPE(37), 1, 2)},
               out;
    ck_spmd_ok(spmd_test_op(bias_gelu, NULL, 2, in, &out));
    spmd_value want = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(5, 37));
    for (int64_t i = 0; i < 5 * 37; i++)
        spmd_value_set(&want, i, gelu(spmd_value_at(&in[0], i) + spmd_value_at(&in[1], i % 37)));
    ck_assert_int_le(spmd_value_count_wrong(&out, &want), 2); /* ties that the last f32 bit decides */
    spmd_values_free((spmd_value[]){in[0], in[1], out, want}, 4);
}
END_TEST

START_TEST(gelu_keeps_nan)
{
    spmd_value in[2] = {spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(20)),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(20))},
               out;
    spmd_value_set(&in[0], 3, NAN);
    spmd_value_set(&in[0], 4, 1e30);
    spmd_value_set(&in[0], 5, -INFINITY);
    ck_spmd_ok(spmd_test_op(bias_gelu, NULL, 2, in, &out));
    ck_assert(isnan(spmd_value_at(&out, 3)));
    ck_assert_float_eq((float)spmd_value_at(&out, 4), 1e30f);
    ck_assert_double_lt(fabs(spmd_value_at(&out, 5)), 1e-30);
    ck_assert_double_eq(spmd_value_at(&out, 6), 0);
    spmd_values_free((spmd_value[]){in[0], in[1], out}, 3);
}
END_TEST

START_TEST(linear_refuses)
{
    static const struct {
        spmd_dtype dtype;
        int64_t x[2], w[2], bias;
        spmd_status status;
        const char *needle;
    } rows[] = {
        {SPMD_F32, {2, 3}, {4, 5}, 5, SPMD_ESHAPE, "x is f32[2,3], w is f32[4,5]: expected x [.., k] and w [k, n]"},
        {SPMD_F32, {2, 3}, {3, 5}, 4, SPMD_ESHAPE, "bias is f32[4], w is f32[3,5]"},
        {SPMD_BF16, {2, 3}, {3, 5}, 5, SPMD_EDTYPE, "w is bf16[3,5], bias is f32[5]: expected one dtype"},
    };
    spmd_value in[3] = {spmd_value_zeros(SPMD_F32, NULL, 2, rows[_i].x),
                        spmd_value_zeros(rows[_i].dtype, NULL, 2, rows[_i].w),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(rows[_i].bias))},
               out;
    affine_fn *linear = spmd_linear, *fused = spmd_linear_gelu;
    ck_spmd_fails(spmd_test_op(affine, &linear, 3, in, &out), rows[_i].status, rows[_i].needle);
    ck_spmd_fails(spmd_test_op(affine, &fused, 3, in, &out), rows[_i].status, "linear_gelu: ");
    spmd_values_free(in, 3);
}
END_TEST

START_TEST(bias_gelu_refuses)
{
    spmd_value in[2] = {spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(2, 3)),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(2))},
               out;
    ck_spmd_fails(spmd_test_op(bias_gelu, NULL, 2, in, &out), SPMD_ESHAPE, "x is f32[2,3], bias is f32[2]");
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("linear", tcase_add_loop_test(tc, affine_like_double, 0, SHAPES);
               tcase_add_loop_test(tc, affine_gradient, 0, 5); tcase_add_loop_test(tc, fused_like_unfused, 0, 2);
               tcase_add_test(tc, bias_gradient_of_many_rows); tcase_add_test(tc, bias_gelu_golden);
               tcase_add_test(tc, bias_gelu_bf16_rounds_once); tcase_add_test(tc, gelu_keeps_nan);
               tcase_add_loop_test(tc, linear_refuses, 0, 3); tcase_add_test(tc, bias_gelu_refuses);)
