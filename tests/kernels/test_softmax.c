/* softmax and softmax_cross_entropy: against double, against JAX, extreme rows, gradients, refusals. */
#include "tests/harness/golden.h"

static spmd_status softmax(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_softmax(ctx, &in[0], out);
}

static spmd_status cross_entropy(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_softmax_cross_entropy(ctx, &in[0], &in[1], out);
}

static const struct shape_row {
    int rank;
    int64_t shape[3];
} shapes[] = {{1, {1}},         {1, {7}},       {2, {3, 16}}, {2, {5, 17}},
              {3, {2, 3, 101}}, {2, {2, 1000}}, {2, {0, 4}},  {2, {3, 1}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The row's largest element and the sum of exponentials below it. */
static double log_sum(const spmd_value *x, int64_t start, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, spmd_value_at(x, start + j));
    for (int64_t j = 0; j < n; j++)
        sum += exp(spmd_value_at(x, start + j) - max);
    return max + log(sum);
}

START_TEST(softmax_like_double)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {1e-6, 4e-3, 5e-4};
    for (int d = 0; d < 3; d++) {
        spmd_value x = spmd_value_random(dtypes[d], NULL, shapes[_i].rank, shapes[_i].shape, 8, 1), out;
        spmd_value want = spmd_value_zeros(dtypes[d], NULL, x.rank, x.shape);
        int64_t n = x.shape[x.rank - 1];
        for (int64_t i = 0; i < spmd_value_count(&x); i++)
            spmd_value_set(&want, i, exp(spmd_value_at(&x, i) - log_sum(&x, i / n * n, n)));
        ck_spmd_ok(spmd_test_op(softmax, NULL, 1, &x, &out));
        ck_assert_double_le(spmd_value_difference(&out, &want), tolerance[d]);
        spmd_values_free((spmd_value[]){x, out, want}, 3);
    }
}
END_TEST

START_TEST(softmax_extremes)
{
    float data[4][3] = {{1e30f, 0, -1e30f}, {-INFINITY, 0, 0}, {NAN, 0, 0}, {-200, -200, -200}};
    spmd_value x = spmd_value_f32(NULL, SPMD_SHAPE(4, 3), data[0]), out;
    ck_spmd_ok(spmd_test_op(softmax, NULL, 1, &x, &out));
    const float *y = out.data;
    ck_assert_float_eq(y[0], 1);
    ck_assert_float_eq(y[1], 0);
    ck_assert_float_eq(y[3], 0);
    ck_assert_float_eq(y[4], 0.5f);
    ck_assert(isnan(y[6]) && isnan(y[8]));
    ck_assert_float_eq_tol(y[9], 1 / 3.0f, 1e-7);
    spmd_values_free((spmd_value[]){x, out}, 2);
}
END_TEST

START_TEST(softmax_gradient)
{
    spmd_value x = spmd_value_random(SPMD_F32, NULL, shapes[_i].rank, shapes[_i].shape, 1, 3);
    ck_assert_double_lt(spmd_test_check_grad(softmax, NULL, 1, &x, 4), 1e-2);
    spmd_value_free(&x);
}
END_TEST

START_TEST(softmax_golden)
{
    spmd_value x = golden("ops", "softmax.in0", NULL), want = golden("ops", "softmax.out", NULL), out, grad;
    spmd_value ct = golden("ops", "softmax.ct", NULL), want_grad = golden("ops", "softmax.grad0", NULL);
    ck_spmd_ok(spmd_test_op(softmax, NULL, 1, &x, &out));
    ck_spmd_ok(spmd_test_vjp(softmax, NULL, 1, &x, &ct, &grad));
    ck_assert_double_lt(spmd_value_difference(&out, &want), 1e-6);
    ck_assert_double_lt(spmd_value_difference(&grad, &want_grad), 2e-6);
    spmd_values_free((spmd_value[]){x, want, out, grad, ct, want_grad}, 6);
}
END_TEST

static spmd_value labels_for(const spmd_value *logits)
{
    int64_t n = logits->shape[logits->rank - 1];
    spmd_value labels = spmd_value_zeros(SPMD_I32, NULL, logits->rank - 1, logits->shape);
    for (int64_t r = 0; r < spmd_value_count(&labels); r++)
        spmd_value_set(&labels, r, (double)(r * 7 % n));
    return labels;
}

START_TEST(cross_entropy_like_double)
{
    spmd_value in[2] = {spmd_value_random(SPMD_F32, NULL, shapes[_i].rank, shapes[_i].shape, 30, 1)}, out;
    in[1] = labels_for(&in[0]);
    int64_t n = in[0].shape[in[0].rank - 1];
    ck_spmd_ok(spmd_test_op(cross_entropy, NULL, 2, in, &out));
    ck_assert_int_eq(out.rank, in[0].rank - 1);
    for (int64_t r = 0; r < spmd_value_count(&out); r++) {
        double want = log_sum(&in[0], r * n, n) - spmd_value_at(&in[0], r * n + (int64_t)spmd_value_at(&in[1], r));
        ck_assert_double_eq_tol(spmd_value_at(&out, r), want, 1e-6 * fmax(1, fabs(want)));
    }
    spmd_values_free((spmd_value[]){in[0], in[1], out}, 3);
}
END_TEST

