/* causal_attention: against double at the edges of tiles, against JAX, what must not be seen, gradients, refusals. */
#include "tests/harness/golden.h"

static spmd_status attention(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_causal_attention(ctx, &in[0], &in[1], &in[2], out);
}

static const int64_t shapes[][4] = {{1, 1, 1, 1},   {2, 3, 5, 4}, {1, 1, 64, 8}, {1, 2, 65, 7}, {1, 1, 130, 3},
                                    {1, 1, 70, 64}, {0, 2, 3, 4}, {2, 0, 3, 4},  {2, 2, 0, 4},  {2, 2, 3, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes, FULL = 6 };

static void operands(int i, spmd_dtype dtype, spmd_value in[3])
{
    for (unsigned k = 0; k < 3; k++)
        in[k] = spmd_value_random(dtype, NULL, 4, shapes[i], 2, k + 1);
}

static double score(const spmd_value in[3], int64_t q, int64_t k, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += spmd_value_at(&in[0], q * d + c) * spmd_value_at(&in[1], k * d + c);
    return sum / sqrt((double)d);
}

static spmd_value expected(const spmd_value in[3])
{
    spmd_value out = spmd_value_zeros(in[0].dtype, NULL, 4, in[0].shape);
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
                y += exp(score(in, i, k, d) - max) / sum * spmd_value_at(&in[2], k * d + c);
            spmd_value_set(&out, i * d + c, y);
        }
    }
    return out;
}

START_TEST(attention_like_double)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {2e-6, 4e-3, 5e-4};
    /* Tensor cores take the probabilities in 16 bits, too: one rounding more. */
    const char *backend = spmd_test_backend();
    double roundings = backend && strcmp(backend, "cuda") == 0 ? 2 : 1;
    for (int k = 0; k < 3; k++) {
        spmd_value in[3], out;
        operands(_i, dtypes[k], in);
        spmd_value want = expected(in);
        ck_spmd_ok(spmd_test_op(attention, NULL, 3, in, &out));
        ck_assert_double_le(spmd_value_difference(&out, &want), tolerance[k] * roundings);
        spmd_values_free((spmd_value[]){in[0], in[1], in[2], out, want}, 5);
    }
}
END_TEST

START_TEST(attention_gradient)
{
    spmd_value in[3];
    operands(_i, SPMD_F32, in);
    ck_assert_double_lt(spmd_test_check_grad(attention, NULL, 3, in, 4), 1e-2);
    spmd_values_free(in, 3);
}
END_TEST

/* The same numbers in another dtype. */
static spmd_value as(spmd_dtype dtype, const spmd_value *v)
{
    spmd_value out = spmd_value_zeros(dtype, NULL, v->rank, v->shape);
    for (int64_t i = 0; i < spmd_value_count(v); i++)
        spmd_value_set(&out, i, spmd_value_at(v, i));
    return out;
}

/* Result and gradients in 16 bits against those of the same numbers in f32. On backend cuda these are two kernels: one
 * on tensor cores, one of plain loops. */
