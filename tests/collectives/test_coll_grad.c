/* Gradients of the collectives against differences of the loss, on meshes, once and twice differentiated.
 *
 * The losses are linear (or quadratic) in small integers, so that differences and gradients are exact in f32:
 * L(x + d) - L(x) = <dL/dx, d> to the last bit, for whole random directions d. */
#include "tests/collectives/reference.h"

typedef struct problem {
    coll_case c;
    bool replicated; /* the parameter: the same on every shard, or cut over all axes */
    bool weighted;   /* by a number that differs from shard to shard */
    bool twice;      /* the loss is made of the gradient of a quadratic loss */
    unsigned local;  /* axes over which the loss stays local: cotangents are then pending in the collective */
} problem;

/* Sums over what the value varies on, except `local`. */
static spmd_status settle(spmd_ctx *ctx, spmd_tensor *t, unsigned local)
{
    char axes[2 * SPMD_MAX_AXES + 1] = "";
    for (int a = 0; a < SPMD_MAX_AXES; a++)
        if ((t->vary & ~local) >> a & 1)
            strcat(strcat(axes, *axes ? "," : ""), spmd_mesh_axis_name(spmd_ctx_mesh(ctx), a));
    return spmd_psum(ctx, t, axes, t);
}

typedef struct loss_args {
    const problem *problem;
    const spmd_tensor *weight;
} loss_args;

/* sum(collective(x) [* weight]), or sum(weight * collective(x)^2) for the second derivative. */
static spmd_status inner_loss(spmd_ctx *ctx, const spmd_tensor *x, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const loss_args *a = user;
    spmd_tensor y;
    SPMD_TRY(run_case(ctx, &a->problem->c, &x[0], &y));
    if (a->problem->twice)
        SPMD_TRY(spmd_square(ctx, &y, &y));
    if (a->problem->weighted)
        SPMD_TRY(spmd_mul(ctx, &y, a->weight, &y));
    SPMD_TRY(spmd_sum(ctx, &y, NULL, 0, false, loss));
    return settle(ctx, loss, a->problem->local);
}

static spmd_status outer_loss(spmd_ctx *ctx, const spmd_tensor *x, int n, void *user, spmd_tensor *loss)
{
    const loss_args *a = user;
    if (!a->problem->twice)
        return inner_loss(ctx, x, n, user, loss);
    spmd_tensor grad, dims;
    SPMD_TRY(spmd_grad(ctx, inner_loss, user, x, 1, &grad));
    SPMD_TRY(spmd_iota(ctx, SPMD_F32, x->shape[2], &dims));
    SPMD_TRY(spmd_mul(ctx, &grad, &dims, &grad)); /* not all elements alike */
    SPMD_TRY(spmd_sum(ctx, &grad, NULL, 0, false, loss));
    return settle(ctx, loss, a->problem->local);
}

/* in: x, one weight a shard; out: the sum of the losses that there are, its gradient */
static spmd_status differentiate(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor weight;
    SPMD_TRY(spmd_reshape(ctx, &in[1], SPMD_SCALAR, &weight));
    const problem *p = user;
    loss_args a = {p, &weight};
    SPMD_TRY(spmd_value_and_grad(ctx, outer_loss, &a, in, 1, &out[0], &out[1]));
    SPMD_TRY(settle(ctx, &out[0], 0));
    return p->replicated ? settle(ctx, &out[1], 0) : SPMD_OK; /* local gradients of the copies */
}

static void check_problem(const problem *p, unsigned seed)
{
    model m = model_make(p->c.mesh);
    char cut[64];
    int members[SPMD_MAX_DEVICES], me = 0, n = case_members(&p->c, &m, 0, members, &me);
    int64_t shape[3], output[4];
    case_shapes(&p->c, n, shape, output);
    model_spec(&m, cut);
    const char *spec = p->replicated ? NULL : cut;
    shape[0] *= p->replicated ? 1 : m.devices;
    spmd_value in[] = {spmd_value_exact(SPMD_F32, spec, 3, shape, seed),
                       spmd_value_zeros(SPMD_F32, cut, SPMD_SHAPE(m.devices))};
    for (int k = 0; k < m.devices; k++)
        spmd_value_set(&in[1], k, 1 + k % 3);
    spmd_value out[] = {{.spec = NULL}, {.spec = spec}};
    ck_spmd_ok(spmd_test_run(p->c.mesh, differentiate, (void *)p, 2, in, 2, out));
    double before = spmd_value_at(&out[0], 0);
    spmd_value_free(&out[0]);
    spmd_value grad = out[1];
    for (unsigned direction = 1; direction < 4; direction++) {
        spmd_value step = spmd_value_exact(SPMD_F32, spec, 3, shape, seed + direction);
        double expected = 0;
        for (int64_t i = 0, count = spmd_value_count(&step); i < count; i++) {
            expected += spmd_value_at(&grad, i) * spmd_value_at(&step, i);
            spmd_value_set(&step, i, spmd_value_at(&in[0], i) + spmd_value_at(&step, i));
        }
        out[1] = (spmd_value){.spec = spec};
        ck_spmd_ok(spmd_test_run(p->c.mesh, differentiate, (void *)p, 2, (spmd_value[]){step, in[1]}, 2, out));
        ck_assert_msg(
            spmd_value_at(&out[0], 0) - before == expected,
            "kind %d dim %d tiled %d to %d on %s over %s in %s, replicated %d weighted %d twice %d local %u: %g, "
            "gradient %g",
            p->c.kind, p->c.dim, p->c.tiled, p->c.to, p->c.mesh, p->c.axes, p->c.groups, p->replicated, p->weighted,
            p->twice, p->local, spmd_value_at(&out[0], 0) - before, expected);
        spmd_values_free(out, 2);
        spmd_value_free(&step);
    }
    spmd_values_free((spmd_value[]){in[0], in[1], grad}, 3);
}

