/* all_gather and psum_scatter: values on every mesh, dims from either end, what does not fit, states. */
#include "tests/collectives/reference.h"

START_TEST(gather_equals_the_definition)
{
    for (int dim = 0; dim < 4; dim++)
        for (int option = 0; option < 8; option++) {
            coll_case c = {.kind = GATHER,
                           .dim = dim,
                           .tiled = option & 1,
                           .to = option & 2 ? SPMD_TO_INVARYING : SPMD_TO_VARYING,
                           .empty = option >> 2,
                           .mesh = mesh_cases[_i].mesh,
                           .axes = mesh_cases[_i].axes};
            if (dim < 3 || !c.tiled)
                check_case(&c);
        }
}
END_TEST

START_TEST(scatter_equals_the_definition)
{
    for (int dim = 0; dim < 3; dim++)
        for (int option = 0; option < 4; option++)
            check_case(&(coll_case){.kind = SCATTER,
                                    .dim = dim,
                                    .tiled = option & 1,
                                    .empty = option >> 1,
                                    .mesh = mesh_cases[_i].mesh,
                                    .axes = mesh_cases[_i].axes});
}
END_TEST

static spmd_status run_fixed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return run_case(ctx, user, in, out);
}

static const float digits[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 1, 2};

START_TEST(known_numbers)
{
    static const float sums[] = {22, 20, 12, 17};
    coll_case sum = {.kind = PSUM, .axes = "x"}, scatter = {.kind = SCATTER, .tiled = true, .axes = "x"};
    spmd_value x = spmd_value_f32("x", SPMD_SHAPE(16), digits), y = {.spec = NULL}, z = {.spec = "x"};
    spmd_value want = spmd_value_f32(NULL, SPMD_SHAPE(4), sums);
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &sum, 1, &x, 1, &y));
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &scatter, 1, &x, 1, &z));
    ck_assert_int_eq(spmd_value_count_wrong(&y, &want), 0);
    ck_assert_int_eq(spmd_value_count_wrong(&z, &want), 0);
    spmd_values_free((spmd_value[]){x, y, z, want}, 4);
}
END_TEST

START_TEST(gather_of_one_element_a_shard)
{
    static const float four[] = {3, 9, 5, 2};
    static const struct {
        bool tiled;
        spmd_to to;
        const char *spec;
        int rank, rows;
    } cases[] = {{true, SPMD_TO_VARYING, "x", 1, 16},
                 {false, SPMD_TO_VARYING, "x", 2, 16},
                 {true, SPMD_TO_INVARYING, NULL, 1, 4},
                 {true, SPMD_TO_VARYING, NULL, 0, 0}};
    coll_case c = {.kind = GATHER, .tiled = cases[_i].tiled, .to = cases[_i].to, .axes = "x"};
    spmd_value x = spmd_value_f32("x", SPMD_SHAPE(4), four), y = {.spec = cases[_i].spec};
    if (cases[_i].rank == 0) { /* it is the same on every shard, but its type does not say so */
        ck_spmd_fails(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y), SPMD_EREPLICATION, "x");
        spmd_value_free(&x);
        return;
    }
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y));
    ck_assert_int_eq(y.rank, cases[_i].rank);
    ck_assert_int_eq(y.shape[0], cases[_i].rows);
    for (int k = 0; k < cases[_i].rows; k++)
        ck_assert(spmd_value_at(&y, k) == four[k % 4]);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

/* Dimensions counted from the end: shapes of the result. */
START_TEST(negative_dims)
{
    static const struct {
        coll_case c;
        int rank;
        int64_t block[2], want[3];
    } cases[] = {
        {{.kind = GATHER, .dim = -1, .tiled = true, .axes = "x"}, 2, {4, 3}, {4, 12}},
        {{.kind = GATHER, .dim = -1, .axes = "x"}, 3, {4, 3}, {4, 3, 4}},
        {{.kind = SCATTER, .dim = -1, .tiled = true, .axes = "x"}, 2, {2, 8}, {2, 2}},
        {{.kind = SCATTER, .dim = -2, .axes = "x"}, 1, {4, 3}, {3}},
    };
    coll_case c = cases[_i].c;
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4 * cases[_i].block[0], cases[_i].block[1]), 1);
    spmd_value y = {.spec = "x"}, z = {.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y));
    ck_assert_int_eq(y.rank, cases[_i].rank);
    for (int d = 0; d < y.rank; d++)
        ck_assert_int_eq(y.shape[d], cases[_i].want[d] * (d == 0 ? 4 : 1));
    c.dim += c.kind == GATHER && !c.tiled ? 3 : 2;
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &z));
    ck_assert_int_eq(spmd_value_count_wrong(&y, &z), 0);
    spmd_values_free((spmd_value[]){x, y, z}, 3);
}
END_TEST

static spmd_status untiled_twice(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    out[0] = in[0];
    for (int k = 0; k < 6; k++)
        SPMD_TRY(spmd_all_gather(ctx, &out[0], "x", NULL, &out[0]));
    return SPMD_OK;
}

