/* Groups in all collectives that have them: values, order, states, texts that are no groups. */
#include "tests/collectives/reference.h"

typedef struct group_case {
    const char *mesh, *axes, *groups;
} group_case;

static const group_case equal[] = {
    {"x=4", "x", "0,1;2,3"},           {"x=4", "x", "0,2;1,3"},
    {"x=4", "x", " 3, 0 ; 2 ,1 "},     {"x=4", "x", "0;1;2;3"},
    {"x=4", "x", "2,3,1,0"},           {"x=8", "x", "0,1;2,3;4,5;6,7"},
    {"x=8", "x", "7,0,3,4;1,2,5,6"},   {"x=1", "x", "0"},
    {"x=2,y=2", "y,x", "1,2;3,0"},     {"x=4,y=2", "x", "0,3;2,1"},
    {"x=2,y=2,z=2", "z,x", "0,1;3,2"}, {"x=3,y=2", "y,x", "5,0,2;1,4,3"},
};
static const group_case uneven[] = {
    {"x=8", "x", "0,1;2,3,4,5,6,7"},
    {"x=8", "x", "5;0,7,1;2,3,4,6"},
    {"x=3,y=2", "y,x", "0,5,1;2;4,3"},
    {"x=2,y=3", "y", "2;1,0"},
};
enum { EQUAL = sizeof equal / sizeof equal[0], UNEVEN = sizeof uneven / sizeof uneven[0] };

START_TEST(reductions_equal_the_definition)
{
    for (int k = 0; k < EQUAL + UNEVEN; k++) {
        const group_case *g = k < EQUAL ? &equal[k] : &uneven[k - EQUAL];
        for (int empty = 0; empty < 2; empty++)
            check_case(
                &(coll_case){.kind = (kind)_i, .empty = empty, .mesh = g->mesh, .axes = g->axes, .groups = g->groups});
    }
}
END_TEST

START_TEST(moves_equal_the_definition)
{
    const group_case *g = &equal[_i];
    for (kind op = GATHER; op <= EXCHANGE; op++)
        for (int option = 0; option < 12; option++)
            check_case(&(coll_case){.kind = op,
                                    .dim = option % 3,
                                    .concat = (option + 1) % 3,
                                    .tiled = option / 3 & 1,
                                    .empty = option / 6,
                                    .mesh = g->mesh,
                                    .axes = g->axes,
                                    .groups = g->groups});
}
END_TEST

/* --- numbers from JAX's documents and tests --- */
static spmd_status run_fixed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return run_case(ctx, user, in, out);
}

static void check_known(const coll_case *c, int n, int64_t count, const float *in, const float *want)
{
    char mesh[16];
    snprintf(mesh, sizeof mesh, "x=%d", n);
    spmd_value x = spmd_value_f32("x", 1, &count, in), y = {.spec = "x"};
    ck_spmd_ok(spmd_test_run(mesh, run_fixed, (void *)c, 1, &x, 1, &y));
    for (int64_t k = 0; k < count; k++)
        ck_assert_msg(spmd_value_at(&y, k) == want[k], "%s: element %lld is %g, wanted %g", c->groups, (long long)k,
                      spmd_value_at(&y, k), want[k]);
    spmd_values_free((spmd_value[]){x, y}, 2);
}

START_TEST(known_numbers)
{
    static const float count[] = {0, 1, 2, 3, 4, 5, 6, 7}, halves[] = {1, 1, 5, 5};
    static const float parts[] = {1, 1, 27, 27, 27, 27, 27, 27}, means[] = {.5, .5, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5};
    static const float moved[] = {0, 4, 2, 6, 1, 5, 3, 7};
    check_known(&(coll_case){.kind = PSUM, .axes = "x", .groups = "0,1;2,3"}, 4, 4, count, halves);
    check_known(&(coll_case){.kind = PSUM, .axes = "x", .groups = "0,1;2,3,4,5,6,7"}, 8, 8, count, parts);
    check_known(&(coll_case){.kind = PMEAN, .axes = "x", .groups = "0,1;2,3,4,5,6,7"}, 8, 8, count, means);
    check_known(&(coll_case){.kind = EXCHANGE, .tiled = true, .axes = "x", .groups = "0,2;1,3"}, 4, 8, count, moved);
}
END_TEST

/* A number that is the same everywhere: the group's size times it, and it varies now. */
static spmd_status constant(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    spmd_tensor two;
    SPMD_TRY(spmd_full(ctx, 2, SPMD_F32, SPMD_SHAPE(1), &two));
    SPMD_TRY(spmd_psum_groups(ctx, &two, "x", user, out));
    SPMD_CHECK(out->vary == 1, SPMD_EUSER, "vary %d", out->vary);
    SPMD_TRY(spmd_pmax_groups(ctx, out, "", "0", out)); /* no axes: one shard */
    SPMD_CHECK(out->vary == 1, SPMD_EUSER, "vary %d", out->vary);
    return SPMD_OK;
}

