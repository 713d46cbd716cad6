/* layer_norm: against double, against JAX, rows far from zero, gradients, many rows, refusals. */
#include "tests/harness/golden.h"

static spmd_status layer_norm(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_layer_norm(ctx, &in[0], &in[1], &in[2], user ? *(const double *)user : 1e-5, out);
}

static const struct shape_row {
    int rank;
    int64_t shape[3];
} shapes[] = {{1, {5}}, {2, {3, 16}}, {2, {40, 17}}, {3, {2, 3, 101}}, {2, {1, 1}}, {2, {0, 4}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void operands(int i, spmd_dtype dtype, double scale, spmd_value in[3])
{
    int64_t n = shapes[i].shape[shapes[i].rank - 1];
    in[0] = spmd_value_random(dtype, NULL, shapes[i].rank, shapes[i].shape, scale, 1);
    in[1] = spmd_value_random(dtype, NULL, SPMD_SHAPE(n), 2, 2);
    in[2] = spmd_value_random(dtype, NULL, SPMD_SHAPE(n), 1, 3);
}

static void statistics(const spmd_value *x, int64_t start, int64_t n, double *mean, double *variance)
{
    *mean = *variance = 0;
    for (int64_t j = 0; j < n; j++)
        *mean += spmd_value_at(x, start + j) / (double)n;
    for (int64_t j = 0; j < n; j++)
        *variance += pow(spmd_value_at(x, start + j) - *mean, 2) / (double)n;
}

static spmd_value expected(const spmd_value in[3])
{
    spmd_value want = spmd_value_zeros(in[0].dtype, NULL, in[0].rank, in[0].shape);
    int64_t n = in[1].shape[0];
    for (int64_t i = 0; i < spmd_value_count(&want); i++) {
        double mean, variance;
        statistics(&in[0], i / n * n, n, &mean, &variance);
        double h = (spmd_value_at(&in[0], i) - mean) / sqrt(variance + 1e-5);
        spmd_value_set(&want, i, h * spmd_value_at(&in[1], i % n) + spmd_value_at(&in[2], i % n));
    }
    return want;
}

START_TEST(layer_norm_like_double)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {2e-6, 4e-3, 6e-4};
    for (int d = 0; d < 3; d++) {
        spmd_value in[3], out;
        operands(_i, dtypes[d], 3, in);
        spmd_value want = expected(in);
        ck_spmd_ok(spmd_test_op(layer_norm, NULL, 3, in, &out));
        ck_assert_double_le(spmd_value_difference(&out, &want), tolerance[d]);
        spmd_values_free((spmd_value[]){in[0], in[1], in[2], out, want}, 5);
    }
}
END_TEST

/* A mean of 1000 with deviations of 1: E[x^2] - mean^2 in f32 would be noise. */
START_TEST(layer_norm_far_from_zero)
{
    spmd_value in[3], out;
    operands(2, SPMD_F32, 1, in);
    for (int64_t i = 0; i < spmd_value_count(&in[0]); i++)
        spmd_value_set(&in[0], i, spmd_value_at(&in[0], i) + 1000);
    spmd_value want = expected(in);
    ck_spmd_ok(spmd_test_op(layer_norm, NULL, 3, in, &out));
    ck_assert_double_le(spmd_value_difference(&out, &want), 1e-4);
    spmd_values_free((spmd_value[]){in[0], in[1], in[2], out, want}, 5);
}
END_TEST

START_TEST(layer_norm_gradient)
{
    spmd_value in[3];
    operands(_i, SPMD_F32, 1, in);
    ck_assert_double_lt(spmd_test_check_grad(layer_norm, NULL, 3, in, 4), 1e-2);
    spmd_values_free(in, 3);
}
END_TEST

START_TEST(layer_norm_golden)
{
    spmd_value in[3] = {golden("ops", "layernorm.in0", NULL), golden("ops", "layernorm.in1", NULL),
                        golden("ops", "layernorm.in2", NULL)};
    spmd_value ct = golden("ops", "layernorm.ct", NULL), want = golden("ops", "layernorm.out", NULL), out, grads[3];
    spmd_value want_grads[3] = {golden("ops", "layernorm.grad0", NULL), golden("ops", "layernorm.grad1", NULL),
                                golden("ops", "layernorm.grad2", NULL)};
    ck_spmd_ok(spmd_test_op(layer_norm, NULL, 3, in, &out));
    ck_spmd_ok(spmd_test_vjp(layer_norm, NULL, 3, in, &ct, grads));
    ck_assert_double_lt(spmd_value_difference(&out, &want), 2e-6);
    for (int k = 0; k < 3; k++)
        ck_assert_double_lt(spmd_value_difference(&grads[k], &want_grads[k]), 4e-6);
    spmd_values_free(in, 3);
    spmd_values_free(grads, 3);
    spmd_values_free(want_grads, 3);
    spmd_values_free((spmd_value[]){ct, want, out}, 3);
}
END_TEST

/* Sums over more rows than one block of them, in f32 and bf16. */
START_TEST(layer_norm_gradient_of_many_rows)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16};
    static const double tolerance[] = {1e-6, 1e-2};
    int64_t rows = 1001, n = 5;
    spmd_value in[3] = {spmd_value_random(dtypes[_i], NULL, SPMD_SHAPE(rows, n), 1, 1),
                        spmd_value_random(dtypes[_i], NULL, SPMD_SHAPE(n), 1, 2),
                        spmd_value_random(dtypes[_i], NULL, SPMD_SHAPE(n), 1, 3)};
    spmd_value ct = spmd_value_random(dtypes[_i], NULL, SPMD_SHAPE(rows, n), 1, 4), grads[3];
    spmd_value gain = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(n)),
               bias = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(n));
    for (int64_t j = 0; j < n; j++) {
        double sum_gain = 0, sum_bias = 0, mean, variance;
        for (int64_t r = 0; r < rows; r++) {
            statistics(&in[0], r * n, n, &mean, &variance);
            double c = spmd_value_at(&ct, r * n + j);
            sum_gain += c * (spmd_value_at(&in[0], r * n + j) - mean) / sqrt(variance + 1e-5);
            sum_bias += c;
        }
        spmd_value_set(&gain, j, sum_gain);
        spmd_value_set(&bias, j, sum_bias);
    }
    ck_spmd_ok(spmd_test_vjp(layer_norm, NULL, 3, in, &ct, grads));
    for (int64_t j = 0; j < n; j++) {
        ck_assert_double_eq_tol(spmd_value_at(&grads[1], j), spmd_value_at(&gain, j), tolerance[_i] * (double)rows);
        ck_assert_double_eq_tol(spmd_value_at(&grads[2], j), spmd_value_at(&bias, j), tolerance[_i] * (double)rows);
    }
    spmd_values_free((spmd_value[]){in[0], in[1], in[2], ct, grads[0], grads[1], grads[2], gain, bias}, 9);
}
END_TEST

