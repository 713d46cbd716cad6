/* Unary pointwise ops: against libm in double and JAX's values, their gradients, NaN and infinities, bf16. */
#include "tests/harness/golden.h"

typedef spmd_status unary_fn(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);

static spmd_status scale_fn(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd_scale(ctx, x, -1.5, out);
}

static double ref_neg(double x)
{
    return -x;
}
static double ref_scale(double x)
{
    return -1.5 * x;
}
static double ref_square(double x)
{
    return x * x;
}
static double ref_relu(double x)
{
    return x > 0 ? x : 0;
}
static double ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double ref_silu(double x)
{
    return x / (1 + exp(-x));
}
static double ref_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* `error`: of an f32 element, relative to the larger of its size and `floor`. */
static const struct row {
    const char *name;
    unary_fn *fn;
    double (*ref)(double);
    double low, high, error, floor;
} rows[] = {
    {"neg", spmd_neg, ref_neg, -4, 4, 0, 0},
    {"scale", scale_fn, ref_scale, -4, 4, 1e-7, 0},
    {"exp", spmd_exp, exp, -3, 3, 3e-7, 0},
    {"exp far", spmd_exp, exp, -87, 88, 3e-7, 0},
    {"exp subnormal", spmd_exp, exp, -103, -87, 1e-6, 1e-38},
    {"log", spmd_log, log, 0.5, 9, 3e-7, 1e-1},
    {"log small", spmd_log, log, 1e-30, 1e-3, 3e-7, 0},
    {"sqrt", spmd_sqrt, sqrt, 0.5, 9, 1e-7, 0},
    {"sqrt small", spmd_sqrt, sqrt, 0, 1e-3, 1e-7, 0},
    {"square", spmd_square, ref_square, -4, 4, 1e-7, 0},
    {"relu", spmd_relu, ref_relu, -4, 4, 0, 0},
    {"tanh", spmd_tanh, tanh, -3, 3, 4e-7, 0},
    {"tanh near", spmd_tanh, tanh, -1e-3, 1e-3, 2e-7, 0},
    {"tanh far", spmd_tanh, tanh, -30, 30, 4e-7, 0},
    {"sigmoid", spmd_sigmoid, ref_sigmoid, -4, 4, 5e-7, 0},
    {"silu", spmd_silu, ref_silu, -4, 4, 5e-7, 0},
    {"gelu", spmd_gelu, ref_gelu, -4, 4, 1e-6, 1},
    {"gelu far", spmd_gelu, ref_gelu, -40, 40, 1e-6, 1},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static spmd_status run_unary(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return ((const struct row *)user)->fn(ctx, &in[0], out);
}

static spmd_value inputs(const struct row *row, spmd_dtype dtype, int rank, const int64_t *shape)
{
    spmd_value x = spmd_value_random(SPMD_F32, NULL, rank, shape, 1, 7),
               rounded = spmd_value_zeros(dtype, NULL, rank, shape);
    for (int64_t i = 0; i < spmd_value_count(&x); i++)
        spmd_value_set(&rounded, i, row->low + (row->high - row->low) * (spmd_value_at(&x, i) + 1) / 2);
    spmd_value_free(&x);
    return rounded;
}

static const struct {
    int rank;
    int64_t shape[SPMD_MAX_RANK];
} shapes[] = {{0, {0}}, {1, {1}}, {1, {0}}, {2, {3, 0}}, {1, {7}}, {2, {37, 101}}, {6, {1, 2, 3, 1, 5, 7}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

START_TEST(unary_like_reference)
{
    const struct row *row = &rows[_i % ROWS];
    spmd_value x = inputs(row, SPMD_F32, shapes[_i / ROWS].rank, shapes[_i / ROWS].shape), y;
    ck_spmd_ok(spmd_test_op(run_unary, (void *)row, 1, &x, &y));
    ck_assert_int_eq(y.dtype, SPMD_F32);
    ck_assert_int_eq(spmd_value_count(&y), spmd_value_count(&x));
    for (int64_t i = 0; i < spmd_value_count(&x); i++) {
        double want = row->ref(spmd_value_at(&x, i)), size = fmax(fabs(want), row->floor);
        ck_assert_msg(fabs(spmd_value_at(&y, i) - want) <= row->error * size, "%s(%.9g) = %.9g, not %.9g", row->name,
                      spmd_value_at(&x, i), spmd_value_at(&y, i), want);
    }
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

/* bf16 and f16 give what f32 gives on the same inputs, rounded once: bit for bit. */
START_TEST(unary_rounds_once)
{
    const struct row *row = &rows[_i / 2];
    spmd_dtype dtype = _i % 2 ? SPMD_F16 : SPMD_BF16;
    spmd_value x = inputs(row, dtype, SPMD_SHAPE(3, 701)), wide = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(3, 701));
    spmd_value y, want = spmd_value_zeros(dtype, NULL, SPMD_SHAPE(3, 701)), wide_y;
    for (int64_t i = 0; i < spmd_value_count(&x); i++)
        spmd_value_set(&wide, i, spmd_value_at(&x, i));
    ck_spmd_ok(spmd_test_op(run_unary, (void *)row, 1, &x, &y));
    ck_spmd_ok(spmd_test_op(run_unary, (void *)row, 1, &wide, &wide_y));
    for (int64_t i = 0; i < spmd_value_count(&x); i++)
        spmd_value_set(&want, i, spmd_value_at(&wide_y, i));
    ck_assert_int_eq(spmd_value_count_wrong(&y, &want), 0);
    spmd_values_free((spmd_value[]){x, wide, y, want, wide_y}, 5);
}
END_TEST

START_TEST(unary_gradient)
{
    const struct row *row = &rows[_i];
    spmd_value x = inputs(row, SPMD_F32, SPMD_SHAPE(5, 7));
    double error = spmd_test_check_grad(run_unary, (void *)row, 1, &x, 3);
    /* In the other ranges functions are so steep, or so flat, that differences say nothing. */
    bool other = strchr(row->name, ' ') != NULL;
    ck_assert_msg(other || error < 1e-2, "%s: %g", row->name, error);
    spmd_value_free(&x);
}
END_TEST

static const struct {
    const char *name;
    unary_fn *fn;
} goldens[] = {
    {"relu", spmd_relu}, {"tanh", spmd_tanh}, {"silu", spmd_silu}, {"exp", spmd_exp}, {"sigmoid", spmd_sigmoid}};
enum { GOLDENS = sizeof goldens / sizeof goldens[0] };

static spmd_status run_golden(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return goldens[*(int *)user].fn(ctx, &in[0], out);
}

START_TEST(unary_like_golden)
{
    char name[4][32];
    const char *part[] = {"in0", "out", "ct", "grad0"};
    spmd_value want[4], y, grad;
    for (int k = 0; k < 4; k++) {
        snprintf(name[k], sizeof name[k], "%s.%s", goldens[_i].name, part[k]);
        want[k] = golden("ops", name[k], NULL);
    }
    ck_spmd_ok(spmd_test_op(run_golden, &_i, 1, &want[0], &y));
    ck_spmd_ok(spmd_test_vjp(run_golden, &_i, 1, &want[0], &want[2], &grad));
    ck_assert_double_lt(spmd_value_difference(&y, &want[1]), 1e-6);
    ck_assert_double_lt(spmd_value_difference(&grad, &want[3]), 1e-6);
    spmd_values_free(want, 4);
    spmd_values_free((spmd_value[]){y, grad}, 2);
}
END_TEST

/* At -inf, -1e30, 1e30, inf, NaN; gelu and silu go to 0 from below, within 1e-30. */
static const struct {
    const char *name;
    unary_fn *fn;
    float want[5], slope[5];
} extremes[] = {
    {"exp", spmd_exp, {0, 0, INFINITY, INFINITY, NAN}, {0, 0, INFINITY, INFINITY, NAN}},
    {"log", spmd_log, {NAN, NAN, 69.07755f, INFINITY, NAN}, {-0.0f, -1e-30f, 1e-30f, 0, NAN}},
    {"sqrt", spmd_sqrt, {NAN, NAN, 1e15f, INFINITY, NAN}, {NAN, NAN, 5e-16f, 0, NAN}},
    {"relu", spmd_relu, {0, 0, 1e30f, INFINITY, NAN}, {0, 0, 1, 1, 0}},
    {"tanh", spmd_tanh, {-1, -1, 1, 1, NAN}, {0, 0, 0, 0, NAN}},
    {"sigmoid", spmd_sigmoid, {0, 0, 1, 1, NAN}, {0, 0, 0, 0, NAN}},
    {"silu", spmd_silu, {0, 0, 1e30f, INFINITY, NAN}, {0, 0, 1, 1, NAN}},
    {"gelu", spmd_gelu, {0, 0, 1e30f, INFINITY, NAN}, {0, 0, 1, 1, NAN}},
};
enum { EXTREMES = sizeof extremes / sizeof extremes[0] };

static spmd_status run_extreme(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return extremes[*(int *)user].fn(ctx, &in[0], out);
}

static void check_extreme(const char *what, int row, const spmd_value *got, const float *want)
{
    for (int64_t i = 0; i < spmd_value_count(got); i++) {
        double g = spmd_value_at(got, i), w = (double)want[i % 5];
        bool same = isnan(w) ? isnan(g) : g == w || fabs(g - w) <= fmax(1e-6 * fabs(w), 1e-30);
        ck_assert_msg(same, "%s of %s, element %d: %g, not %g", what, extremes[row].name, (int)i, g, w);
    }
}

START_TEST(unary_at_the_extremes)
{
    const float x5[] = {-INFINITY, -1e30f, 1e30f, INFINITY, NAN};
    float x20[20];
    for (int i = 0; i < 20; i++) /* long enough for vectors, and a tail */
        x20[i] = x5[i % 5];
    spmd_value x = spmd_value_f32(NULL, SPMD_SHAPE(20), x20), ct = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(20)), y,
               grad;
    for (int i = 0; i < 20; i++)
        spmd_value_set(&ct, i, 1);
    ck_spmd_ok(spmd_test_op(run_extreme, &_i, 1, &x, &y));
    check_extreme("value", _i, &y, extremes[_i].want);
    ck_spmd_ok(spmd_test_vjp(run_extreme, &_i, 1, &x, &ct, &grad));
    check_extreme("slope", _i, &grad, extremes[_i].slope);
    spmd_values_free((spmd_value[]){x, ct, y, grad}, 4);
}
END_TEST

static spmd_status scale_by_0(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_scale(ctx, &in[0], 0, out);
}

START_TEST(scale_by_0_is_0)
{
    const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16};
    spmd_value x = spmd_value_zeros(dtypes[_i], NULL, SPMD_SHAPE(3)), y,
               zero = spmd_value_zeros(dtypes[_i], NULL, SPMD_SHAPE(3));
    spmd_value_set(&x, 0, NAN);
    spmd_value_set(&x, 1, -INFINITY);
    ck_spmd_ok(spmd_test_op(scale_by_0, NULL, 1, &x, &y));
    ck_assert_int_eq(spmd_value_count_wrong(&y, &zero), 0);
    spmd_values_free((spmd_value[]){x, y, zero}, 3);
}
END_TEST

START_TEST(unary_refuses_integers)
{
    spmd_value x = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(4, 8)), y;
    ck_spmd_fails(spmd_test_op(run_unary, (void *)&rows[2], 1, &x, &y), SPMD_EDTYPE, "exp");
    ck_assert_ptr_nonnull(strstr(spmd_last_error(), "i32[4,8]"));
    spmd_value_free(&x);
}
END_TEST

SPMD_TEST_MAIN("unary", tcase_add_loop_test(tc, unary_like_reference, 0, ROWS *SHAPES);
               tcase_add_loop_test(tc, unary_rounds_once, 0, 2 * ROWS);
               tcase_add_loop_test(tc, unary_gradient, 0, ROWS); tcase_add_loop_test(tc, unary_like_golden, 0, GOLDENS);
               tcase_add_loop_test(tc, unary_at_the_extremes, 0, EXTREMES);
               tcase_add_loop_test(tc, scale_by_0_is_0, 0, 2); tcase_add_test(tc, unary_refuses_integers);)
