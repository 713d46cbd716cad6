/* Binary pointwise ops and where: broadcasting against a loop over indices, gradients, NaN, integers that wrap, errors.
 */
#include "spmd/testing.h"

typedef spmd_status binary_fn(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);

static double ref_add(double a, double b)
{
    return a + b;
}
static double ref_sub(double a, double b)
{
    return a - b;
}
static double ref_mul(double a, double b)
{
    return a * b;
}
static double ref_div(double a, double b)
{
    return a / b;
}
static double ref_maximum(double a, double b)
{
    return a > b ? a : b;
}

static const struct row {
    const char *name;
    binary_fn *fn;
    double (*ref)(double, double);
} rows[] = {{"add", spmd_add, ref_add},
            {"sub", spmd_sub, ref_sub},
            {"mul", spmd_mul, ref_mul},
            {"div", spmd_div, ref_div},
            {"maximum", spmd_maximum, ref_maximum}};
enum { ADD, SUB, MUL, DIV, MAXIMUM, ROWS };

static spmd_status run_binary(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return ((const struct row *)user)->fn(ctx, &in[0], &in[1], out);
}

static const struct shape {
    int rank[3]; /* a, b, the result */
    int64_t shape[3][SPMD_MAX_RANK];
} shapes[] = {
    {{0, 0, 0}, {{0}, {0}, {0}}},
    {{1, 1, 1}, {{1}, {1}, {1}}},
    {{2, 2, 2}, {{13, 7}, {13, 7}, {13, 7}}},
    {{2, 1, 2}, {{13, 7}, {7}, {13, 7}}},
    {{1, 2, 2}, {{7}, {13, 7}, {13, 7}}},
    {{2, 0, 2}, {{13, 7}, {0}, {13, 7}}},
    {{2, 2, 2}, {{13, 7}, {13, 1}, {13, 7}}},
    {{2, 2, 2}, {{13, 1}, {1, 7}, {13, 7}}},
    {{2, 2, 2}, {{13, 1}, {13, 1}, {13, 1}}},
    {{3, 2, 3}, {{2, 3, 1100}, {3, 1}, {2, 3, 1100}}},
    {{3, 3, 3}, {{2, 1, 5}, {1, 3, 1}, {2, 3, 5}}},
    {{6, 3, 6}, {{2, 1, 3, 1, 2, 1}, {3, 1, 2}, {2, 1, 3, 3, 2, 2}}},
    {{2, 1, 2}, {{0, 7}, {7}, {0, 7}}},
    {{2, 2, 2}, {{13, 0}, {13, 1}, {13, 0}}},
    {{1, 1, 1}, {{0}, {1}, {0}}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Which element of `v` meets element i of the result. */
static int64_t met(const spmd_value *v, const spmd_value *result, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = 1; d <= v->rank; d++) {
        int64_t size = result->shape[result->rank - d], index = i % size;
        at += v->shape[v->rank - d] == 1 ? 0 : index * stride;
        stride *= v->shape[v->rank - d];
        i /= size;
    }
    return at;
}

static spmd_value operand(spmd_dtype dtype, const struct shape *s, int k)
{
    spmd_value v = spmd_value_random(dtype, NULL, s->rank[k], s->shape[k], 4, 11 + (unsigned)k);
    for (int64_t i = 0; i < spmd_value_count(&v); i++) /* away from 0: b divides */
        if (spmd_dtype_is_float(dtype) && k == 1)
            spmd_value_set(&v, i, spmd_value_at(&v, i) + (spmd_value_at(&v, i) < 0 ? -1 : 1));
    return v;
}

static void check_shape(const spmd_value *got, const struct shape *s)
{
    ck_assert_int_eq(got->rank, s->rank[2]);
    for (int d = 0; d < got->rank; d++)
        ck_assert_int_eq(got->shape[d], s->shape[2][d]);
}

START_TEST(binary_like_reference)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16, SPMD_I32};
    const struct row *row = &rows[_i % ROWS];
    const struct shape *s = &shapes[_i / ROWS];
    for (int k = 0; k < 4 - (row->fn == spmd_div); k++) {
        spmd_value in[2] = {operand(dtypes[k], s, 0), operand(dtypes[k], s, 1)}, y;
        ck_spmd_ok(spmd_test_op(run_binary, (void *)row, 2, in, &y));
        ck_assert_int_eq(y.dtype, dtypes[k]);
        check_shape(&y, s);
        spmd_value want = spmd_value_zeros(dtypes[k], NULL, y.rank, y.shape);
        for (int64_t i = 0; i < spmd_value_count(&y); i++) /* in f32, then rounded once to the dtype */
            spmd_value_set(
                &want, i,
                (float)row->ref(spmd_value_at(&in[0], met(&in[0], &y, i)), spmd_value_at(&in[1], met(&in[1], &y, i))));
        ck_assert_int_eq(spmd_value_count_wrong(&y, &want), 0);
        spmd_values_free(in, 2);
        spmd_values_free((spmd_value[]){y, want}, 2);
    }
}
END_TEST

