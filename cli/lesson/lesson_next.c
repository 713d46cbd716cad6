/* Multi-device lesson, third part: where to go from here: more devices, a second axis, more work a device. */
#include "cli/lesson/lesson.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, PARAMS = SPMD_MODEL_MAX_PARAMS };

static spmd_status time_pair(lesson *l, const char *axes, int devices, spmd_train_options options, const char *what)
{
    cli_timing t[2];
    const char *const meshes[] = {"data=1", axes};
    spmd_train_options sized = options;
    for (int k = 0; k < 2; k++) {
        sized.batch = k ? options.batch : options.batch / devices;
        SPMD_TRY(cli_time_on(meshes[k], l->options->backend, &sized, &t[k], NULL));
    }
    page_row(&l->page, "%s|%s|%lld|%d|%.2f|%.0f|%.2f", what, axes, (long long)options.batch, options.config.repeats,
             t[1].ms, t[1].examples_per_s, t[1].examples_per_s / t[0].examples_per_s);
    return SPMD_OK;
}

/* A plain step of gradient descent with global values. in: parameters, x, y; out: parameters, loss. */
static spmd_status global_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const lesson *l = user;
    int n = l->train.model->params;
    spmd_model_batch batch = {.model = l->train.model, .config = &l->train.config, .x = &in[n], .y = &in[n + 1]};
    SPMD_TRY(spmd_value_and_grad(ctx, spmd_model_loss, &batch, in, n, &out[n], out));
    for (int k = 0; k < n; k++) {
        SPMD_TRY(spmd_scale(ctx, &out[k], 0.01, &out[k]));
        SPMD_TRY(spmd_sub(ctx, &in[k], &out[k], &out[k]));
    }
    return SPMD_OK;
}

typedef struct cut_run {
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *in[PARAMS + 2], *loss;
    double losses[STEPS];
    spmd_program_info program;
} cut_run;

static spmd_status make_arrays(const lesson *l, cut_run *r, bool split, float *memory)
{
    spmd_param_info info[PARAMS];
    int n = l->train.model->params;
    l->train.model->describe(&l->train.config, info);
    for (int k = 0; k < n; k++) {
        spmd_spec spec = SPMD_REPLICATED;
        if (split && strcmp(info[k].name, "w_block") == 0)
            spec = SPMD_P(NULL, "model");
        spmd_model_init(&info[k], l->train.seed, k, memory);
        SPMD_TRY(spmd_shard(r->mesh, memory, SPMD_F32, info[k].rank, info[k].shape, spec, &r->in[k]));
    }
    float *x;
    int32_t *y;
    SPMD_TRY(cli_make_batch(&l->train, &x, &y));
    spmd_status status = spmd_shard(r->mesh, x, SPMD_F32, SPMD_SHAPE(l->train.batch, l->train.config.inputs),
                                    SPMD_P("data", NULL), &r->in[n]);
    if (status == SPMD_OK)
        status = spmd_shard(r->mesh, y, SPMD_I32, SPMD_SHAPE(l->train.batch), SPMD_P("data"), &r->in[n + 1]);
    free(x);
    free(y);
    return status;
}

static spmd_status run_steps(const lesson *l, cut_run *r)
{
    int n = l->train.model->params;
    spmd_array *out[PARAMS + 1];
    spmd_spec specs[PARAMS + 1] = {{0}};
    for (int k = 0; k < n; k++) {
        out[k] = r->in[k];
        specs[k] = spmd_array_spec(r->in[k]);
    }
    out[n] = NULL;
    const spmd_job job = {.mesh = r->mesh,
                          .fn = global_step,
                          .user = (void *)l,
                          .nin = n + 2,
                          .nout = n + 1,
                          .in = r->in,
                          .out = out,
                          .out_specs = specs,
                          .jit = r->jit};
    spmd_status status = SPMD_OK;
    for (int s = 0; s < STEPS && status == SPMD_OK; s++) {
        float loss = 0;
        status = spmd_auto_map(&job);
        r->loss = out[n];
        if (status == SPMD_OK)
            status = spmd_unshard(r->loss, &loss);
        r->losses[s] = loss;
    }
    return status == SPMD_OK ? spmd_jit_info(r->jit, 0, &r->program) : status;
}

