/* all_to_all, ppermute, pbroadcast: values on every mesh, what does not fit, pairs. */
#include "tests/collectives/reference.h"

START_TEST(exchange_equals_the_definition)
{
    for (int dims = 0; dims < 9; dims++)
        for (int option = 0; option < 4; option++)
            check_case(&(coll_case){.kind = EXCHANGE,
                                    .dim = dims / 3,
                                    .concat = dims % 3,
                                    .tiled = option & 1,
                                    .empty = option >> 1,
                                    .mesh = mesh_cases[_i].mesh,
                                    .axes = mesh_cases[_i].axes});
}
END_TEST

START_TEST(permute_and_broadcast_equal_the_definition)
{
    for (int option = 0; option < 4; option++)
        check_case(&(coll_case){.kind = option & 1 ? PERMUTE : BROADCAST,
                                .empty = option >> 1,
                                .mesh = mesh_cases[_i].mesh,
                                .axes = mesh_cases[_i].axes});
}
END_TEST

static spmd_status run_fixed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return run_case(ctx, user, in, out);
}

START_TEST(known_numbers)
{
    static const float digits[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 1, 2};
    static const float moved[] = {3, 5, 5, 9, 1, 9, 3, 7, 4, 2, 5, 1, 1, 6, 8, 2};
    coll_case c = {.kind = EXCHANGE, .tiled = true, .axes = "x"}, last = c;
    last.dim = last.concat = -1;
    spmd_value x = spmd_value_f32("x", SPMD_SHAPE(16), digits), y = {.spec = "x"}, z = {.spec = "x"};
    spmd_value want = spmd_value_f32(NULL, SPMD_SHAPE(16), moved);
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y));
    ck_spmd_ok(spmd_test_run("x=4", run_fixed, &last, 1, &x, 1, &z));
    ck_assert_int_eq(spmd_value_count_wrong(&y, &want), 0);
    ck_assert_int_eq(spmd_value_count_wrong(&z, &want), 0);
    spmd_values_free((spmd_value[]){x, y, z, want}, 4);
}
END_TEST

START_TEST(slices_that_do_not_fit)
{
    static const struct {
        coll_case c;
        int64_t block;
        const char *says;
    } cases[] = {
        {{.kind = EXCHANGE, .tiled = true, .axes = "x"}, 3, "divisible by the axis size 4"},
        {{.kind = EXCHANGE, .tiled = true, .axes = "x"}, 6, "divisible by the axis size 4"},
        {{.kind = EXCHANGE, .axes = "x"}, 8, "must equal the axis size 4"},
        {{.kind = EXCHANGE, .dim = 1, .axes = "x"}, 4, ".split"},
        {{.kind = EXCHANGE, .concat = 1, .axes = "x"}, 4, ".concat"},
    };
    coll_case c = cases[_i].c;
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4 * cases[_i].block), 1), y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=4", run_fixed, &c, 1, &x, 1, &y), SPMD_ESHAPE, cases[_i].says);
    spmd_value_free(&x);
}
END_TEST

/* --- pairs --- */
typedef struct permutation {
    const char *mesh, *axes;
    int n, pairs[8][2];
    const char *says; /* NULL: it is valid */
    float want[8];
} permutation;

static spmd_status run_pairs(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const permutation *p = user;
    return spmd_ppermute(ctx, &in[0], p->axes, (const int(*)[2])p->pairs, p->n, &out[0]);
}

