/* psum, pmean, pmax, pmin and the lists: values, dtypes, NaN, states, warnings. */
#include "tests/collectives/reference.h"

START_TEST(equals_the_definition)
{
    for (int k = 0; k < MESH_CASES; k++)
        for (int empty = 0; empty < 2; empty++)
            check_case(
                &(coll_case){.kind = (kind)_i, .empty = empty, .mesh = mesh_cases[k].mesh, .axes = mesh_cases[k].axes});
}
END_TEST

static spmd_status reduce_x(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return run_case(ctx, &(coll_case){.kind = *(const kind *)user, .axes = "x"}, in, out);
}

/* One value a shard, cut over x; the result must be `want`, the same on all. */
static void check_values(kind op, spmd_dtype dtype, int n, const double *in, spmd_dtype out_dtype, double want)
{
    char mesh[16];
    snprintf(mesh, sizeof mesh, "x=%d", n);
    spmd_value x = spmd_value_zeros(dtype, "x", SPMD_SHAPE(n)), y = {.spec = "x"};
    for (int k = 0; k < n; k++)
        spmd_value_set(&x, k, in[k]);
    ck_spmd_ok(spmd_test_run(mesh, reduce_x, &op, 1, &x, 1, &y));
    ck_assert_int_eq(y.dtype, out_dtype);
    for (int k = 0; k < n; k++)
        ck_assert_msg(spmd_value_at(&y, k) == want || (isnan(want) && isnan(spmd_value_at(&y, k))),
                      "kind %d of %s on shard %d: %g, wanted %g", op, spmd_dtype_name(dtype), k, spmd_value_at(&y, k),
                      want);
    spmd_values_free((spmd_value[]){x, y}, 2);
}

START_TEST(dtypes_round_once_and_wrap)
{
    check_values(PSUM, SPMD_BOOL, 2, (double[]){1, 0}, SPMD_I32, 1);
    check_values(PSUM, SPMD_BOOL, 4, (double[]){1, 1, 0, 1}, SPMD_I32, 3);
    check_values(PMEAN, SPMD_BOOL, 2, (double[]){1, 0}, SPMD_F32, 0.5);
    check_values(PMAX, SPMD_BOOL, 2, (double[]){1, 0}, SPMD_BOOL, 1);
    check_values(PMEAN, SPMD_I32, 4, (double[]){0, 1, 2, 3}, SPMD_F32, 1.5);
    check_values(PSUM, SPMD_I32, 4, (double[]){0, 1, 2, 3}, SPMD_I32, 6);
    check_values(PSUM, SPMD_I8, 2, (double[]){100, 100}, SPMD_I8, -56);
    check_values(PMEAN, SPMD_I8, 2, (double[]){100, 100}, SPMD_F32, 100);
    check_values(PSUM, SPMD_U8, 2, (double[]){200, 100}, SPMD_U8, 44);
    check_values(PSUM, SPMD_I32, 2, (double[]){INT32_MAX, 1}, SPMD_I32, INT32_MIN);
    check_values(PSUM, SPMD_I64, 2, (double[]){0x1p40, 1}, SPMD_I64, 0x1p40 + 1);
    check_values(PMAX, SPMD_I32, 2, (double[]){INT32_MIN, -5}, SPMD_I32, -5);
    check_values(PMIN, SPMD_I64, 2, (double[]){-0x1p40, 5}, SPMD_I64, -0x1p40);
    check_values(PMAX, SPMD_U8, 2, (double[]){200, 100}, SPMD_U8, 200);
    check_values(PMIN, SPMD_I8, 2, (double[]){-100, 100}, SPMD_I8, -100);
    check_values(PSUM, SPMD_BF16, 4, (double[]){256, 1, 1, 1}, SPMD_BF16, 260); /* 259 in f32, rounded to even */
    check_values(PSUM, SPMD_F16, 4, (double[]){2048, 1, 1, 1}, SPMD_F16, 2052);
    check_values(PSUM, SPMD_F32, 4, (double[]){1e8, 1, -1e8, 1}, SPMD_F32, 1); /* in rank order */
    check_values(PMEAN, SPMD_F32, 3, (double[]){7, 7, 7}, SPMD_F32, 7);        /* 7 * (1/3) * 3 is not 7 in f32 */
    check_values(PMEAN, SPMD_F32, 1, (double[]){7}, SPMD_F32, 7);
}
END_TEST

