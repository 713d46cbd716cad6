/* Every collective on blocks that are too large for mail, and so take the other way (collectives/host/select.c).
 */
#include "tests/collectives/pattern.h"

static const struct {
    const char *mesh, *axes, *groups;
} places[] = {
    {"x=2", "x", NULL},
    {"x=3", "x", NULL},
    {"x=2,y=2", "y,x", NULL},
    {"x=4", "x", "3,0;2,1"},
};
enum { PLACES = sizeof places / sizeof places[0], KINDS = BROADCAST + 1 };

START_TEST(equals_the_definition)
{
    coll_case c = {.kind = (kind)(_i / PLACES), .large = true};
    c.mesh = places[_i % PLACES].mesh;
    c.axes = places[_i % PLACES].axes;
    c.groups = c.kind <= EXCHANGE ? places[_i % PLACES].groups : NULL;
    bool moves = c.kind == GATHER || c.kind == SCATTER || c.kind == EXCHANGE;
    for (int option = 0; option < (moves ? 6 : 1); option++) {
        c.dim = option % 3;
        c.concat = (option + 1) % 3;
        c.tiled = option / 3;
        check_case(&c);
    }
}
END_TEST

/* --- past the caches: 24 MiB and more on all shards; blocks are no whole number of cache lines --- */
static spmd_status run_pattern(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    const pattern *p = user;
    SPMD_TRY(pattern_make(ctx, p, out));
    SPMD_TRY(run_case(ctx, &(coll_case){.kind = p->kind, .tiled = true, .axes = "x"}, out, out));
    return pattern_check(ctx, p, out, out);
}

START_TEST(results_past_the_caches)
{
    pattern p = {.kind = (kind)_i, .dtype = SPMD_F32, .count = 3000 * 1001, .shards = 3};
    spmd_value wrong = {.spec = "x"};
    pattern_ops(&p);
    ck_spmd_ok(spmd_test_run("x=3", run_pattern, &p, 0, NULL, 1, &wrong));
    for (int k = 0; k < 3; k++)
        ck_assert_msg(spmd_value_at(&wrong, k) == 0, "kind %d: %g wrong on shard %d", _i, spmd_value_at(&wrong, k), k);
    spmd_value_free(&wrong);
}
END_TEST

SPMD_TEST_MAIN("large", tcase_add_loop_test(tc, equals_the_definition, 0, KINDS *PLACES);
               tcase_add_loop_test(tc, results_past_the_caches, 0, KINDS);)