START_TEST(a_constant_becomes_varying)
{
    spmd_value y = {.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=4", constant, "0,1;2,3", 0, NULL, 1, &y));
    for (int k = 0; k < 4; k++)
        ck_assert(spmd_value_at(&y, k) == 4);
    spmd_value_free(&y);
    ck_spmd_ok(spmd_test_run("x=4", constant, "3;0,1,2", 0, NULL, 1, &y));
    for (int k = 0; k < 4; k++)
        ck_assert(spmd_value_at(&y, k) == (k == 3 ? 2 : 6));
    spmd_value_free(&y);
}
END_TEST

/* 1e8, 1, -1e8, 1: the sum is 1 in rank order, another in other orders. */
START_TEST(sums_run_in_rank_order_whatever_the_list)
{
    static const char *const groups[] = {"0,1,2,3", "3,1,0,2", "2,3,1,0"};
    spmd_value x = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(16)), y = {.spec = "x"};
    for (int i = 0; i < 16; i++)
        spmd_value_set(&x, i, (double[]){1e8, 1, -1e8, 1}[i / 4]);
    for (kind op = PSUM; op <= SCATTER; op += SCATTER - PSUM) {
        coll_case c = {.kind = op, .tiled = true, .axes = "x", .groups = groups[_i]};
        ck_spmd_ok(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y));
        ck_assert_int_eq(spmd_value_count(&y), op == PSUM ? 16 : 4);
        for (int64_t k = 0; k < spmd_value_count(&y); k++)
            ck_assert(spmd_value_at(&y, k) == 1);
        spmd_value_free(&y);
    }
    spmd_value_free(&x);
}
END_TEST

/* --- what is refused, by which collectives --- */
static const struct {
    const char *groups, *says;
    bool equal; /* only where groups must have one size */
} bad[] = {
    {"0,1;1,2", "name index 1 twice", false},
    {"0,1;2", "leave out index 3", false},
    {"", "expected an axis index at \"\"", false},
    {"0,1;2,4", "index 4; expected 0 to 3", false},
    {"0,1;2,-1", "index -1; expected 0 to 3", false},
    {"0,1;2,x", "expected an axis index at \"x\"", false},
    {"0,1;;2,3", "expected an axis index at \";2,3\"", false},
    {"0,1;2,3;", "expected an axis index at \"\"", false},
    {"0 1;2,3", "expected an axis index at \"0 1;2,3\"", false},
    {"0;1,2,3", "group 0 has 1 members, group 1 has 3", true},
};

START_TEST(bad_groups_are_named)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(16), 1), y = {.spec = "x"};
    for (kind op = PSUM; op <= EXCHANGE; op++) {
        coll_case c = {.kind = op, .tiled = true, .axes = "x", .groups = bad[_i].groups};
        if (!bad[_i].equal || op >= GATHER)
            ck_spmd_fails(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y), SPMD_EINVAL, bad[_i].says);
    }
    spmd_value_free(&x);
}
END_TEST

static spmd_status no_groups(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum_groups(ctx, in, "x", NULL, out);
}

static spmd_status partial(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_pcast_partial(ctx, in, user, out));
    return spmd_psum_groups(ctx, out, "x", "0;1", out);
}

START_TEST(what_groups_cannot_do)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "(x,y)", SPMD_SHAPE(8), 1), y = {.spec = "(x,y)"};
    coll_case c = {.kind = GATHER, .to = SPMD_TO_INVARYING, .axes = "x", .groups = "0;1"};
    ck_spmd_fails(spmd_test_run("x=2,y=2", run_fixed, &c, 1, &x, 1, &y), SPMD_EINVAL, "use SPMD_TO_VARYING");
    ck_spmd_fails(spmd_test_run("x=2,y=2", no_groups, NULL, 1, &x, 1, &y), SPMD_EINVAL, "groups is NULL");
    ck_spmd_fails(spmd_test_run("x=2,y=2", partial, "x", 1, &x, 1, &y), SPMD_EINVAL, "psum it first");
    spmd_value_free(&x);
}
END_TEST

static spmd_status other_groups(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    coll_case c = {.kind = *(const kind *)user, .tiled = true, .axes = "x"};
    c.groups = spmd_ctx_device(ctx) == 2 ? "0,2;1,3" : "0,1;2,3";
    return run_case(ctx, &c, in, out);
}

START_TEST(other_groups_are_a_mismatch)
{
    kind op = (kind)_i;
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(16), 1), y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=4", other_groups, &op, 1, &x, 1, &y), SPMD_EMISMATCH, "(groups ");
    spmd_value_free(&x);
}
END_TEST

SPMD_TEST_MAIN("groups", tcase_add_loop_test(tc, reductions_equal_the_definition, PSUM, PMIN + 1);
               tcase_add_loop_test(tc, moves_equal_the_definition, 0, EQUAL); tcase_add_test(tc, known_numbers);
               tcase_add_test(tc, a_constant_becomes_varying);
               tcase_add_loop_test(tc, sums_run_in_rank_order_whatever_the_list, 0, 3);
               tcase_add_loop_test(tc, bad_groups_are_named, 0, 10); tcase_add_test(tc, what_groups_cannot_do);
               tcase_add_loop_test(tc, other_groups_are_a_mismatch, PSUM, EXCHANGE + 1);)
