/* causal_attention: against double at the edges of tiles, against JAX, what must not be seen, gradients, refusals. */
#include "tests/harness/harness.h"

static spmd_status attention(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_causal_attention(ctx, &in[0], &in[1], &in[2], out);
}

static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 5, 4}, {1, 1, 64, 8}, {1, 2, 65, 7}, {1, 1, 130, 3},
                                    {0, 2, 3, 4}, {2, 0, 3, 4}, {2, 2, 0, 4},  {2, 2, 3, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes, FULL = 5 };

static void operands(int i, spmd_dtype dtype, value in[3])
{
    for (unsigned k = 0; k < 3; k++)
        in[k] = value_random(dtype, NULL, 4, shapes[i], 2, k + 1);
}

static double score(const value in[3], int64_t q, int64_t k, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += value_at(&in[0], q * d + c) * value_at(&in[1], k * d + c);
    return sum / sqrt((double)d);
}

static value expected(const value in[3])
{
    value out = value_zeros(in[0].dtype, NULL, 4, in[0].shape);
    int64_t t = in[0].shape[2], d = in[0].shape[3], rows = in[0].shape[0] * in[0].shape[1] * t;
    for (int64_t i = 0; i < rows; i++) {
        int64_t first = i / t * t;
        double max = -INFINITY, sum = 0;
        for (int64_t k = first; k <= i; k++)
            max = fmax(max, score(in, i, k, d));
        for (int64_t k = first; k <= i; k++)
            sum += exp(score(in, i, k, d) - max);
        for (int64_t c = 0; c < d; c++) {
            double y = 0;
            for (int64_t k = first; k <= i; k++)
                y += exp(score(in, i, k, d) - max) / sum * value_at(&in[2], k * d + c);
            value_set(&out, i * d + c, y);
        }
    }
    return out;
}

START_TEST(attention_like_double)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {2e-6, 4e-3, 5e-4};
    for (int k = 0; k < 3; k++) {
        value in[3], out;
        operands(_i, dtypes[k], in);
        value want = expected(in);
        ck_spmd_ok(harness_op(attention, NULL, 3, in, &out));
        ck_assert_double_le(value_difference(&out, &want), tolerance[k]);
        values_free((value[]){in[0], in[1], in[2], out, want}, 5);
    }
}
END_TEST

START_TEST(attention_gradient)
{
    value in[3];
    operands(_i, SPMD_F32, in);
    ck_assert_double_lt(harness_check_grad(attention, NULL, 3, in, 4), 1e-2);
    values_free(in, 3);
}
END_TEST

/* bf16 gradients against those of the same numbers in f32. */
START_TEST(attention_gradient_in_bf16)
{
    value in[3], wide[3], got[3], want[3];
    operands(3, SPMD_BF16, in);
    value ct = value_random(SPMD_BF16, NULL, 4, shapes[3], 1, 9), wide_ct = value_zeros(SPMD_F32, NULL, 4, shapes[3]);
    for (int64_t i = 0; i < value_count(&ct); i++)
        value_set(&wide_ct, i, value_at(&ct, i));
    for (int k = 0; k < 3; k++) {
        wide[k] = value_zeros(SPMD_F32, NULL, 4, shapes[3]);
        for (int64_t i = 0; i < value_count(&ct); i++)
            value_set(&wide[k], i, value_at(&in[k], i));
    }
    ck_spmd_ok(harness_vjp(attention, NULL, 3, in, &ct, got));
    ck_spmd_ok(harness_vjp(attention, NULL, 3, wide, &wide_ct, want));
    for (int k = 0; k < 3; k++) {
        value rounded = value_zeros(SPMD_BF16, NULL, 4, shapes[3]);
        for (int64_t i = 0; i < value_count(&ct); i++)
            value_set(&rounded, i, value_at(&want[k], i));
        ck_assert_double_lt(value_difference(&got[k], &rounded), 1e-2);
        value_free(&rounded);
    }
    values_free(in, 3);
    values_free(wide, 3);
    values_free(got, 3);
    values_free(want, 3);
    values_free((value[]){ct, wide_ct}, 2);
}
END_TEST

static void compare_golden(const char *op, double tolerance)
{
    value in[3], want_grads[3], grads[3], out;
    char name[64];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s.in%d", op, k);
        in[k] = golden("ops", name, NULL);
        snprintf(name, sizeof name, "%s.grad%d", op, k);
        want_grads[k] = golden("ops", name, NULL);
    }
    snprintf(name, sizeof name, "%s.ct", op);
    value ct = golden("ops", name, NULL);
    snprintf(name, sizeof name, "%s.out", op);
    value want = golden("ops", name, NULL);
    ck_spmd_ok(harness_op(attention, NULL, 3, in, &out));
    ck_spmd_ok(harness_vjp(attention, NULL, 3, in, &ct, grads));
    ck_assert_double_lt(value_difference(&out, &want), tolerance);
    for (int k = 0; k < 3; k++)
        ck_assert_double_lt(value_difference(&grads[k], &want_grads[k]), tolerance);
    values_free(in, 3);
    values_free(grads, 3);
    values_free(want_grads, 3);
    values_free((value[]){ct, want, out}, 3);
}

START_TEST(attention_golden)
{
    compare_golden("attention", 5e-6);
    compare_golden("attention_long", 5e-6);
}
END_TEST

/* What lies after a position changes nothing before it. */
START_TEST(attention_sees_no_future)
{
    value in[3], before, after;
    operands(4, SPMD_F32, in);
    int64_t d = shapes[4][3], cut = 70;
    ck_spmd_ok(harness_op(attention, NULL, 3, in, &before));
    for (int k = 0; k < 3; k++)
        for (int64_t i = cut * d; i < value_count(&in[k]); i++)
            value_set(&in[k], i, 1e3);
    ck_spmd_ok(harness_op(attention, NULL, 3, in, &after));
    ck_assert(memcmp(before.data, after.data, 64 * (size_t)d * sizeof(float)) == 0); /* tiles before the cut's */
    for (int64_t i = 0; i < cut * d; i++)
        ck_assert_double_eq_tol(value_at(&after, i), value_at(&before, i), 1e-6);
    values_free((value[]){in[0], in[1], in[2], before, after}, 5);
}
END_TEST

START_TEST(attention_refuses)
{
    value in[3], out;
    operands(1, SPMD_F32, in);
    value wrong[3] = {in[0], in[1], value_zeros(SPMD_F32, NULL, VALUE_SHAPE(2, 3, 5, 8))};
    ck_spmd_fails(harness_op(attention, NULL, 3, wrong, &out), SPMD_ESHAPE,
                  "q is f32[2,3,5,4], k is f32[2,3,5,4], v is f32[2,3,5,8]");
    value_free(&wrong[2]);
    wrong[2] = value_zeros(SPMD_BF16, NULL, VALUE_SHAPE(2, 3, 5, 4));
    ck_spmd_fails(harness_op(attention, NULL, 3, wrong, &out), SPMD_EDTYPE, "v is bf16[2,3,5,4]: expected one dtype");
    value_free(&wrong[2]);
    values_free(in, 3);
}
END_TEST

HARNESS_MAIN("attention", tcase_add_loop_test(tc, attention_like_double, 0, SHAPES);
             tcase_add_loop_test(tc, attention_gradient, 1, FULL); tcase_add_test(tc, attention_gradient_in_bf16);
             tcase_add_test(tc, attention_golden); tcase_add_test(tc, attention_sees_no_future);
             tcase_add_test(tc, attention_refuses);)