START_TEST(binary_gradient)
{
    const struct row *row = &rows[_i % ROWS];
    const struct shape *s = &shapes[_i / ROWS];
    spmd_value in[2] = {operand(SPMD_F32, s, 0), operand(SPMD_F32, s, 1)};
    double error = spmd_test_check_grad(run_binary, (void *)row, 2, in, 5);
    /* maximum has kinks, which a difference may straddle; its gradient is tested by itself */
    ck_assert_msg(row->fn == spmd_maximum || error < 1e-2, "%s: %g", row->name, error);
    spmd_values_free(in, 2);
}
END_TEST

static spmd_status equal_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_equal(ctx, &in[0], &in[1], out);
}

START_TEST(equal_of_every_dtype)
{
    const struct shape *s = &shapes[_i % SHAPES];
    spmd_dtype dtype = (spmd_dtype)(_i / SHAPES);
    spmd_value in[2] = {spmd_value_exact(dtype, NULL, s->rank[0], s->shape[0], 1),
                        spmd_value_exact(dtype, NULL, s->rank[1], s->shape[1], 2)};
    spmd_value y;
    ck_spmd_ok(spmd_test_op(equal_op, NULL, 2, in, &y));
    ck_assert_int_eq(y.dtype, SPMD_BOOL);
    check_shape(&y, s);
    for (int64_t i = 0; i < spmd_value_count(&y); i++)
        ck_assert(spmd_value_at(&y, i) ==
                  (spmd_value_at(&in[0], met(&in[0], &y, i)) == spmd_value_at(&in[1], met(&in[1], &y, i))));
    spmd_values_free(in, 2);
    spmd_value_free(&y);
}
END_TEST

static spmd_status where_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_where(ctx, &in[0], &in[1], &in[2], out);
}

START_TEST(where_of_every_dtype)
{
    const struct shape *s = &shapes[_i % SHAPES];
    spmd_dtype dtype = (spmd_dtype)(_i / SHAPES);
    spmd_value in[3] = {spmd_value_exact(SPMD_BOOL, NULL, s->rank[1], s->shape[1], 3),
                        spmd_value_exact(dtype, NULL, s->rank[0], s->shape[0], 1),
                        spmd_value_exact(dtype, NULL, s->rank[2], s->shape[2], 2)};
    spmd_value y;
    ck_spmd_ok(spmd_test_op(where_op, NULL, 3, in, &y));
    ck_assert_int_eq(y.dtype, dtype);
    check_shape(&y, s);
    for (int64_t i = 0; i < spmd_value_count(&y); i++) {
        const spmd_value *from = spmd_value_at(&in[0], met(&in[0], &y, i)) != 0 ? &in[1] : &in[2];
        ck_assert(spmd_value_at(&y, i) == spmd_value_at(from, met(from, &y, i)));
    }
    if (spmd_dtype_is_float(dtype))
        ck_assert_double_lt(spmd_test_check_grad(where_op, NULL, 3, in, 9), dtype == SPMD_F32 ? 1e-2 : 1e-1);
    spmd_values_free(in, 3);
    spmd_value_free(&y);
}
END_TEST

START_TEST(nan_wins_maximum_and_equals_nothing)
{
    spmd_value in[2] = {spmd_value_f32(NULL, SPMD_SHAPE(4), (float[]){NAN, 1, NAN, -0.0f}),
                        spmd_value_f32(NULL, SPMD_SHAPE(4), (float[]){1, NAN, NAN, 0.0f})};
    spmd_value y, same;
    ck_spmd_ok(spmd_test_op(run_binary, (void *)&rows[MAXIMUM], 2, in, &y));
    ck_spmd_ok(spmd_test_op(equal_op, NULL, 2, in, &same));
    for (int i = 0; i < 3; i++)
        ck_assert(isnan(spmd_value_at(&y, i)) && spmd_value_at(&same, i) == 0);
    ck_assert(spmd_value_at(&same, 3) == 1);
    spmd_values_free(in, 2);
    spmd_values_free((spmd_value[]){y, same}, 2);
}
END_TEST

