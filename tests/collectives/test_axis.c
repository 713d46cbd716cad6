/* axis_index, axis_size, pcast, pcast_partial: where a shard is and what its values are said to be. */
#include "tests/collectives/model.h"

static spmd_status index_block(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    SPMD_TRY(spmd_axis_index(ctx, user, &out[0]));
    SPMD_CHECK(out[0].rank == 0 && out[0].dtype == SPMD_I32, SPMD_EUSER, "rank %d dtype %d", out[0].rank, out[0].dtype);
    return spmd_reshape(ctx, &out[0], SPMD_SHAPE(1), &out[0]);
}

START_TEST(index_is_row_major_in_the_order_given)
{
    static const int32_t xy[] = {0, 1, 2, 3, 4, 5, 6, 7}, yx[] = {0, 4, 1, 5, 2, 6, 3, 7},
                         x[] = {0, 0, 1, 1, 2, 2, 3, 3};
    static const int32_t y[] = {0, 1, 0, 1, 0, 1, 0, 1};
    static const struct {
        const char *axes;
        const int32_t *want;
    } cases[] = {{"x,y", xy}, {"y,x", yx}, {"x", x}, {"y", y}};
    spmd_value out = {.spec = "(x,y)"}, want = spmd_value_i32(NULL, SPMD_SHAPE(8), cases[_i].want);
    ck_spmd_ok(spmd_test_run("x=4,y=2", index_block, (void *)cases[_i].axes, 0, NULL, 1, &out));
    ck_assert_int_eq(spmd_value_count_wrong(&out, &want), 0);
    spmd_values_free((spmd_value[]){out, want}, 2);
}
END_TEST

START_TEST(index_on_every_mesh)
{
    const mesh_case *c = &mesh_cases[_i];
    model m = model_make(c->mesh);
    char spec[64];
    spmd_value out = {.spec = model_spec(&m, spec)};
    ck_spmd_ok(spmd_test_run(c->mesh, index_block, (void *)c->axes, 0, NULL, 1, &out));
    for (int device = 0; device < m.devices; device++) {
        int members[SPMD_MAX_DEVICES], me = -1;
        model_group(&m, c->axes, device, members, &me);
        ck_assert_int_eq((int)spmd_value_at(&out, device), me);
    }
    spmd_value_free(&out);
}
END_TEST

static spmd_status sizes(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    static const struct {
        const char *axes;
        int size;
    } cases[] = {{"x", 2}, {"y", 1}, {"z", 3}, {"z,x", 6}, {"x,y,z", 6}, {"", 1}};
    for (int k = 0; k < 6; k++) {
        int n = 0;
        SPMD_TRY(spmd_axis_size(ctx, cases[k].axes, &n));
        SPMD_CHECK(n == cases[k].size, SPMD_EUSER, "'%s' has size %d", cases[k].axes, n);
    }
    spmd_tensor index;
    SPMD_TRY(spmd_axis_index(ctx, "", &index));
    SPMD_CHECK(index.vary == 0, SPMD_EUSER, "no axes: vary %d", index.vary);
    SPMD_TRY(spmd_axis_index(ctx, "z,x", &index));
    SPMD_CHECK(index.vary == 5, SPMD_EUSER, "z,x: vary %d", index.vary);
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(sizes_multiply)
{
    spmd_value x = spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(2), 1), y = {.spec = NULL};
    ck_spmd_ok(spmd_test_run("x=2,y=1,z=3", sizes, NULL, 1, &x, 1, &y));
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static spmd_status bad_index(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    return spmd_axis_index(ctx, user, &out[0]);
}

static spmd_status bad_size(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    (void)out;
    int n;
    return spmd_axis_size(ctx, user, &n);
}

START_TEST(unknown_axes_are_named)
{
    spmd_value y = {.spec = NULL};
    ck_spmd_fails(spmd_test_run("x=2", bad_index, "data", 0, NULL, 1, &y), SPMD_EAXIS, "data");
    ck_spmd_fails(spmd_test_run("x=2", bad_size, "x,data", 0, NULL, 0, NULL), SPMD_EAXIS, "data");
    ck_spmd_fails(spmd_test_run("x=2", bad_size, "x,", 0, NULL, 0, NULL), SPMD_EAXIS, "no mesh axis ''");
    ck_spmd_fails(spmd_test_run("x=2", bad_size, ",x", 0, NULL, 0, NULL), SPMD_EAXIS, "no mesh axis ''");
}
END_TEST

/* Casts: the state changes, the memory and the operand do not. */
static spmd_status casts(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor varying, partial;
    SPMD_TRY(spmd_pcast(ctx, &in[0], "x", &varying));
    SPMD_CHECK(varying.vary == 1 && in[0].vary == 0 && varying.id != in[0].id, SPMD_EUSER, "vary %d", varying.vary);
    SPMD_CHECK(varying.memory == in[0].memory, SPMD_EUSER, "pcast moved data");
    SPMD_TRY(spmd_pcast(ctx, &varying, "", &varying));
    SPMD_TRY(spmd_pcast_partial(ctx, &varying, "x", &partial));
    SPMD_CHECK(partial.vary == 1 && partial.partial == 1, SPMD_EUSER, "partial %d", partial.partial);
    SPMD_CHECK(partial.memory == in[0].memory, SPMD_EUSER, "pcast_partial moved data");
    SPMD_TRY(spmd_pcast(ctx, &partial, "y", &partial));
    SPMD_CHECK(partial.vary == 3 && partial.partial == 1, SPMD_EUSER, "vary %d partial %d", partial.vary,
               partial.partial);
    SPMD_TRY(spmd_psum(ctx, &partial, "x", &partial));
    return spmd_pmean(ctx, &partial, "y", &out[0]);
}

START_TEST(casts_change_the_state_only)
{
    spmd_value x = spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(5), 1), y = {.spec = NULL};
    ck_spmd_ok(spmd_test_run("x=3,y=2", casts, NULL, 1, &x, 1, &y));
    for (int k = 0; k < 5; k++)
        ck_assert(spmd_value_at(&y, k) == 3 * spmd_value_at(&x, k));
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static spmd_status bad_cast(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    int which = *(const int *)user; /* in[0] varies over x, in[1] nowhere */
    if (which == 0)
        return spmd_pcast(ctx, &in[0], "x,y", &out[0]);
    if (which == 1)
        return spmd_pcast_partial(ctx, &in[1], "x", &out[0]);
    SPMD_TRY(spmd_pcast_partial(ctx, &in[0], "x", &out[0]));
    return spmd_pcast_partial(ctx, &out[0], "x", &out[0]);
}

START_TEST(casts_that_say_nothing_true)
{
    static const char *const says[] = {"varies over 'x' already", "does not vary over 'x'", "partial over 'x' already"};
    spmd_value in[] = {spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(2), 1),
                       spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(2), 1)};
    spmd_value y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2,y=2", bad_cast, &(int){_i}, 2, in, 1, &y), SPMD_EINVAL, says[_i]);
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("axis", tcase_add_loop_test(tc, index_is_row_major_in_the_order_given, 0, 4);
               tcase_add_loop_test(tc, index_on_every_mesh, 0, MESH_CASES); tcase_add_test(tc, sizes_multiply);
               tcase_add_test(tc, unknown_axes_are_named); tcase_add_test(tc, casts_change_the_state_only);
               tcase_add_loop_test(tc, casts_that_say_nothing_true, 0, 3);)