static const coll_case grad_cases[] = {
    {.kind = PSUM},
    {.kind = PMEAN},
    {.kind = GATHER, .dim = 1},
    {.kind = GATHER, .dim = 1, .tiled = true},
    {.kind = GATHER, .dim = 1, .to = SPMD_TO_INVARYING},
    {.kind = GATHER, .dim = 0, .tiled = true, .to = SPMD_TO_INVARYING},
    {.kind = SCATTER, .dim = 1},
    {.kind = SCATTER, .dim = 1, .tiled = true},
    {.kind = EXCHANGE, .dim = 1, .concat = 0},
    {.kind = EXCHANGE, .dim = 0, .concat = 1, .tiled = true},
    {.kind = PERMUTE},
    {.kind = BROADCAST},
};
enum { GRAD_CASES = sizeof grad_cases / sizeof grad_cases[0] };

static void check_options(const coll_case *c, const char *mesh, const char *axes, const char *groups, unsigned seed)
{
    static const unsigned local[] = {0, 1, ~0u};
    for (unsigned options = 0; options < 24; options += groups ? 5 : 1) { /* with groups a mix of them is enough */
        problem p = {*c, options & 1, options & 2, options & 4, local[options / 8]};
        p.c.mesh = mesh;
        p.c.axes = axes;
        p.c.groups = groups;
        check_problem(&p, 24 * seed + options);
    }
}

/* Sizes are powers of two, so that means are exact. */
START_TEST(equals_differences)
{
    static const mesh_case meshes[] = {{"x=4", "x"},       {"x=1", "x"},       {"x=2,y=2", "x"},      {"x=2,y=2", "y"},
                                       {"x=2,y=2", "y,x"}, {"x=2,y=1", "x,y"}, {"x=2,y=2,z=2", "z,x"}};
    for (unsigned k = 0; k < 7; k++)
        check_options(&grad_cases[_i], meshes[k].mesh, meshes[k].axes, NULL, k);
}
END_TEST

START_TEST(equals_differences_in_groups)
{
    static const struct {
        const char *mesh, *axes, *groups;
    } cases[] = {{"x=4", "x", "0,2;3,1"},
                 {"x=2,y=2", "y,x", "3,0;1,2"},
                 {"x=2,y=2", "y", "1;0"},
                 {"x=4,y=2", "x", "0;3;2,1"},
                 {"x=5", "x", "4,1,3,2;0"}};
    const coll_case *c = &grad_cases[_i];
    bool reduces = c->kind == PSUM || c->kind == PMEAN;
    if (c->kind == PERMUTE || c->kind == BROADCAST || c->to == SPMD_TO_INVARYING)
        return; /* have no groups */
    for (unsigned k = 0; k < (reduces ? 5 : 3); k++)
        check_options(c, cases[k].mesh, cases[k].axes, cases[k].groups, k);
}
END_TEST

static spmd_status max_loss(spmd_ctx *ctx, const spmd_tensor *x, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor y = x[0];
    if (*(const bool *)user)
        SPMD_TRY(spmd_stop_gradient(ctx, &y, &y));
    SPMD_TRY(spmd_pmax(ctx, &y, "x", &y));
    SPMD_TRY(spmd_add(ctx, &y, &x[0], &y));
    SPMD_TRY(spmd_sum(ctx, &y, NULL, 0, false, loss));
    return settle(ctx, loss, 0);
}

static spmd_status grad_of_max(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_grad(ctx, max_loss, user, in, 1, out);
}

START_TEST(a_maximum_has_no_gradient)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4), 1), y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2", grad_of_max, &(bool){false}, 1, &x, 1, &y), SPMD_EGRAD, "pmax has no gradient");
    ck_spmd_ok(spmd_test_run("x=2", grad_of_max, &(bool){true}, 1, &x, 1, &y));
    for (int k = 0; k < 4; k++)
        ck_assert(spmd_value_at(&y, k) == 1);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

SPMD_TEST_MAIN("coll_grad", tcase_add_loop_test(tc, equals_differences, 0, GRAD_CASES);
               tcase_add_loop_test(tc, equals_differences_in_groups, 0, GRAD_CASES);
               tcase_add_test(tc, a_maximum_has_no_gradient);)