START_TEST(nan_and_infinities)
{
    static const spmd_dtype floats[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    for (int f = 0; f < 3; f++) {
        for (int rank = 0; rank < 4; rank++) {
            double in[] = {1, 2, 3, 4};
            in[rank] = NAN;
            check_values(PMAX, floats[f], 4, in, floats[f], NAN);
            check_values(PMIN, floats[f], 4, in, floats[f], NAN);
        }
        check_values(PMAX, floats[f], 2, (double[]){NAN, NAN}, floats[f], NAN);
        check_values(PMAX, floats[f], 2, (double[]){-INFINITY, -INFINITY}, floats[f], -INFINITY);
        check_values(PMIN, floats[f], 2, (double[]){INFINITY, 3}, floats[f], 3);
        check_values(PSUM, floats[f], 2, (double[]){INFINITY, -INFINITY}, floats[f], NAN);
        check_values(PSUM, floats[f], 2, (double[]){INFINITY, 1}, floats[f], INFINITY);
    }
}
END_TEST

/* --- lists --- */
static spmd_status list_and_single(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_psum_list(ctx, in, SPMD_DTYPE_COUNT, "x", out));
    return spmd_pmean_list(ctx, in, SPMD_DTYPE_COUNT, "x", out + SPMD_DTYPE_COUNT);
}

START_TEST(a_list_is_one_meeting)
{
    spmd_value in[SPMD_DTYPE_COUNT], out[2 * SPMD_DTYPE_COUNT];
    int64_t bytes = 0;
    for (int d = 0; d < SPMD_DTYPE_COUNT; d++) {
        in[d] = spmd_value_exact((spmd_dtype)d, "x", SPMD_SHAPE(3 * (7 + d)), (unsigned)d);
        out[d] = out[SPMD_DTYPE_COUNT + d] = (spmd_value){.spec = NULL};
        bytes += (7 + d) * (int64_t)spmd_dtype_size((spmd_dtype)d);
    }
    spmd_stats stats;
    ck_spmd_ok(spmd_test_run_job("x=3", &(spmd_job){.stats = &stats}, list_and_single, NULL, SPMD_DTYPE_COUNT, in,
                                 2 * SPMD_DTYPE_COUNT, out));
    ck_assert_int_eq(stats.collectives, 2);
    ck_assert_int_eq(stats.bytes, 2 * bytes);
    for (int k = 0; k < 2 * SPMD_DTYPE_COUNT; k++) {
        const spmd_value *x = &in[k % SPMD_DTYPE_COUNT];
        int64_t count = spmd_value_count(x) / 3;
        bool mean = k >= SPMD_DTYPE_COUNT;
        ck_assert_int_eq(out[k].dtype, reference_dtype(mean ? PMEAN : PSUM, x->dtype));
        spmd_value want = spmd_value_zeros(out[k].dtype, NULL, 1, &count);
        for (int64_t i = 0; i < count; i++) {
            double sum = spmd_value_at(x, i) + spmd_value_at(x, i + count) + spmd_value_at(x, i + 2 * count);
            spmd_value_set(&want, i, mean ? sum / 3 : sum);
        }
        ck_assert_int_eq(spmd_value_count_wrong(&out[k], &want), 0);
        spmd_value_free(&want);
    }
    spmd_values_free(in, SPMD_DTYPE_COUNT);
    spmd_values_free(out, 2 * SPMD_DTYPE_COUNT);
}
END_TEST

static spmd_status empty_list(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    out[0] = in[0];
    SPMD_TRY(spmd_psum_list(ctx, NULL, 0, "x", NULL));
    return spmd_psum_list(ctx, in, -1, "x", out);
}

START_TEST(lists_of_no_tensors)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(2), 1), y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2", empty_list, NULL, 1, &x, 1, &y), SPMD_EINVAL, "a list of -1 tensors");
    spmd_value_free(&x);
}
END_TEST

/* --- repeated reductions --- */
static spmd_status twice(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    coll_case c = {.kind = *(const kind *)user, .axes = "x"};
    for (int k = 0; k < 3; k++) { /* one call site, three times */
        SPMD_TRY(spmd_psum(ctx, &in[0], "x", &out[0]));
        SPMD_TRY(run_case(ctx, &c, &out[0], &out[0]));
    }
    return SPMD_OK;
}