START_TEST(what_does_not_fit_is_named)
{
    static const struct {
        coll_case c;
        int64_t block;
        spmd_status status;
        const char *says;
    } cases[] = {
        {{.kind = SCATTER, .tiled = true, .axes = "x"}, 6, SPMD_ESHAPE, "divisible by the axis size 4"},
        {{.kind = SCATTER, .axes = "x"}, 8, SPMD_ESHAPE, "must equal the axis size 4"},
        {{.kind = SCATTER, .dim = 2, .axes = "x"}, 4, SPMD_ESHAPE, "psum_scatter"},
        {{.kind = GATHER, .dim = 1, .tiled = true, .axes = "x"}, 4, SPMD_ESHAPE, "all_gather"},
        {{.kind = GATHER, .dim = -3, .axes = "x"}, 4, SPMD_ESHAPE, "all_gather"},
        {{.kind = GATHER, .to = (spmd_to)7, .axes = "x"}, 4, SPMD_EINVAL, ".to is 7"},
        {{.kind = GATHER, .axes = "q"}, 4, SPMD_EAXIS, "q"},
    };
    coll_case c = cases[_i].c;
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4 * cases[_i].block), 1), y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y), cases[_i].status, cases[_i].says);
    ck_spmd_fails(spmd_test_run("x=4", untiled_twice, NULL, 1, &x, 1, &y), SPMD_ESHAPE, "rank 7, at most 6");
    spmd_value_free(&x);
}
END_TEST

static spmd_status sum_both_ways(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_psum(ctx, &in[0], "x,y", &out[0]));
    return spmd_psum_scatter(ctx, &in[0], user, &(spmd_scatter_opts){.tiled = true}, &out[1]);
}

/* Slices go in the order in which the axes are named, sums always in rank order: to the last bit those of psum. */
START_TEST(scatter_has_the_bits_of_psum)
{
    static const char *const axes[] = {"x,y", "y,x"};
    static const int place[2][6] = {{0, 1, 2, 3, 4, 5}, {0, 3, 1, 4, 2, 5}}; /* of device (x, y) on x=3, y=2 */
    enum { SLICE = 1500 };
    spmd_value x = spmd_value_random(SPMD_F32, "(x,y)", SPMD_SHAPE(6 * 6 * SLICE), 1000, 1);
    spmd_value out[] = {{.spec = NULL}, {.spec = "(x,y)"}};
    ck_spmd_ok(spmd_test_run("x=3,y=2", sum_both_ways, (void *)axes[_i], 1, &x, 2, out));
    for (int device = 0; device < 6; device++)
        ck_assert_mem_eq((const float *)out[1].data + device * SLICE,
                         (const float *)out[0].data + place[_i][device] * SLICE, SLICE * sizeof(float));
    spmd_value_free(&x);
    spmd_values_free(out, 2);
}
END_TEST

static spmd_status states(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor part, t;
    SPMD_TRY(spmd_pcast_partial(ctx, &in[0], "y", &part)); /* x=2, y=2: bits 1 and 2 */
    SPMD_TRY(spmd_psum_scatter(ctx, &part, "x", &(spmd_scatter_opts){.tiled = true}, &t));
    SPMD_CHECK(t.vary == 3 && t.partial == 2, SPMD_EUSER, "scatter over x: vary %d partial %d", t.vary, t.partial);
    SPMD_TRY(spmd_psum_scatter(ctx, &part, "y", &(spmd_scatter_opts){.tiled = true}, &t));
    SPMD_CHECK(t.vary == 3 && t.partial == 0, SPMD_EUSER, "scatter over y: vary %d partial %d", t.vary, t.partial);
    SPMD_TRY(spmd_all_gather(ctx, &part, "x", NULL, &t));
    SPMD_CHECK(t.vary == 3 && t.partial == 2, SPMD_EUSER, "gather of partial: vary %d partial %d", t.vary, t.partial);
    SPMD_TRY(spmd_psum(ctx, &t, "y", &t));
    SPMD_CHECK(t.vary == 1 && t.partial == 0, SPMD_EUSER, "psum of partial: vary %d partial %d", t.vary, t.partial);
    SPMD_TRY(spmd_all_gather(ctx, &in[0], "x", &(spmd_gather_opts){.to = SPMD_TO_INVARYING}, &t));
    SPMD_CHECK(t.vary == 2, SPMD_EUSER, "gather to invarying: vary %d", t.vary);
    SPMD_TRY(spmd_all_gather(ctx, &t, "x", NULL, &t));
    SPMD_CHECK(t.vary == 3, SPMD_EUSER, "gather of invarying: vary %d", t.vary);
    SPMD_TRY(spmd_all_gather(ctx, &in[0], "", NULL, &out[0]));
    SPMD_CHECK(out[0].id == in[0].id, SPMD_EUSER, "no axes: another value");
    SPMD_TRY(spmd_psum_scatter(ctx, &out[0], "", NULL, &out[0]));
    return SPMD_OK;
}

START_TEST(states_follow_the_contract)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "(x,y)", SPMD_SHAPE(16), 1), y = {.spec = "(x,y)"};
    ck_spmd_ok(spmd_test_run("x=2,y=2", states, NULL, 1, &x, 1, &y));
    ck_assert_int_eq(spmd_value_count_wrong(&x, &y), 0);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

SPMD_TEST_MAIN("gather", tcase_add_loop_test(tc, scatter_has_the_bits_of_psum, 0, 2);
               tcase_add_loop_test(tc, gather_equals_the_definition, 0, MESH_CASES);
               tcase_add_loop_test(tc, scatter_equals_the_definition, 0, MESH_CASES); tcase_add_test(tc, known_numbers);
               tcase_add_loop_test(tc, gather_of_one_element_a_shard, 0, 4);
               tcase_add_loop_test(tc, negative_dims, 0, 4); tcase_add_loop_test(tc, what_does_not_fit_is_named, 0, 7);
               tcase_add_test(tc, states_follow_the_contract);)