START_TEST(layer_norm_of_a_constant_is_its_bias)
{
    spmd_value in[3], out;
    operands(1, SPMD_F32, 0, in);
    ck_spmd_ok(spmd_test_op(layer_norm, NULL, 3, in, &out));
    for (int64_t i = 0; i < spmd_value_count(&out); i++)
        ck_assert_double_eq(spmd_value_at(&out, i), spmd_value_at(&in[2], i % 16));
    spmd_values_free((spmd_value[]){in[0], in[1], in[2], out}, 4);
}
END_TEST

START_TEST(layer_norm_refuses)
{
    spmd_value in[3], out;
    operands(1, SPMD_F32, 1, in);
    double negative = -1;
    ck_spmd_fails(spmd_test_op(layer_norm, &negative, 3, in, &out), SPMD_EINVAL, "epsilon is -1");
    spmd_value wrong[3] = {in[0], in[1], spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(4))};
    ck_spmd_fails(spmd_test_op(layer_norm, NULL, 3, wrong, &out), SPMD_ESHAPE,
                  "x is f32[3,16], gain is f32[16], bias is f32[4]");
    spmd_value_free(&wrong[2]);
    wrong[2] = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(16));
    ck_spmd_fails(spmd_test_op(layer_norm, NULL, 3, wrong, &out), SPMD_EDTYPE, "bias is bf16[16]: expected one dtype");
    spmd_value_free(&wrong[2]);
    spmd_values_free(in, 3);
}
END_TEST

SPMD_TEST_MAIN("layer_norm", tcase_add_loop_test(tc, layer_norm_like_double, 0, SHAPES);
               tcase_add_test(tc, layer_norm_far_from_zero); tcase_add_loop_test(tc, layer_norm_gradient, 0, 4);
               tcase_add_test(tc, layer_norm_golden); tcase_add_loop_test(tc, layer_norm_gradient_of_many_rows, 0, 2);
               tcase_add_test(tc, layer_norm_of_a_constant_is_its_bias); tcase_add_test(tc, layer_norm_refuses);)