START_TEST(a_repeated_reduction_is_warned_about_once)
{
    static const struct {
        kind op;
        double want;
        const char *says;
    } cases[] = {{PSUM, 24, "4 times the input"}, {PMEAN, 6, "the result is the input"}, {PMAX, 6, NULL}};
    spmd_value x = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(4)), y = {.spec = NULL};
    for (int k = 0; k < 4; k++)
        spmd_value_set(&x, k, k);
    kind op = cases[_i].op;
    ck_spmd_ok(spmd_test_run("x=4", twice, &op, 1, &x, 1, &y));
    ck_assert(spmd_value_at(&y, 0) == cases[_i].want);
    if (cases[_i].says) {
        ck_assert_ptr_nonnull(strstr(spmd_test_log(), cases[_i].says));
        ck_assert_ptr_nonnull(strstr(spmd_test_log(), "reference.h:"));
        ck_assert_ptr_eq(strchr(spmd_test_log(), '\n'), strrchr(spmd_test_log(), '\n'));
    } else {
        ck_assert_str_eq(spmd_test_log(), "");
    }
    spmd_value_free(&y);
    ck_spmd_ok(spmd_test_run("x=1", twice, &op, 1,
                             &(spmd_value){.dtype = SPMD_F32, .rank = 1, .shape = {1}, .spec = "x", .data = x.data}, 1,
                             &y)); /* one shard: nothing is doubled, nothing is said */
    ck_assert_str_eq(spmd_test_log(), "");
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static spmd_status bad_axis(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_psum(ctx, &in[0], user, &out[0]);
}

START_TEST(axes_are_checked)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(2), 1), y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2", bad_axis, "data", 1, &x, 1, &y), SPMD_EAXIS, "data");
    ck_spmd_fails(spmd_test_run("x=2", bad_axis, "x,x", 1, &x, 1, &y), SPMD_ESPEC, "x");
    ck_spmd_ok(spmd_test_run("x=2", bad_axis, "", 1, &x, 1, &y));
    ck_assert_int_eq(spmd_value_count_wrong(&x, &y), 0);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static spmd_status partial_reduction(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor part;
    SPMD_TRY(spmd_pcast_partial(ctx, &in[0], "x,y", &part));
    if (*(const kind *)user != PSUM)
        return run_case(ctx, &(coll_case){.kind = *(const kind *)user, .axes = "x"}, &part, out);
    SPMD_TRY(spmd_psum(ctx, &part, "x", &part));
    SPMD_CHECK(part.vary == 2 && part.partial == 2, SPMD_EUSER, "vary %d partial %d", part.vary, part.partial);
    SPMD_TRY(spmd_psum(ctx, &part, "y", &out[0]));
    SPMD_CHECK(!out[0].vary && !out[0].partial, SPMD_EUSER, "vary %d partial %d", out[0].vary, out[0].partial);
    return SPMD_OK;
}

START_TEST(a_partial_value_may_only_be_summed)
{
    spmd_value x = spmd_value_f32("(x,y)", SPMD_SHAPE(4), (float[]){1, 2, 3, 4}), y = {.spec = NULL};
    kind op = PSUM;
    ck_spmd_ok(spmd_test_run("x=2,y=2", partial_reduction, &op, 1, &x, 1, &y));
    ck_assert(spmd_value_at(&y, 0) == 10);
    spmd_value_free(&y);
    op = PMAX;
    ck_spmd_fails(spmd_test_run("x=2,y=2", partial_reduction, &op, 1, &x, 1, &y), SPMD_EINVAL, "psum it first");
    op = GATHER;
    ck_spmd_fails(spmd_test_run("x=2,y=2", partial_reduction, &op, 1, &x, 1, &y), SPMD_EINVAL, "partial sum over 'x'");
    spmd_value_free(&x);
}
END_TEST

SPMD_TEST_MAIN("psum", tcase_add_loop_test(tc, equals_the_definition, PSUM, PMIN + 1);
               tcase_add_test(tc, dtypes_round_once_and_wrap); tcase_add_test(tc, nan_and_infinities);
               tcase_add_test(tc, a_list_is_one_meeting); tcase_add_test(tc, lists_of_no_tensors);
               tcase_add_loop_test(tc, a_repeated_reduction_is_warned_about_once, 0, 3);
               tcase_add_test(tc, axes_are_checked); tcase_add_test(tc, a_partial_value_may_only_be_summed);)
