/* Gradients of sharded models on meshes against the same model on one device: tensor parallel, sequence sharded,
 * batch-norm-like statistics, sharded parameters (FSDP), accumulated microbatches; local and pmean'd losses. */
#include "spmd/testing.h"

enum { B = 16, DM = 8, H = 12, C = 6, V = 10, PARAMS = 10 };

static const int64_t shapes[PARAMS][2] = {{V, DM}, {DM, 0}, {DM, 0}, {DM, H}, {H, 0},
                                          {H, DM}, {DM, 0}, {DM, 0}, {DM, 0}, {DM, C}};
/* Megatron's cut: w1 by columns, w2 by rows. */
static const char *const tensor_parallel[PARAMS] = {"", "", "", "-,model", "model", "model,-", "", "", "", ""};
static const char *const fsdp[PARAMS] = {"", "data", "", "data,-", "", "-,data", "data", "", "data", "data,-"};

typedef struct model {
    const spmd_tensor *tokens, *labels;
    bool parallel, pmean_loss, gather;
    int microbatches;
} model;

/* A sharded parameter, whole again for the forward pass; its transpose scatters the gradient. */
static spmd_status gathered(spmd_ctx *ctx, const model *m, const spmd_tensor *params, int k, spmd_tensor *out)
{
    spmd_spec spec;
    *out = params[k];
    if (!m->gather)
        return SPMD_OK;
    SPMD_TRY(spmd_spec_parse(fsdp[k], &spec));
    for (int d = 0; d < spec.entries; d++)
        if (*spec.axes[d])
            SPMD_TRY(spmd_all_gather(ctx, out, spec.axes[d], (&(spmd_gather_opts){.dim = d, .tiled = true}), out));
    return SPMD_OK;
}

/* embedding, layer norm, two-layer block with residual, layer norm, classifier */
static spmd_status loss_of(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const model *m = user;
    spmd_tensor p[PARAMS], x, t, h;
    for (int k = 0; k < PARAMS; k++)
        SPMD_TRY(gathered(ctx, m, params, k, &p[k]));
    SPMD_TRY(spmd_embedding(ctx, &p[0], m->tokens, &x));
    SPMD_TRY(spmd_layer_norm(ctx, &x, &p[1], &p[2], 1e-5, &t));
    SPMD_TRY(spmd_linear_gelu(ctx, &t, &p[3], &p[4], &h));
    SPMD_TRY(spmd_matmul(ctx, &h, &p[5], false, false, &t));
    if (m->parallel)
        SPMD_TRY(spmd_psum(ctx, &t, "model", &t));
    SPMD_TRY(spmd_add(ctx, &t, &p[6], &t));
    SPMD_TRY(spmd_add(ctx, &x, &t, &x));
    SPMD_TRY(spmd_layer_norm(ctx, &x, &p[7], &p[8], 1e-5, &t));
    SPMD_TRY(spmd_matmul(ctx, &t, &p[9], false, false, &t));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &t, m->labels, &t));
    SPMD_TRY(spmd_mean(ctx, &t, NULL, 0, false, loss));
    return m->pmean_loss ? spmd_pmean(ctx, loss, "data", loss) : SPMD_OK;
}

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    model m = *(model *)user;
    int n = m.microbatches;
    for (int b = 0; b < n; b++) {
        spmd_tensor g[PARAMS + 1];
        m.tokens = &in[PARAMS + 2 * b];
        m.labels = &in[PARAMS + 2 * b + 1];
        SPMD_TRY(spmd_value_and_grad(ctx, loss_of, &m, in, PARAMS, &g[PARAMS], g));
        for (int k = 0; k <= PARAMS; k++) {
            SPMD_TRY(spmd_scale(ctx, &g[k], 1.0 / n, &g[k]));
            if (b)
                SPMD_TRY(spmd_add(ctx, &out[k], &g[k], &out[k]));
            else
                out[k] = g[k];
        }
    }
    if (m.pmean_loss)
        return SPMD_OK;
    SPMD_TRY(spmd_pmean(ctx, &out[PARAMS], "data", &out[PARAMS]));
    if (m.gather)
        return spmd_mean_grads(ctx, in, out, PARAMS, "data");
    return spmd_pmean_list(ctx, out, PARAMS, "data", out);
}