START_TEST(attention_in_16_bits_like_f32)
{
    enum { IN, CT = 3, OUT, GRADS, ALL = GRADS + 3 };
    static const spmd_dtype dtypes[] = {SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {1e-2, 1.5e-3};
    for (int k = 0; k < 2; k++) {
        spmd_value narrow[ALL], wide[ALL];
        operands(_i, dtypes[k], narrow);
        narrow[CT] = spmd_value_random(dtypes[k], NULL, 4, shapes[_i], 1, 9);
        for (int j = IN; j <= CT; j++)
            wide[j] = as(SPMD_F32, &narrow[j]);
        ck_spmd_ok(spmd_test_op(attention, NULL, 3, narrow, &narrow[OUT]));
        ck_spmd_ok(spmd_test_vjp(attention, NULL, 3, narrow, &narrow[CT], &narrow[GRADS]));
        ck_spmd_ok(spmd_test_op(attention, NULL, 3, wide, &wide[OUT]));
        ck_spmd_ok(spmd_test_vjp(attention, NULL, 3, wide, &wide[CT], &wide[GRADS]));
        for (int j = OUT; j < ALL; j++) {
            spmd_value rounded = as(dtypes[k], &wide[j]);
            ck_assert_double_lt(spmd_value_difference(&narrow[j], &rounded), tolerance[k]);
            spmd_value_free(&rounded);
        }
        spmd_values_free(narrow, ALL);
        spmd_values_free(wide, ALL);
    }
}
END_TEST

static void compare_golden(const char *op, double tolerance)
{
    spmd_value in[3], want_grads[3], grads[3], out;
    char name[64];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s.in%d", op, k);
        in[k] = golden("ops", name, NULL);
        snprintf(name, sizeof name, "%s.grad%d", op, k);
        want_grads[k] = golden("ops", name, NULL);
    }
    snprintf(name, sizeof name, "%s.ct", op);
    spmd_value ct = golden("ops", name, NULL);
    snprintf(name, sizeof name, "%s.out", op);
    spmd_value want = golden("ops", name, NULL);
    ck_spmd_ok(spmd_test_op(attention, NULL, 3, in, &out));
    ck_spmd_ok(spmd_test_vjp(attention, NULL, 3, in, &ct, grads));
    ck_assert_double_lt(spmd_value_difference(&out, &want), tolerance);
    for (int k = 0; k < 3; k++)
        ck_assert_double_lt(spmd_value_difference(&grads[k], &want_grads[k]), tolerance);
    spmd_values_free(in, 3);
    spmd_values_free(grads, 3);
    spmd_values_free(want_grads, 3);
    spmd_values_free((spmd_value[]){ct, want, out}, 3);
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
    spmd_value in[3], before, after;
    operands(4, SPMD_F32, in);
    int64_t d = shapes[4][3], cut = 70;
    ck_spmd_ok(spmd_test_op(attention, NULL, 3, in, &before));
    for (int k = 0; k < 3; k++)
        for (int64_t i = cut * d; i < spmd_value_count(&in[k]); i++)
            spmd_value_set(&in[k], i, 1e3);
    ck_spmd_ok(spmd_test_op(attention, NULL, 3, in, &after));
    ck_assert(memcmp(before.data, after.data, 64 * (size_t)d * sizeof(float)) == 0); /* tiles before the cut's */
    for (int64_t i = 0; i < cut * d; i++)
        ck_assert_double_eq_tol(spmd_value_at(&after, i), spmd_value_at(&before, i), 1e-6);
    spmd_values_free((spmd_value[]){in[0], in[1], in[2], before, after}, 5);
}
END_TEST

START_TEST(attention_refuses)
{
    spmd_value in[3], out;
    operands(1, SPMD_F32, in);
    spmd_value wrong[3] = {in[0], in[1], spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(2, 3, 5, 8))};
    ck_spmd_fails(spmd_test_op(attention, NULL, 3, wrong, &out), SPMD_ESHAPE,
                  "q is f32[2,3,5,4], k is f32[2,3,5,4], v is f32[2,3,5,8]");
    spmd_value_free(&wrong[2]);
    wrong[2] = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(2, 3, 5, 4));
    ck_spmd_fails(spmd_test_op(attention, NULL, 3, wrong, &out), SPMD_EDTYPE, "v is bf16[2,3,5,4]: expected one dtype");
    spmd_value_free(&wrong[2]);
    spmd_values_free(in, 3);
}
END_TEST

SPMD_TEST_MAIN("attention", tcase_add_loop_test(tc, attention_like_double, 0, SHAPES);
               tcase_add_loop_test(tc, attention_gradient, 1, FULL);
               tcase_add_loop_test(tc, attention_in_16_bits_like_f32, 0, FULL); tcase_add_test(tc, attention_golden);
               tcase_add_test(tc, attention_sees_no_future); tcase_add_test(tc, attention_refuses);)
