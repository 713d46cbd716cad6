/* softmax and softmax_cross_entropy: against double, against JAX, extreme rows, gradients, refusals. */
#include "tests/harness/harness.h"

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
static double log_sum(const value *x, int64_t start, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, value_at(x, start + j));
    for (int64_t j = 0; j < n; j++)
        sum += exp(value_at(x, start + j) - max);
    return max + log(sum);
}

START_TEST(softmax_like_double)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {1e-6, 4e-3, 5e-4};
    for (int d = 0; d < 3; d++) {
        value x = value_random(dtypes[d], NULL, shapes[_i].rank, shapes[_i].shape, 8, 1), out;
        value want = value_zeros(dtypes[d], NULL, x.rank, x.shape);
        int64_t n = x.shape[x.rank - 1];
        for (int64_t i = 0; i < value_count(&x); i++)
            value_set(&want, i, exp(value_at(&x, i) - log_sum(&x, i / n * n, n)));
        ck_spmd_ok(harness_op(softmax, NULL, 1, &x, &out));
        ck_assert_double_le(value_difference(&out, &want), tolerance[d]);
        values_free((value[]){x, out, want}, 3);
    }
}
END_TEST

START_TEST(softmax_extremes)
{
    float data[4][3] = {{1e30f, 0, -1e30f}, {-INFINITY, 0, 0}, {NAN, 0, 0}, {-200, -200, -200}};
    value x = value_f32(NULL, VALUE_SHAPE(4, 3), data[0]), out;
    ck_spmd_ok(harness_op(softmax, NULL, 1, &x, &out));
    const float *y = out.data;
    ck_assert_float_eq(y[0], 1);
    ck_assert_float_eq(y[1], 0);
    ck_assert_float_eq(y[3], 0);
    ck_assert_float_eq(y[4], 0.5f);
    ck_assert(isnan(y[6]) && isnan(y[8]));
    ck_assert_float_eq_tol(y[9], 1 / 3.0f, 1e-7);
    values_free((value[]){x, out}, 2);
}
END_TEST

START_TEST(softmax_gradient)
{
    value x = value_random(SPMD_F32, NULL, shapes[_i].rank, shapes[_i].shape, 1, 3);
    ck_assert_double_lt(harness_check_grad(softmax, NULL, 1, &x, 4), 1e-2);
    value_free(&x);
}
END_TEST

START_TEST(softmax_golden)
{
    value x = golden("ops", "softmax.in0", NULL), want = golden("ops", "softmax.out", NULL), out, grad;
    value ct = golden("ops", "softmax.ct", NULL), want_grad = golden("ops", "softmax.grad0", NULL);
    ck_spmd_ok(harness_op(softmax, NULL, 1, &x, &out));
    ck_spmd_ok(harness_vjp(softmax, NULL, 1, &x, &ct, &grad));
    ck_assert_double_lt(value_difference(&out, &want), 1e-6);
    ck_assert_double_lt(value_difference(&grad, &want_grad), 2e-6);
    values_free((value[]){x, want, out, grad, ct, want_grad}, 6);
}
END_TEST

static value labels_for(const value *logits)
{
    int64_t n = logits->shape[logits->rank - 1];
    value labels = value_zeros(SPMD_I32, NULL, logits->rank - 1, logits->shape);
    for (int64_t r = 0; r < value_count(&labels); r++)
        value_set(&labels, r, (double)(r * 7 % n));
    return labels;
}

START_TEST(cross_entropy_like_double)
{
    value in[2] = {value_random(SPMD_F32, NULL, shapes[_i].rank, shapes[_i].shape, 30, 1)}, out;
    in[1] = labels_for(&in[0]);
    int64_t n = in[0].shape[in[0].rank - 1];
    ck_spmd_ok(harness_op(cross_entropy, NULL, 2, in, &out));
    ck_assert_int_eq(out.rank, in[0].rank - 1);
    for (int64_t r = 0; r < value_count(&out); r++) {
        double want = log_sum(&in[0], r * n, n) - value_at(&in[0], r * n + (int64_t)value_at(&in[1], r));
        ck_assert_double_eq_tol(value_at(&out, r), want, 1e-6 * fmax(1, fabs(want)));
    }
    values_free((value[]){in[0], in[1], out}, 3);
}
END_TEST