/* The loss of two equal logits is log 2 however large they are. */
START_TEST(cross_entropy_of_large_logits)
{
    spmd_value in[2] = {spmd_value_f32(NULL, SPMD_SHAPE(1, 2), (float[]){1e8f, 1e8f}),
                        spmd_value_i32(NULL, SPMD_SHAPE(1), (int32_t[]){1})},
               out;
    ck_spmd_ok(spmd_test_op(cross_entropy, NULL, 2, in, &out));
    ck_assert_double_eq_tol(spmd_value_at(&out, 0), log(2), 1e-6);
    spmd_values_free((spmd_value[]){in[0], in[1], out}, 3);
}
END_TEST

START_TEST(cross_entropy_gradient)
{
    spmd_value in[2] = {spmd_value_random(SPMD_F32, NULL, shapes[_i].rank, shapes[_i].shape, 1, 3)};
    in[1] = labels_for(&in[0]);
    ck_assert_double_lt(spmd_test_check_grad(cross_entropy, NULL, 2, in, 4), 1e-2);
    spmd_values_free(in, 2);
}
END_TEST

START_TEST(cross_entropy_golden)
{
    spmd_value in[2] = {golden("ops", "xent.in0", NULL), golden("ops", "xent.labels", NULL)}, out, grads[2];
    spmd_value ct = golden("ops", "xent.ct", NULL), want = golden("ops", "xent.out", NULL);
    spmd_value want_grad = golden("ops", "xent.grad0", NULL);
    ck_spmd_ok(spmd_test_op(cross_entropy, NULL, 2, in, &out));
    ck_spmd_ok(spmd_test_vjp(cross_entropy, NULL, 2, in, &ct, grads));
    ck_assert_double_lt(spmd_value_difference(&out, &want), 1e-6);
    ck_assert_double_lt(spmd_value_difference(&grads[0], &want_grad), 2e-6);
    spmd_values_free((spmd_value[]){in[0], in[1], out, grads[0], ct, want, want_grad}, 7);
}
END_TEST

START_TEST(cross_entropy_refuses)
{
    static const struct {
        spmd_dtype logits, labels;
        int64_t rows;
        int32_t label;
        spmd_status status;
        const char *needle;
    } rows[] = {
        {SPMD_F32, SPMD_I32, 4, 5, SPMD_EINVAL, "label 5 of row 2 is outside 0..4 (5 classes)"},
        {SPMD_F32, SPMD_I32, 4, -1, SPMD_EINVAL, "label -1 of row 2"},
        {SPMD_BF16, SPMD_I32, 4, 0, SPMD_EDTYPE, "logits are bf16[4,5]: expected f32; cast to f32"},
        {SPMD_F32, SPMD_I64, 4, 0, SPMD_EDTYPE, "labels are i64[4]: expected i32"},
        {SPMD_F32, SPMD_I32, 3, 0, SPMD_ESHAPE, "logits are f32[4,5], labels are i32[3]"},
    };
    spmd_value in[2] = {spmd_value_zeros(rows[_i].logits, NULL, SPMD_SHAPE(4, 5)),
                        spmd_value_zeros(rows[_i].labels, NULL, SPMD_SHAPE(rows[_i].rows))},
               out;
    spmd_value_set(&in[1], 2, rows[_i].label);
    ck_spmd_fails(spmd_test_op(cross_entropy, NULL, 2, in, &out), rows[_i].status, rows[_i].needle);
    spmd_values_free(in, 2);
}
END_TEST

START_TEST(softmax_refuses)
{
    spmd_value scalar = spmd_value_zeros(SPMD_F32, NULL, 0, NULL),
               ints = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(3)), out;
    ck_spmd_fails(spmd_test_op(softmax, NULL, 1, &scalar, &out), SPMD_ESHAPE, "softmax: x is f32[]");
    ck_spmd_fails(spmd_test_op(softmax, NULL, 1, &ints, &out), SPMD_EDTYPE, "softmax");
    spmd_values_free((spmd_value[]){scalar, ints}, 2);
}
END_TEST

SPMD_TEST_MAIN("softmax", tcase_add_loop_test(tc, softmax_like_double, 0, SHAPES); tcase_add_test(tc, softmax_extremes);
               tcase_add_loop_test(tc, softmax_gradient, 0, 5); tcase_add_test(tc, softmax_golden);
               tcase_add_loop_test(tc, cross_entropy_like_double, 0, SHAPES);
               tcase_add_test(tc, cross_entropy_of_large_logits); tcase_add_loop_test(tc, cross_entropy_gradient, 0, 5);
               tcase_add_test(tc, cross_entropy_golden); tcase_add_loop_test(tc, cross_entropy_refuses, 0, 5);
               tcase_add_test(tc, softmax_refuses);)
