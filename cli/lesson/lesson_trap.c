/* Multi-device lesson, last part: a gradient that is averaged twice, and what hides it. */
#include "cli/lesson/lesson.h"
#include <string.h>

enum { FORMS = 3, RESULTS = 4 };

static const struct {
    const char *name, *code;
} forms[FORMS] = {
    {"local gradient, pmean", "spmd_grad(ctx, local_loss, x, w, 1, &g);  spmd_pmean(ctx, &g, \"data\", &g);"},
    {"gradient of the pmean'd loss", "spmd_grad(ctx, mean_loss, x, w, 1, &g);"},
    {"local gradient, psum, then pmean",
     "spmd_grad(ctx, local_loss, x, w, 1, &g);  spmd_psum(ctx, &g, \"data\", &g);  spmd_pmean(ctx, &g, \"data\", &g);"},
};

static spmd_status local_loss(spmd_ctx *ctx, const spmd_tensor *w, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    SPMD_TRY(spmd_mul(ctx, w, user, loss));
    SPMD_TRY(spmd_square(ctx, loss, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

static spmd_status mean_loss(spmd_ctx *ctx, const spmd_tensor *w, int n, void *user, spmd_tensor *loss)
{
    SPMD_TRY(local_loss(ctx, w, n, user, loss));
    return spmd_pmean(ctx, loss, "data", loss);
}

static spmd_status gradient(spmd_ctx *ctx, int form, const spmd_tensor *w, const spmd_tensor *x, spmd_tensor *g)
{
    spmd_tensor batch = *x;
    SPMD_TRY(spmd_grad(ctx, form == 1 ? mean_loss : local_loss, &batch, w, 1, g));
    if (form == 1)
        return SPMD_OK;
    if (form == 2)
        SPMD_TRY(spmd_psum(ctx, g, "data", g));
    return spmd_pmean(ctx, g, "data", g);
}

/* One step of each optimizer from fresh state. in: w, x, rate, count; out: gradient, three new parameters. */
static spmd_status all_steps(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const spmd_optim sgd = spmd_optim_sgd(0, false);
    const spmd_optim optims[] = {sgd, spmd_optim_chain(spmd_optim_clip_by_global_norm(200), sgd),
                                 spmd_optim_adamw(0.9, 0.999, 1e-8, 1e-4)};
    SPMD_TRY(gradient(ctx, *(const int *)user, &in[0], &in[1], &out[0]));
    for (int k = 0; k < 3; k++) {
        spmd_tensor state[2], new_state[2];
        for (int s = 0; s < 2; s++)
            SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, &state[s]));
        const spmd_optim_step step = {.n = 1,
                                      .params = &in[0],
                                      .grads = &out[0],
                                      .state = state,
                                      .rate = &in[2],
                                      .count = &in[3],
                                      .new_params = &out[1 + k],
                                      .new_state = new_state};
        SPMD_TRY(spmd_optim_update(ctx, &optims[k], &step));
    }
    return SPMD_OK;
}

static void keep_line(void *user, const char *line)
{
    snprintf(user, 512, "%s", line);
}

static spmd_status run_form(spmd_mesh *mesh, int form, spmd_array *const *in, float *values)
{
    spmd_array *out[RESULTS] = {NULL};
    const spmd_spec specs[RESULTS] = {{0}}; /* SPMD_REPLICATED */
    const spmd_job job = {.mesh = mesh,
                          .fn = all_steps,
                          .user = &form,
                          .nin = 4,
                          .nout = RESULTS,
                          .in = in,
                          .out = out,
                          .out_specs = specs};
    spmd_status status = spmd_shard_map(&job);
    for (int k = 0; k < RESULTS; k++) {
        if (status == SPMD_OK)
            status = spmd_unshard(out[k], &values[k]);
        spmd_array_destroy(out[k]);
    }
    return status;
}

static spmd_status run_forms(spmd_mesh *mesh, float values[FORMS][RESULTS])
{
    const float w = 3, x[] = {0, 1, 2, 3, 4, 5, 6, 7}, rate = 0.01f, count = 1;
    const void *const host[] = {&w, x, &rate, &count};
    spmd_array *in[4] = {NULL};
    spmd_status status = SPMD_OK;
    for (int k = 0; k < 4 && status == SPMD_OK; k++)
        status = spmd_shard(mesh, host[k], SPMD_F32, k == 1, (const int64_t[]){8},
                            k == 1 ? SPMD_P("data") : SPMD_REPLICATED, &in[k]);
    for (int form = 0; form < FORMS && status == SPMD_OK; form++)
        status = run_form(mesh, form, in, values[form]);
    for (int k = 0; k < 4; k++)
        spmd_array_destroy(in[k]);
    return status;
}

spmd_status lesson_trap(lesson *l)
{
    page *p = &l->page;
    char warning[512] = "";
    float values[FORMS][RESULTS];
    spmd_mesh *mesh;
    page_section(p, "trap", "A trap: the gradient that is averaged twice");
    page_text(p, "w = 3, x = 0..7 on four devices, two each; the loss is the mean of (w x)^2, its derivative 2 w "
                 "mean(x^2) = 105.");
    page_text(p, "In JAX's shard_map the gradient of a replicated parameter is already the SUM over the devices: the "
                 "compiler inserts that psum. A pmean written after it then averages four equal values and changes "
                 "nothing: 420. Here the gradient of a local loss is local, so the psum that JAX inserts has to be "
                 "written by hand to see the same:");
    page_stream s;
    if (page_stream_begin(p, &s)) {
        for (int k = 0; k < FORMS; k++)
            fprintf(s.file, "%d  %s\n", k + 1, forms[k].code);
        page_stream_end(p, &s);
    }
    SPMD_TRY(spmd_mesh_create("data=4", "host", &mesh)); /* four devices, whatever this machine has */
    spmd_mesh_set_log(mesh, keep_line, warning);
    spmd_status status = run_forms(mesh, values);
    spmd_mesh_destroy(mesh);
    SPMD_TRY(status);
    page_table(p, "form|gradient|w after SGD|after clipping to 200, SGD|after AdamW");
    for (int k = 0; k < FORMS; k++)
        page_row(p, "%d %s|%g|%g|%g|%g", k + 1, forms[k].name, (double)values[k][0], (double)values[k][1],
                 (double)values[k][2], (double)values[k][3]);
    page_table_end(p);
    page_text(p, "Rate 0.01. SGD steps four times as far, clipping cuts a gradient that needed no cutting, a logged "
                 "gradient norm is four times the true one. AdamW divides by the gradient's own size and HIDES it: the "
                 "training looks well until somebody changes the optimizer or the number of devices.");
    if (warning[0])
        page_text(p, "The library's own warning: %s", warning);
    return SPMD_OK;
}