/* The loss of two equal logits is log 2 however large they are. */
START_TEST(cross_entropy_of_large_logits)
{
    value in[2] = {value_f32(NULL, VALUE_SHAPE(1, 2), (float[]){1e8f, 1e8f}),
                   value_i32(NULL, VALUE_SHAPE(1), (int32_t[]){1})},
          out;
    ck_spmd_ok(harness_op(cross_entropy, NULL, 2, in, &out));
    ck_assert_double_eq_tol(value_at(&out, 0), log(2), 1e-6);
    values_free((value[]){in[0], in[1], out}, 3);
}
END_TEST

START_TEST(cross_entropy_gradient)
{
    value in[2] = {value_random(SPMD_F32, NULL, shapes[_i].rank, shapes[_i].shape, 1, 3)};
    in[1] = labels_for(&in[0]);
    ck_assert_double_lt(harness_check_grad(cross_entropy, NULL, 2, in, 4), 1e-2);
    values_free(in, 2);
}
END_TEST

START_TEST(cross_entropy_golden)
{
    value in[2] = {golden("ops", "xent.in0", NULL), golden("ops", "xent.labels", NULL)}, out, grads[2];
    value ct = golden("ops", "xent.ct", NULL), want = golden("ops", "xent.out", NULL);
    value want_grad = golden("ops", "xent.grad0", NULL);
    ck_spmd_ok(harness_op(cross_entropy, NULL, 2, in, &out));
    ck_spmd_ok(harness_vjp(cross_entropy, NULL, 2, in, &ct, grads));
    ck_assert_double_lt(value_difference(&out, &want), 1e-6);
    ck_assert_double_lt(value_difference(&grads[0], &want_grad), 2e-6);
    values_free((value[]){in[0], in[1], out, grads[0], ct, want, want_grad}, 7);
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
    value in[2] = {value_zeros(rows[_i].logits, NULL, VALUE_SHAPE(4, 5)),
                   value_zeros(rows[_i].labels, NULL, VALUE_SHAPE(rows[_i].rows))},
          out;
    value_set(&in[1], 2, rows[_i].label);
    ck_spmd_fails(harness_op(cross_entropy, NULL, 2, in, &out), rows[_i].status, rows[_i].needle);
    values_free(in, 2);
}
END_TEST

START_TEST(softmax_refuses)
{
    value scalar = value_zeros(SPMD_F32, NULL, 0, NULL), ints = value_zeros(SPMD_I32, NULL, VALUE_SHAPE(3)), out;
    ck_spmd_fails(harness_op(softmax, NULL, 1, &scalar, &out), SPMD_ESHAPE, "softmax: x is f32[]");
    ck_spmd_fails(harness_op(softmax, NULL, 1, &ints, &out), SPMD_EDTYPE, "softmax");
    values_free((value[]){scalar, ints}, 2);
}
END_TEST

HARNESS_MAIN("softmax", tcase_add_loop_test(tc, softmax_like_double, 0, SHAPES); tcase_add_test(tc, softmax_extremes);
             tcase_add_loop_test(tc, softmax_gradient, 0, 5); tcase_add_test(tc, softmax_golden);
             tcase_add_loop_test(tc, cross_entropy_like_double, 0, SHAPES);
             tcase_add_test(tc, cross_entropy_of_large_logits); tcase_add_loop_test(tc, cross_entropy_gradient, 0, 5);
             tcase_add_test(tc, cross_entropy_golden); tcase_add_loop_test(tc, cross_entropy_refuses, 0, 5);
             tcase_add_test(tc, softmax_refuses);)
