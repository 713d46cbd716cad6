/* The harness itself: a comparison that cannot fail, or a gradient check that accepts anything, would pass every test
 * that stands on it. */
#include "tests/harness/golden.h"

START_TEST(random_values_depend_on_seed_and_place_only)
{
    spmd_value a = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(50), 2, 7),
               b = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(80), 2, 7);
    spmd_value c = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(50), 2, 8);
    double sum = 0, largest = 0;
    for (int i = 0; i < 50; i++) {
        ck_assert(spmd_value_at(&a, i) == spmd_value_at(&b, i));
        largest = fmax(largest, fabs(spmd_value_at(&a, i)));
        sum += spmd_value_at(&a, i);
    }
    ck_assert_double_gt(largest, 1.5);
    ck_assert_double_lt(largest, 2);
    ck_assert_double_lt(fabs(sum / 50), 0.6);
    ck_assert_double_gt(spmd_value_difference(&a, &c), 0.1);
    spmd_values_free((spmd_value[]){a, b, c}, 3);
}
END_TEST

START_TEST(every_dtype_holds_small_integers)
{
    spmd_value v = spmd_value_exact((spmd_dtype)_i, NULL, SPMD_SHAPE(64), 1);
    double largest = 0;
    for (int i = 0; i < 64; i++) {
        double x = spmd_value_at(&v, i);
        ck_assert(x == floor(x) && x >= 0);
        largest = fmax(largest, x);
        spmd_value_set(&v, i, x);
        ck_assert(spmd_value_at(&v, i) == x);
    }
    ck_assert(largest == (_i == SPMD_BOOL ? 1 : 7));
    spmd_value_free(&v);
}
END_TEST

static const struct {
    float a[2], b[2];
    double difference;
    int64_t wrong;
} pairs[] = {
    {{1, 2}, {1, 2}, 0, 0},
    {{1, 2}, {1, 4}, 0.5, 1},
    {{NAN, 2}, {NAN, 2}, 0, 0},
    {{NAN, 2}, {1, 2}, INFINITY, 1},
    {{1, 2}, {NAN, 2}, INFINITY, 1},
    {{INFINITY, 2}, {INFINITY, 2}, 0, 0},
    {{INFINITY, 2}, {-INFINITY, 2}, INFINITY, 1},
    {{0.0f, 0}, {-0.0f, 0}, 0, 1}, /* equal, but not the same bits */
};

START_TEST(comparisons_see_every_difference)
{
    spmd_value a = spmd_value_f32(NULL, SPMD_SHAPE(2), pairs[_i].a),
               b = spmd_value_f32(NULL, SPMD_SHAPE(2), pairs[_i].b);
    ck_assert(spmd_value_difference(&a, &b) == pairs[_i].difference);
    ck_assert_int_eq(spmd_value_count_wrong(&a, &b), pairs[_i].wrong);
    spmd_values_free((spmd_value[]){a, b}, 2);
}
END_TEST

START_TEST(other_shapes_and_dtypes_are_different)
{
    spmd_value a = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(2, 3)),
               b = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(3, 2));
    spmd_value c = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(2, 3));
    ck_assert(isinf(spmd_value_difference(&a, &b)) && isinf(spmd_value_difference(&a, &c)));
    ck_assert(spmd_value_count_wrong(&a, &b) == -1 && spmd_value_count_wrong(&a, &c) == -1);
    spmd_values_free((spmd_value[]){a, b, c}, 3);
}
END_TEST

/* x^3 as a custom op whose gradient is `slope` x^2, right for slope 3. */
static spmd_status cube_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)user;
    SPMD_CHECK(nin == 1 && nout == 1, SPMD_EINVAL, "cube: one input and one output, not %d and %d", nin, nout);
    out->dtype = in->dtype;
    out->rank = in->rank;
    memcpy(out->shape, in->shape, sizeof out->shape);
    return SPMD_OK;
}

static spmd_status cube_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    const float *x = in->data;
    float *y = out->data;
    for (int64_t i = 0, n = spmd_view_count(in); i < n; i++)
        y[i] = x[i] * x[i] * x[i];
    return SPMD_OK;
}

