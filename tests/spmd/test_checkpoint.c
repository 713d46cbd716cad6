/* spmd_checkpoint: the bits of the gradient without it, in both modes, eagerly and as a program; what it costs in calls
 * and saves in memory. */
#include "auto_run.h"

enum form {
    PLAIN,     /* a block with shared weights, all values through the lists */
    CAPTURED,  /* weights through `user` */
    LEAKED,    /* an inner value is used outside */
    SUMMED,    /* a collective inside */
    RANDOM,    /* random numbers inside */
    NESTED,    /* a checkpoint within */
    CONSTRAIN, /* automatic mode: says how a value is cut */
    PASSED,    /* returns an input, and one value twice */
    FORMS
};
enum { X, W, B, SEED, INPUTS, LISTED = 3, BLOCKS = 3, ROWS = 8, WIDTH = 4 };

typedef struct program {
    enum form form;
    bool checkpointed;
    const spmd_tensor *in;      /* of the shard function */
    const spmd_tensor *weights; /* as the loss function has them */
    spmd_tensor leak;
} program;

static spmd_status inner_block(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_residual_gelu(ctx, &in[0], &in[1], &in[2], 0.9, 0.5, out));
    return spmd_tanh(ctx, out, out);
}

static spmd_status random_block(spmd_ctx *ctx, const program *p, spmd_tensor *h)
{
    spmd_tensor noise;
    spmd_spec spec = h->shape[0] == ROWS ? SPMD_REPLICATED : SPMD_P("data"); /* the block of it that h is */
    SPMD_TRY(spmd_random_uniform(ctx, &p->in[SEED], 7, h->rank, h->shape, spec, &noise));
    return spmd_mul(ctx, h, &noise, h);
}

/* in: h, w, b; out: the new h, and one more value. */
static spmd_status block(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    program *p = user;
    const spmd_tensor *w = p->form == CAPTURED ? &p->weights[0] : &in[1], *b = p->form == CAPTURED ? w + 1 : &in[2];
    spmd_tensor t, h = in[0], nested[3] = {h, *w, *b};
    if (p->form == SUMMED) { /* is differentiated twice */
        SPMD_TRY(spmd_linear(ctx, &h, w, b, &t));
        SPMD_TRY(spmd_tanh(ctx, &t, &t));
    } else {
        SPMD_TRY(spmd_linear_gelu(ctx, &h, w, b, &t));
    }
    SPMD_TRY(spmd_mul(ctx, &t, &h, &t));
    SPMD_TRY(spmd_matmul(ctx, &t, w, false, false, &t));
    if (p->form == SUMMED)
        SPMD_TRY(spmd_settle(ctx, &t, "model", &t));
    if (p->form == CONSTRAIN)
        SPMD_TRY(spmd_constrain(ctx, &t, SPMD_P(NULL, "model"), &t));
    if (p->form == RANDOM)
        SPMD_TRY(random_block(ctx, p, &t));
    if (p->form == LEAKED)
        p->leak = t;
    SPMD_TRY(spmd_sigmoid(ctx, &t, &out[0]));
    nested[0] = out[0];
    if (p->form == NESTED && p->checkpointed)
        SPMD_TRY(spmd_checkpoint(ctx, inner_block, NULL, nested, 3, &out[0], 1));
    else if (p->form == NESTED)
        SPMD_TRY(inner_block(ctx, nested, &out[0], NULL));
    out[1] = p->form == PASSED ? in[1] : out[0];
    return SPMD_OK;
}