/* Parameters, then tokens and labels of every microbatch. */
static void make_inputs(spmd_value *in, spmd_value *out, const char *const *specs, int microbatches)
{
    for (int k = 0; k < PARAMS; k++) {
        in[k] = spmd_value_random(SPMD_F32, specs ? specs[k] : "", shapes[k][1] ? 2 : 1, shapes[k], 1, (unsigned)k + 1);
        for (int64_t i = 0; (k == 1 || k == 7) && i < DM; i++)
            spmd_value_set(&in[k], i, 1 + spmd_value_at(&in[k], i));
        out[k] = (spmd_value){.spec = specs ? specs[k] : ""};
    }
    out[PARAMS] = (spmd_value){.spec = ""};
    for (int b = 0; b < microbatches; b++) {
        spmd_value *tokens = &in[PARAMS + 2 * b], *labels = tokens + 1;
        *tokens = spmd_value_zeros(SPMD_I32, "data", SPMD_SHAPE(B));
        *labels = spmd_value_zeros(SPMD_I32, "data", SPMD_SHAPE(B));
        for (int i = 0; i < B; i++) {
            spmd_value_set(tokens, i, (i * 7 + b * 3) % V);
            spmd_value_set(labels, i, (i * 5 + b) % C);
        }
    }
}

static const struct {
    const char *mesh;
    bool parallel, pmean_loss, gather;
    int microbatches;
} rows[] = {
    {"data=4,model=1", true, false, false, 1}, {"data=1,model=4", true, false, false, 1},
    {"data=2,model=2", true, false, false, 1}, {"data=4,model=2", true, true, false, 1},
    {"data=2,model=4", true, true, false, 1},  {"data=1,model=2", true, true, false, 1},
    {"data=2,model=2", true, false, false, 3}, {"data=2,model=2", true, true, false, 3},
    {"data=4", false, false, false, 2},        {"data=2", false, false, true, 1},
    {"data=2,model=2", false, true, true, 1},  {"data=2,model=2", false, false, true, 3},
};

START_TEST(as_on_one_device)
{
    spmd_value in[PARAMS + 6], got[PARAMS + 1], want[PARAMS + 1];
    model m = {.microbatches = rows[_i].microbatches};
    int n = PARAMS + 2 * m.microbatches;
    make_inputs(in, want, NULL, m.microbatches);
    ck_spmd_ok(spmd_test_run("data=1,model=1", step, &m, n, in, PARAMS + 1, want));
    spmd_values_free(in, n);
    m = (model){.parallel = rows[_i].parallel,
                .pmean_loss = rows[_i].pmean_loss,
                .gather = rows[_i].gather,
                .microbatches = rows[_i].microbatches};
    const char *const *specs = m.gather ? fsdp : m.parallel ? tensor_parallel : NULL;
    make_inputs(in, got, specs, m.microbatches);
    ck_spmd_ok(spmd_test_run(rows[_i].mesh, step, &m, n, in, PARAMS + 1, got));
    for (int k = 0; k <= PARAMS; k++)
        ck_assert_msg(spmd_value_difference(&got[k], &want[k]) < 2e-5, "%s: gradient %d differs by %g", rows[_i].mesh,
                      k, spmd_value_difference(&got[k], &want[k]));
    spmd_values_free(in, n);
    spmd_values_free(got, PARAMS + 1);
    spmd_values_free(want, PARAMS + 1);
}
END_TEST

/* Batch-norm-like: statistics are pmean'd over the shards and then meet a parameter. */
static spmd_status norm_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const model *m = user;
    spmd_tensor h, mean, d, var, y;
    SPMD_TRY(spmd_matmul(ctx, m->tokens, &p[0], false, false, &h));
    SPMD_TRY(spmd_mean(ctx, &h, (int[]){0}, 1, false, &mean));
    SPMD_TRY(spmd_pmean(ctx, &mean, "data", &mean));
    SPMD_TRY(spmd_sub(ctx, &p[2], &mean, &mean)); /* a collective's result mixed with a parameter, still invarying */
    SPMD_TRY(spmd_add(ctx, &h, &mean, &d));
    SPMD_TRY(spmd_mul(ctx, &d, &d, &var));
    SPMD_TRY(spmd_mean(ctx, &var, (int[]){0}, 1, false, &var));
    SPMD_TRY(spmd_pmean(ctx, &var, "data", &var));
    SPMD_TRY(spmd_mul(ctx, &var, &p[1], &var));
    SPMD_TRY(spmd_mul(ctx, &d, &var, &y));
    SPMD_TRY(spmd_tanh(ctx, &y, &y));
    SPMD_TRY(spmd_mul(ctx, &y, &y, &y));
    SPMD_TRY(spmd_mean(ctx, &y, NULL, 0, false, loss));
    return m->pmean_loss ? spmd_pmean(ctx, loss, "data", loss) : SPMD_OK;
}