START_TEST(pairs_are_followed_or_named)
{
    static const permutation cases[] = {
        {"x=8",
         "x",
         8,
         {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 0}},
         NULL,
         {7, 0, 1, 2, 3, 4, 5, 6}},
        {"x=4,y=2", "x", 4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, NULL, {6, 7, 0, 1, 2, 3, 4, 5}},
        {"x=8", "x", 2, {{5, 0}, {2, 2}}, NULL, {5, 0, 2, 0, 0, 0, 0, 0}},
        {"x=8", "x", 0, {{0}}, NULL, {0}},
        {"x=4,y=2", "y,x", 1, {{1, 7}}, NULL, {0, 0, 0, 0, 0, 0, 0, 2}}, /* place 1 is device (1, 0) */
        {"x=4,y=2", "x", 2, {{0, 1}, {2, 1}}, "but 1 receives from 0 already", {0}},
        {"x=4,y=2", "x", 2, {{0, 1}, {0, 2}}, "but 0 is a source already", {0}},
        {"x=4,y=2", "x", 1, {{0, 4}}, "{0, 4}; expected axis indices 0 to 3", {0}},
        {"x=4,y=2", "x", 1, {{-1, 0}}, "{-1, 0}; expected axis indices 0 to 3", {0}},
        {"x=8", "x", -1, {{0}}, "-1 pairs", {0}},
    };
    permutation p = cases[_i];
    spmd_value x = spmd_value_zeros(SPMD_F32, strchr(p.mesh, 'y') ? "(x,y)" : "x", SPMD_SHAPE(8)), y = {.spec = x.spec};
    for (int k = 0; k < 8; k++)
        spmd_value_set(&x, k, k);
    if (p.says) {
        ck_spmd_fails(spmd_test_run(p.mesh, run_pairs, &p, 1, &x, 1, &y), SPMD_EINVAL, p.says);
    } else {
        ck_spmd_ok(spmd_test_run(p.mesh, run_pairs, &p, 1, &x, 1, &y));
        for (int k = 0; k < 8; k++)
            ck_assert_msg(spmd_value_at(&y, k) == p.want[k], "shard %d: %g, wanted %g", k, spmd_value_at(&y, k),
                          p.want[k]);
        spmd_value_free(&y);
    }
    spmd_value_free(&x);
}
END_TEST

static spmd_status bad_source(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_pbroadcast(ctx, &in[0], "x", *(const int *)user, &out[0]);
}

START_TEST(broadcast_needs_a_source)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4), 1), y = {.spec = NULL};
    ck_spmd_fails(spmd_test_run("x=4", bad_source, &(int){4}, 1, &x, 1, &y), SPMD_EINVAL, "source 4; expected 0 to 3");
    ck_spmd_fails(spmd_test_run("x=4", bad_source, &(int){-1}, 1, &x, 1, &y), SPMD_EINVAL, "source -1");
    ck_spmd_ok(spmd_test_run("x=4", bad_source, &(int){2}, 1, &x, 1, &y)); /* invarying: may be returned under P() */
    ck_assert(spmd_value_at(&y, 0) == spmd_value_at(&x, 2));
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

/* A sum that is still open along another axis may be moved; along the same axis it may not. */
static spmd_status move_partial(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const coll_case *c = user;
    spmd_tensor t;
    SPMD_TRY(spmd_pcast_partial(ctx, &in[0], "y", &t));
    SPMD_TRY(run_case(ctx, c, &t, &t));
    SPMD_CHECK(t.partial == 2, SPMD_EUSER, "kind %d: partial %d", c->kind, t.partial);
    return spmd_psum(ctx, &t, "y", &out[0]);
}

START_TEST(partial_values)
{
    coll_case c = {.kind = (kind)_i, .tiled = true, .axes = "x"};
    spmd_value x = spmd_value_exact(SPMD_F32, "(x,y)", SPMD_SHAPE(8), 1), y = {.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=2,y=2", move_partial, &c, 1, &x, 1, &y));
    spmd_value_free(&y);
    c.axes = "y";
    ck_spmd_fails(spmd_test_run("x=2,y=2", move_partial, &c, 1, &x, 1, &y), SPMD_EINVAL, "psum it first");
    spmd_value_free(&x);
}
END_TEST

static spmd_status no_axes(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_all_to_all(ctx, &in[0], "", NULL, &out[0]));
    SPMD_TRY(spmd_ppermute(ctx, &out[0], "", NULL, 0, &out[0]));
    return spmd_pbroadcast(ctx, &out[0], "", 0, &out[0]);
}

START_TEST(no_axes_change_nothing)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(6), 1), y = {.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=2", no_axes, NULL, 1, &x, 1, &y));
    ck_assert_int_eq(spmd_value_count_wrong(&x, &y), 0);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

SPMD_TEST_MAIN("exchange", tcase_add_loop_test(tc, exchange_equals_the_definition, 0, MESH_CASES);
               tcase_add_loop_test(tc, permute_and_broadcast_equal_the_definition, 0, MESH_CASES);
               tcase_add_test(tc, known_numbers); tcase_add_loop_test(tc, slices_that_do_not_fit, 0, 5);
               tcase_add_loop_test(tc, pairs_are_followed_or_named, 0, 10);
               tcase_add_test(tc, broadcast_needs_a_source); tcase_add_test(tc, no_axes_change_nothing);
               tcase_add_loop_test(tc, partial_values, EXCHANGE, BROADCAST + 1);)