static spmd_status cube_grad(spmd_ctx *ctx, const spmd_tensor *in, int nin, const spmd_tensor *out, int nout,
                             const spmd_tensor *ct, const bool *need, spmd_tensor *gin, void *user)
{
    (void)nin, (void)out, (void)nout, (void)need;
    spmd_tensor square;
    SPMD_TRY(spmd_square(ctx, in, &square));
    SPMD_TRY(spmd_scale(ctx, &square, *(const double *)user, &square));
    return spmd_mul(ctx, ct, &square, gin);
}

static spmd_status cube(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_custom(ctx, user, in, 1, out, 1);
}

START_TEST(gradient_check_tells_right_from_wrong)
{
    static const struct {
        double slope, at_least, at_most;
    } rows[] = {{3, 0, 1e-3}, {3.3, 0.05, 0.2}, {-3, 1, 3}, {0, 0.9, 1.1}};
    double slope = rows[_i].slope;
    spmd_custom_op op = {.name = "cube", .shape = cube_shape, .host = cube_host, .grad = cube_grad, .user = &slope};
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(5, 4), 3, 3);
    double error = spmd_test_check_grad(cube, &op, 1, &x, 17);
    ck_assert_msg(error >= rows[_i].at_least && error <= rows[_i].at_most, "slope %g: error %g", slope, error);
    spmd_value_free(&x);
}
END_TEST

static spmd_status whisper(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum(ctx, in, "x", out); /* of a replicated value: warned about */
}

START_TEST(runs_return_results_statuses_and_log)
{
    spmd_value x = spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(3), 1), y = {0};
    ck_spmd_ok(spmd_test_run("x=2", whisper, NULL, 1, &x, 1, &y));
    ck_assert(spmd_value_at(&y, 2) == 2 * spmd_value_at(&x, 2));
    ck_assert_msg(strstr(spmd_test_log(), "psum") != NULL, "log: %s", spmd_test_log());
    spmd_value_free(&y);
    ck_spmd_fails(spmd_test_run("y=2", whisper, NULL, 1, &x, 1, &y), SPMD_EAXIS, "'x'");
    ck_assert_ptr_null(y.data);
    spmd_value_free(&x);
}
END_TEST

static spmd_status twice(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_add(ctx, &in[0], &in[0], &out[0]);
}

static void want_twice(const spmd_mesh *mesh, const spmd_value *in, spmd_value *want, void *user)
{
    (void)mesh, (void)user;
    want[0] = spmd_value_zeros(in->dtype, "x", in->rank, in->shape);
    for (int64_t i = 0; i < spmd_value_count(in); i++)
        spmd_value_set(&want[0], i, 2 * spmd_value_at(in, i));
}

START_TEST(a_test_everywhere_compares_with_what_was_computed)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(12), 1);
    spmd_test test = {.fn = twice, .nin = 1, .in = &in, .nout = 1, .want = want_twice};
    test.out_specs = (const char *[]){"x"};
    test.meshes = (const char *[]){"x=1", "x=3", NULL};
    spmd_test_everywhere(&test);
    spmd_value_free(&in);
}
END_TEST

START_TEST(golden_values_are_read)
{
    spmd_value a = golden("ops", "matmul.in0", "-,x");
    ck_assert(a.dtype == SPMD_F32 && a.rank == 2 && a.shape[0] == 17 && a.shape[1] == 33);
    ck_assert_str_eq(a.spec, "-,x");
    ck_assert(spmd_value_at(&a, 0) != 0);
    spmd_value_free(&a);
}
END_TEST

SPMD_TEST_MAIN("harness", tcase_add_test(tc, random_values_depend_on_seed_and_place_only);
               tcase_add_loop_test(tc, every_dtype_holds_small_integers, 0, SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, comparisons_see_every_difference, 0, sizeof pairs / sizeof *pairs);
               tcase_add_test(tc, other_shapes_and_dtypes_are_different);
               tcase_add_loop_test(tc, gradient_check_tells_right_from_wrong, 0, 4);
               tcase_add_test(tc, runs_return_results_statuses_and_log);
               tcase_add_test(tc, a_test_everywhere_compares_with_what_was_computed);
               tcase_add_test(tc, golden_values_are_read);)