static spmd_status norm_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    model m = *(model *)user;
    m.tokens = &in[3];
    SPMD_TRY(spmd_value_and_grad(ctx, norm_loss, &m, in, 3, &out[3], out));
    return m.pmean_loss ? SPMD_OK : spmd_pmean_list(ctx, out, 4, "data", out);
}

START_TEST(statistics_over_shards)
{
    spmd_value in[4] = {spmd_value_random(SPMD_F32, "", SPMD_SHAPE(5, 7), 1, 1),
                        spmd_value_random(SPMD_F32, "", SPMD_SHAPE(7), 1, 2),
                        spmd_value_random(SPMD_F32, "", SPMD_SHAPE(7), 1, 3),
                        spmd_value_random(SPMD_F32, "data", SPMD_SHAPE(8, 5), 1, 4)};
    spmd_value got[4] = {{.spec = ""}, {.spec = ""}, {.spec = ""}, {.spec = ""}}, want[4];
    memcpy(want, got, sizeof want);
    model m = {.pmean_loss = _i};
    ck_spmd_ok(spmd_test_run("data=1", norm_step, &m, 4, in, 4, want));
    ck_spmd_ok(spmd_test_run("data=4", norm_step, &m, 4, in, 4, got));
    for (int k = 0; k < 4; k++)
        ck_assert_msg(spmd_value_difference(&got[k], &want[k]) < 2e-5, "gradient %d: %g", k,
                      spmd_value_difference(&got[k], &want[k]));
    spmd_values_free(in, 4);
    spmd_values_free(got, 4);
    spmd_values_free(want, 4);
}
END_TEST

/* Sequence sharded: layer norm on a shard's rows, gathered over "model" for a matmul cut by columns, scattered back. */
static spmd_status sequence_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor t, rows_ = *(const spmd_tensor *)user;
    SPMD_TRY(spmd_layer_norm(ctx, &rows_, &p[0], &p[1], 1e-5, &t));
    SPMD_TRY(spmd_all_gather(ctx, &t, "model", (&(spmd_gather_opts){.tiled = true}), &t));
    SPMD_TRY(spmd_matmul(ctx, &t, &p[2], false, false, &t));
    SPMD_TRY(spmd_gelu(ctx, &t, &t));
    SPMD_TRY(spmd_matmul(ctx, &t, &p[3], false, false, &t));
    SPMD_TRY(spmd_psum_scatter(ctx, &t, "model", (&(spmd_scatter_opts){.tiled = true}), &t));
    SPMD_TRY(spmd_add(ctx, &rows_, &t, &t));
    SPMD_TRY(spmd_mul(ctx, &t, &t, &t));
    SPMD_TRY(spmd_mean(ctx, &t, NULL, 0, false, loss));
    return spmd_pmean(ctx, loss, "model", loss);
}

static spmd_status sequence_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_value_and_grad(ctx, sequence_loss, (void *)&in[4], in, 4, &out[4], out);
}

START_TEST(sequence_sharded)
{
    static const char *const specs[5] = {"", "", "-,model", "model,-", ""};
    spmd_value in[5] = {spmd_value_random(SPMD_F32, specs[0], SPMD_SHAPE(6), 1, 1),
                        spmd_value_random(SPMD_F32, specs[1], SPMD_SHAPE(6), 1, 2),
                        spmd_value_random(SPMD_F32, specs[2], SPMD_SHAPE(6, 8), 1, 3),
                        spmd_value_random(SPMD_F32, specs[3], SPMD_SHAPE(8, 6), 1, 4),
                        spmd_value_random(SPMD_F32, "model,-", SPMD_SHAPE(12, 6), 1, 5)};
    spmd_value got[5], want[5];
    for (int k = 0; k < 5; k++)
        got[k] = want[k] = (spmd_value){.spec = specs[k]};
    ck_spmd_ok(spmd_test_run("model=1", sequence_step, NULL, 5, in, 5, want));
    ck_spmd_ok(spmd_test_run(_i ? "model=4" : "model=2", sequence_step, NULL, 5, in, 5, got));
    for (int k = 0; k < 5; k++)
        ck_assert_msg(spmd_value_difference(&got[k], &want[k]) < 2e-5, "gradient %d: %g", k,
                      spmd_value_difference(&got[k], &want[k]));
    spmd_values_free(in, 5);
    spmd_values_free(got, 5);
    spmd_values_free(want, 5);
}
END_TEST

SPMD_TEST_MAIN("grad_models", tcase_add_loop_test(tc, as_on_one_device, 0, 12);
               tcase_add_loop_test(tc, statistics_over_shards, 0, 2); tcase_add_loop_test(tc, sequence_sharded, 0, 2);)