START_TEST(maximum_shares_ties)
{
    spmd_value in[2] = {spmd_value_f32(NULL, SPMD_SHAPE(4), (float[]){1, 2, 3, NAN}),
                        spmd_value_f32(NULL, SPMD_SHAPE(4), (float[]){2, 2, 2, 0})};
    spmd_value ct = spmd_value_f32(NULL, SPMD_SHAPE(4), (float[]){4, 4, INFINITY, 4}), grads[2];
    const double want[2][4] = {{0, 2, INFINITY, 0}, {4, 2, 0, 0}};
    ck_spmd_ok(spmd_test_vjp(run_binary, (void *)&rows[MAXIMUM], 2, in, &ct, grads));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 4; i++)
            ck_assert_msg(spmd_value_at(&grads[k], i) == want[k][i], "%d %d: %g", k, i, spmd_value_at(&grads[k], i));
    spmd_values_free(in, 2);
    spmd_values_free(grads, 2);
    spmd_value_free(&ct);
}
END_TEST

START_TEST(integers_wrap)
{
    static const int32_t a[] = {INT32_MAX, INT32_MIN, 65536}, b[] = {1, 1, 65536};
    static const int32_t want[3][3] = {
        {INT32_MIN, INT32_MIN + 1, 131072}, {INT32_MAX - 1, INT32_MAX, 0}, {INT32_MAX, INT32_MIN, 0}};
    spmd_value in[2] = {spmd_value_i32(NULL, SPMD_SHAPE(3), a), spmd_value_i32(NULL, SPMD_SHAPE(3), b)}, y;
    ck_spmd_ok(spmd_test_op(run_binary, (void *)&rows[_i], 2, in, &y));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq((int32_t)spmd_value_at(&y, i), want[_i][i]);
    spmd_values_free(in, 2);
    spmd_value_free(&y);
}
END_TEST

START_TEST(binary_errors_name_op_and_operands)
{
    spmd_value a = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(4, 8)),
               b = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(3));
    spmd_value h = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(8)),
               n = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(8)), y;
    ck_spmd_fails(spmd_test_op(run_binary, (void *)&rows[MUL], 2, (spmd_value[]){a, b}, &y), SPMD_ESHAPE,
                  "mul: f32[3]");
    ck_assert_ptr_nonnull(strstr(spmd_last_error(), "f32[4,8]: sizes 3 and 8"));
    ck_spmd_fails(spmd_test_op(run_binary, (void *)&rows[ADD], 2, (spmd_value[]){a, h}, &y), SPMD_EDTYPE, "bf16[8]");
    ck_spmd_fails(spmd_test_op(run_binary, (void *)&rows[ADD], 2, (spmd_value[]){n, h}, &y), SPMD_EDTYPE, "add");
    ck_spmd_fails(spmd_test_op(run_binary, (void *)&rows[DIV], 2, (spmd_value[]){n, n}, &y), SPMD_EDTYPE, "div");
    ck_spmd_fails(spmd_test_op(equal_op, NULL, 2, (spmd_value[]){a, h}, &y), SPMD_EDTYPE, "equal");
    ck_spmd_fails(spmd_test_op(where_op, NULL, 3, (spmd_value[]){n, a, a}, &y), SPMD_EDTYPE,
                  "where: condition is i32[8]");
    spmd_values_free((spmd_value[]){a, b, h, n}, 4);
}
END_TEST

SPMD_TEST_MAIN("binary", tcase_add_loop_test(tc, binary_like_reference, 0, ROWS *SHAPES);
               tcase_add_loop_test(tc, binary_gradient, 0, ROWS *SHAPES);
               tcase_add_loop_test(tc, equal_of_every_dtype, 0, SPMD_DTYPE_COUNT *SHAPES);
               tcase_add_loop_test(tc, where_of_every_dtype, 0, SPMD_DTYPE_COUNT *SHAPES);
               tcase_add_test(tc, nan_wins_maximum_and_equals_nothing); tcase_add_test(tc, maximum_shares_ties);
               tcase_add_loop_test(tc, integers_wrap, ADD, MUL + 1);
               tcase_add_test(tc, binary_errors_name_op_and_operands);)