static spmd_status loss_fn(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    program *p = user;
    p->weights = params;
    spmd_tensor io[3] = {p->in[X], params[0], params[1]}, out[2], w;
    for (int k = 0; k < BLOCKS; k++) {
        if (p->checkpointed)
            SPMD_TRY(spmd_checkpoint(ctx, block, p, io, LISTED, out, 2));
        else
            SPMD_TRY(block(ctx, io, out, p));
        io[0] = out[0];
        w = out[1];
    }
    SPMD_TRY(spmd_square(ctx, &io[0], loss));
    if (p->form == LEAKED)
        SPMD_TRY(spmd_mul(ctx, loss, &p->leak, loss));
    SPMD_TRY(spmd_matmul(ctx, loss, p->form == PASSED ? &w : &params[0], false, false, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

static spmd_status first_order(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    program p = *(const program *)user;
    p.in = in;
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &p, &in[W], 2, &out[2], out));
    return spmd_pmean_list(ctx, out, 3, "data", out);
}

static spmd_value make_input(int k, const char *spec)
{
    return k == SEED ? spmd_value_i32("", SPMD_SCALAR, (const int32_t[]){11})
           : k == X  ? spmd_value_random(SPMD_F32, spec, SPMD_SHAPE(ROWS, WIDTH), 1, 1)
           : k == W  ? spmd_value_random(SPMD_F32, spec, SPMD_SHAPE(WIDTH, WIDTH), 1, 2)
                     : spmd_value_random(SPMD_F32, spec, SPMD_SHAPE(WIDTH), 1, 3);
}

static void run(program p, spmd_shard_fn *fn, bool automatic, bool jit, const char *w_spec, auto_run *r)
{
    const char *specs[INPUTS] = {"data", automatic ? w_spec : "", "", ""};
    spmd_value in[INPUTS];
    for (int k = 0; k < INPUTS; k++)
        in[k] = make_input(k, specs[k]);
    const char *const out_specs[] = {specs[W], "", ""};
    *r = (auto_run){.axes = "data=2,model=2",
                    .fn = fn,
                    .user = &p,
                    .explicitly = !automatic,
                    .jit = jit,
                    .nin = INPUTS,
                    .nout = 3,
                    .in = in,
                    .out_specs = out_specs};
    ck_spmd_ok(auto_run_go(r));
    spmd_values_free(in, INPUTS);
}

static void expect_same(const auto_run *got, const auto_run *want, double tolerance, const char *how)
{
    for (int k = 0; k < 3; k++) {
        double d = spmd_value_difference(&got->out[k], &want->out[k]);
        ck_assert_msg(d <= tolerance, "%s: output %d differs by %g", how, k, d);
    }
}

static const char *const w_specs[] = {"", "-,model", "data"}; /* replicated, tensor parallel, fsdp */

START_TEST(gradients_are_those_without)
{
    program p = {.form = (enum form)_i};
    auto_run without, with;
    for (int way = 0; way < 8; way++) {
        bool automatic = way / 2, jit = way % 2;
        const char *w_spec = w_specs[automatic ? way / 2 - 1 : 0];
        p.checkpointed = false;
        run(p, first_order, automatic, jit, w_spec, &without);
        p.checkpointed = true;
        run(p, first_order, automatic, jit, w_spec, &with);
        char how[64];
        snprintf(how, sizeof how, "form %d, %s, %s, w cut '%s'", _i, automatic ? "automatic" : "explicit",
                 jit ? "program" : "eager", w_spec);
        expect_same(&with, &without, 0, how);
        ck_assert_int_gt(with.stats.ops, without.stats.ops);
        spmd_values_free(without.out, 3);
        spmd_values_free(with.out, 3);
    }
}
END_TEST

/* --- gradients of gradients --- */

static spmd_status squared_gradient(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    spmd_tensor grads[2];
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, user, params, n, loss, grads));
    SPMD_TRY(spmd_square(ctx, &grads[0], loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

static spmd_status second_order(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    program p = *(const program *)user;
    p.in = in;
    SPMD_TRY(spmd_value_and_grad(ctx, squared_gradient, &p, &in[W], 2, &out[2], out));
    return spmd_pmean_list(ctx, out, 3, "data", out);
}

START_TEST(gradients_through_it_nest)
{
    program p = {.form = SUMMED};
    auto_run without, with;
    for (int way = 0; way < 4; way++) {
        p.checkpointed = false;
        run(p, second_order, way / 2, way % 2, "", &without);
        p.checkpointed = true;
        run(p, second_order, way / 2, way % 2, "", &with);
        expect_same(&with, &without, 1e-6, way / 2 ? "automatic" : "explicit");
        spmd_values_free(without.out, 3);
        spmd_values_free(with.out, 3);
    }
}
END_TEST

/* --- calls and memory --- */

START_TEST(collectives_inside_run_again)
{
    program p = {.form = SUMMED};
    auto_run without, with;
    for (int jit = 0; jit < 2; jit++) {
        p.checkpointed = false;
        run(p, first_order, false, jit, "", &without);
        p.checkpointed = true;
        run(p, first_order, false, jit, "", &with);
        ck_assert_int_eq(with.stats.collectives, without.stats.collectives + BLOCKS);
        ck_assert_int_eq(with.stats.implied, without.stats.implied + BLOCKS);
        spmd_values_free(without.out, 3);
        spmd_values_free(with.out, 3);
    }
}
END_TEST

/* --- whatever fails: a status, and the mesh still works --- */

static spmd_status run_on(spmd_mesh *mesh, void *user)
{
    const spmd_spec specs[] = {SPMD_P("model"), SPMD_REPLICATED, SPMD_REPLICATED};
    const char *cut[INPUTS] = {"data", "model", "", ""};
    spmd_array *in[INPUTS] = {NULL}, *out[3] = {NULL};
    program p = {.form = NESTED, .checkpointed = true};
    spmd_job job = {.mesh = mesh, .fn = first_order, .user = &p, .nin = INPUTS, .in = in, .nout = 3, .out = out};
    job.out_specs = specs;
    spmd_status status = user ? spmd_jit_create(mesh, &job.jit) : SPMD_OK;
    for (int k = 0; k < INPUTS && status == SPMD_OK; k++) {
        spmd_value v = make_input(k, "");
        spmd_spec spec;
        spmd_spec_parse(cut[k], &spec);
        status = spmd_shard(mesh, v.data, v.dtype, v.rank, v.shape, spec, &in[k]);
        spmd_value_free(&v);
    }
    if (status == SPMD_OK)
        status = spmd_auto_map(&job);
    spmd_jit_destroy(job.jit);
    for (int k = 0; k < INPUTS; k++)
        spmd_array_destroy(in[k]);
    for (int k = 0; k < 3; k++)
        spmd_array_destroy(out[k]);
    return status;
}

START_TEST(failures_are_statuses)
{
    for (int jit = 0; jit < 2; jit++)
        for (int operation = SPMD_ALLOCATION; operation <= SPMD_COLLECTIVE; operation += SPMD_COLLECTIVE)
            ck_assert_int_gt(spmd_test_each_failure("data=1,model=2", spmd_test_backend(), (spmd_operation)operation,
                                                    run_on, jit ? &jit : NULL),
                             3);
}
END_TEST

static spmd_status sets_nothing(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out, (void)user;
    return SPMD_OK;
}

static spmd_status misused(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_checkpoint(ctx, *(const bool *)user ? sets_nothing : NULL, NULL, in, 1, out, 1);
}

START_TEST(misuse_is_named)
{
    spmd_value in = make_input(X, ""), out = {.spec = ""};
    ck_spmd_fails(spmd_test_run("data=1", misused, &(bool){true}, 1, &in, 1, &out), SPMD_ESTALE, "output 0 was not");
    ck_spmd_fails(spmd_test_run("data=1", misused, &(bool){false}, 1, &in, 1, &out), SPMD_EINVAL, "must not be NULL");
    spmd_value_free(&in);
}
END_TEST

SPMD_TEST_MAIN("checkpoints", tcase_add_loop_test(tc, gradients_are_those_without, 0, FORMS);
               tcase_add_test(tc, gradients_through_it_nest); tcase_add_test(tc, collectives_inside_run_again);
               tcase_add_test(tc, failures_are_statuses); tcase_add_test(tc, misuse_is_named);)