static spmd_status run_cut(const lesson *l, const char *axes, bool split, cut_run *r)
{
    int64_t largest = l->train.config.inputs > l->train.config.width ? l->train.config.inputs : l->train.config.width;
    float *memory = malloc((size_t)(largest * l->train.config.width) * sizeof *memory);
    SPMD_CHECK(memory, SPMD_ENOMEM, "out of memory for a parameter");
    spmd_status status = spmd_mesh_create(axes, l->options->backend, &r->mesh);
    if (status == SPMD_OK)
        status = spmd_jit_create(r->mesh, &r->jit);
    if (status == SPMD_OK)
        status = make_arrays(l, r, split, memory);
    free(memory);
    return status == SPMD_OK ? run_steps(l, r) : status;
}

static void free_cut(cut_run *r)
{
    for (int k = 0; k < PARAMS + 2; k++)
        spmd_array_destroy(r->in[k]);
    spmd_array_destroy(r->loss);
    spmd_jit_destroy(r->jit);
    spmd_mesh_destroy(r->mesh);
}

static void show_cut(lesson *l, const cut_run *one, const cut_run *cut)
{
    page *p = &l->page;
    spmd_param_info info[PARAMS];
    l->train.model->describe(&l->train.config, info);
    lesson_array_table(p);
    for (int k = 0; k < l->train.model->params; k++)
        lesson_array_row(p, info[k].name, cut->in[k]);
    page_table_end(p);
    page_stream s;
    if (page_stream_begin(p, &s)) {
        fprintf(s.file, "w_block: ");
        cli_draw_array(cut->in[2], s.file);
        page_stream_end(p, &s);
    }
    page_table(p, "step|loss on one device|loss on data=2,model=2|relative difference");
    for (int k = 0; k < STEPS; k++)
        page_row(p, "%d|%.6f|%.6f|%.2g", k + 1, one->losses[k], cut->losses[k],
                 fabs(one->losses[k] - cut->losses[k]) / fabs(one->losses[k]));
    page_table_end(p);
    page_table(p, "collectives over|meetings|bytes");
    static const char *const masks[] = {"", "data", "model", "data,model"};
    for (int mask = 1; mask < 4; mask++)
        page_row(p, "%s|%lld|%lld", masks[mask], (long long)cut->program.collectives_by_axes[mask],
                 (long long)cut->program.bytes_by_axes[mask]);
    page_table_end(p);
}

/* Backends of real devices may not have that many. */
static bool has_devices(const lesson *l, page *p, const char *axes)
{
    spmd_mesh *mesh = NULL;
    if (spmd_mesh_create(axes, l->options->backend, &mesh) != SPMD_OK) {
        page_text(p, "LEFT OUT: what needs the mesh %s: %s", axes, spmd_last_error());
        return false;
    }
    spmd_mesh_destroy(mesh);
    return true;
}

static spmd_status second_axis(lesson *l)
{
    cut_run one = {0}, cut = {0};
    page_text(&l->page,
              "A mesh with a second axis: the batch is cut over \"data\" and w_block over \"model\", P(-,model): each "
              "device keeps half of its columns. The step function does not change; the array's spec does, and the "
              "automatic mode inserts what must move:");
    spmd_status status = run_cut(l, "data=1", false, &one);
    if (status == SPMD_OK)
        status = run_cut(l, "data=2,model=2", true, &cut);
    if (status == SPMD_OK)
        show_cut(l, &one, &cut);
    free_cut(&one);
    free_cut(&cut);
    return status;
}

spmd_status lesson_next(lesson *l)
{
    page *p = &l->page;
    int devices = spmd_mesh_devices(l->mesh);
    page_section(p, "next", "Next steps");
    spmd_train_options four = l->train, work = l->train, repeats = l->train;
    four.batch = l->train.batch / devices * 4;
    work.batch *= 4;
    repeats.config.repeats *= 2;
    bool four_devices = has_devices(l, p, "data=4");
    page_table(p, "what|mesh|batch|repeats|ms a step|examples/s|times one device");
    if (four_devices)
        SPMD_TRY(time_pair(l, "data=4", 4, four, "4 devices"));
    SPMD_TRY(time_pair(l, l->axes, devices, work, "4 times the batch a device"));
    SPMD_TRY(time_pair(l, l->axes, devices, repeats, "twice the repeats"));
    page_table_end(p);
    page_text(p, "More work between two meetings is what makes devices pay: a larger batch a device, or more repeats "
                 "of the block, which add work but no gradient.");
    return four_devices ? second_axis(l) : SPMD_OK;
}
