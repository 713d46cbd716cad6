/* A trainer's making: the arrays of a training job, their names and specs. All memory is taken here, so that a step
 * takes none. */
#include "models/train_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

spmd_status spmd_train_defaults(const char *name, spmd_train_options *out)
{
    const spmd_model *model;
    SPMD_TRY(spmd_model_find(name, &model));
    *out = (spmd_train_options){.model = model,
                                .config = model->defaults,
                                .optim = spmd_optim_adamw(0.9, 0.999, 1e-8, 1e-4),
                                .schedule = spmd_schedule_cosine(3e-3, 400, 0),
                                .batch = 512,
                                .seed = 1};
    return SPMD_OK;
}

static spmd_status check_batch(const spmd_mesh *mesh, int64_t batch)
{
    int size = 0;
    for (int a = 0; a < spmd_mesh_axes(mesh); a++)
        if (strcmp(spmd_mesh_axis_name(mesh, a), "data") == 0)
            size = spmd_mesh_axis_size(mesh, a);
    SPMD_CHECK(size > 0, SPMD_EAXIS, "the mesh has no axis 'data', over which the batch is cut: make it as \"data=%d\"",
               spmd_mesh_devices(mesh));
    SPMD_CHECK(batch > 0, SPMD_EINVAL, "batch %lld: needs at least one example a device (%d devices along 'data')",
               (long long)batch, size);
    int64_t below = batch / size * size, above = below + size;
    SPMD_CHECK(below == batch || below == 0, SPMD_EINVAL,
               "batch %lld cannot be cut evenly over %d devices along 'data': use %lld or %lld", (long long)batch, size,
               (long long)below, (long long)above);
    SPMD_CHECK(below == batch, SPMD_EINVAL, "batch %lld is smaller than the %d devices along 'data': use %lld",
               (long long)batch, size, (long long)above);
    return SPMD_OK;
}

typedef struct start_values {
    const spmd_trainer *trainer;
    int k; /* the parameter */
} start_values;

/* This device's share of a parameter's start values, into the host's memory. */
static spmd_status init_share(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)out;
    const start_values *start = user;
    const spmd_trainer *t = start->trainer;
    int64_t count = spmd_param_count(&t->info[start->k]), devices = spmd_mesh_devices(t->mesh);
    int device = spmd_ctx_device(ctx);
    spmd__model_init_some(&t->info[start->k], t->options.seed, start->k, count * device / devices,
                          count * (device + 1) / devices, t->param);
    return SPMD_OK;
}

static spmd_status do_nothing(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out, (void)user;
    return SPMD_OK;
}

/* The devices' threads make the values together; then each touches and fills its own copy, when a launch begins. */
static spmd_status start_param(spmd_trainer *t, int k)
{
    start_values start = {t, k};
    const spmd_job make = {.mesh = t->mesh, .fn = init_share, .user = &start};
    SPMD_TRY(spmd_shard_map(&make));
    const void *values = t->param;
    const spmd_job copy = {.mesh = t->mesh, .fn = do_nothing, .nin = 1, .in = &t->arrays[k].array, .in_host = &values};
    return spmd_shard_map(&copy);
}

static spmd_status make_params(spmd_trainer *t)
{
    for (int k = 0; k < t->nparams; k++) {
        const spmd_param_info *info = &t->info[k];
        SPMD_TRY(spmd_shard(t->mesh, NULL, SPMD_F32, info->rank, info->shape, SPMD_REPLICATED, &t->arrays[k].array));
        SPMD_TRY(start_param(t, k));
        snprintf(t->arrays[k].name, sizeof t->arrays[k].name, "%s", info->name);
    }
    return SPMD_OK;
}

static spmd_status make_state(spmd_trainer *t)
{
    SPMD_TRY(spmd_optim_init(&t->options.optim, t->nparams, t->in, t->in + t->nparams));
    int k = t->nparams;
    for (int i = 0; i < t->options.optim.transforms; i++)
        for (int slot = 0; slot < t->options.optim.transform[i].slots; slot++)
            for (int p = 0; p < t->nparams; p++, k++) {
                t->arrays[k].array = t->in[k];
                snprintf(t->arrays[k].name, sizeof t->arrays[k].name, "%s/%s",
                         t->options.optim.transform[i].slot_name[slot], t->info[p].name);
            }
    return SPMD_OK;
}

static spmd_status make_others(spmd_trainer *t)
{
    const struct {
        const char *name, *axis;
        spmd_dtype dtype;
        int rank;
    } other[OTHERS] = {
        [BATCH_X] = {"batch.x", "data", SPMD_F32, 2},
        [BATCH_Y] = {"batch.y", "data", SPMD_I32, 1},
        [BATCH_WEIGHT] = {"batch.weight", "data", SPMD_F32, 1},
        [RATE] = {"rate", NULL, SPMD_F32, 0},
        [COUNT] = {"count", NULL, SPMD_F32, 0},
        [LOSS] = {"loss", NULL, SPMD_F32, 0},
        [ACCURACY] = {"accuracy", NULL, SPMD_F32, 0},
        [GRAD_NORM] = {"grad_norm", NULL, SPMD_F32, 0},
    };
    const int64_t shape[] = {t->options.batch, t->options.config.inputs};
    for (int k = 0; k < OTHERS; k++) {
        trained_array *made = &t->arrays[t->nparams + t->nstate + k];
        SPMD_TRY(spmd_shard(t->mesh, NULL, other[k].dtype, other[k].rank, shape,
                            spmd_spec_make(other[k].rank, (const char *const[]){other[k].axis, NULL}), &made->array));
        snprintf(made->name, sizeof made->name, "%s", other[k].name);
    }
    return SPMD_OK;
}

/* The step's job reads and writes the same arrays. */
static void connect(spmd_trainer *t)
{
    int kept = t->nparams + t->nstate;
    for (int k = 0; k < kept; k++) {
        t->out[k] = t->in[k];
        t->out_specs[k] = spmd_array_spec(t->in[k]);
    }
    const enum trained_other inputs[] = {BATCH_X, BATCH_Y, RATE, COUNT};
    for (int k = 0; k < 4; k++)
        t->in[kept + k] = spmd__trainer_other(t, inputs[k]);
    const enum trained_other metrics[] = {LOSS, ACCURACY, GRAD_NORM};
    for (int k = 0; k < 3; k++) {
        t->out[kept + k] = spmd__trainer_other(t, metrics[k]);
        t->out_specs[kept + k] = SPMD_REPLICATED;
    }
}

static spmd_status take_memory(spmd_trainer *t)
{
    int64_t batch = t->options.batch, largest = 0;
    for (int k = 0; k < t->nparams; k++)
        if (spmd_param_count(&t->info[k]) > largest)
            largest = spmd_param_count(&t->info[k]);
    size_t kept = (size_t)(t->nparams + t->nstate);
    t->arrays = calloc(kept + OTHERS, sizeof *t->arrays);
    t->in = calloc(kept + 4, sizeof *t->in);
    t->out = calloc(kept + 3, sizeof *t->out);
    t->in_host = calloc(kept + 4, sizeof *t->in_host);
    t->out_specs = calloc(kept + 3, sizeof *t->out_specs);
    t->x = calloc((size_t)batch, (size_t)t->options.config.inputs * sizeof *t->x);
    t->y = calloc((size_t)batch, sizeof *t->y);
    t->weight = calloc((size_t)batch, sizeof *t->weight);
    t->param = calloc((size_t)largest, sizeof *t->param);
    SPMD_CHECK(t->arrays && t->in && t->in_host && t->out && t->out_specs && t->x && t->y && t->weight && t->param,
               SPMD_ENOMEM, "out of memory for a batch of %lld on the host: use a smaller --batch", (long long)batch);
    t->narrays = (int)kept + OTHERS;
    return SPMD_OK;
}

static spmd_status fill(spmd_trainer *t)
{
    SPMD_TRY(take_memory(t));
    SPMD_TRY(make_params(t));
    for (int k = 0; k < t->nparams; k++)
        t->in[k] = t->arrays[k].array;
    SPMD_TRY(make_state(t));
    SPMD_TRY(make_others(t));
    connect(t);
    return SPMD_OK;
}

spmd_status spmd_trainer_create(spmd_mesh *mesh, const spmd_train_options *options, spmd_trainer **out)
{
    SPMD_TRY(check_batch(mesh, options->batch));
    SPMD_TRY(spmd_model_check(options->model, &options->config));
    spmd_trainer *t = calloc(1, sizeof *t);
    SPMD_CHECK(t, SPMD_ENOMEM, "out of memory for a trainer (%zu bytes)", sizeof *t);
    t->mesh = mesh;
    t->options = *options;
    t->nparams = options->model->params;
    t->nstate = spmd_optim_state_count(&options->optim, t->nparams);
    options->model->describe(&options->config, t->info);
    spmd_status status = fill(t);
    if (status == SPMD_OK && !options->eager)
        status = spmd_jit_create(mesh, &t->jit);
    if (status != SPMD_OK) {
        spmd_trainer_destroy(t);
        return spmd_trace_at(__FILE__, __LINE__, status);
    }
    *out = t;
    return SPMD_OK;
}

const spmd_jit *spmd_trainer_jit(const spmd_trainer *t)
{
    return t->jit;
}

void spmd_trainer_set_profile(spmd_trainer *t, spmd_profile *profile)
{
    t->profile = profile;
}

void spmd_trainer_destroy(spmd_trainer *t)
{
    if (!t)
        return;
    spmd_jit_destroy(t->jit);
    for (int k = 0; k < t->narrays; k++)
        spmd_array_destroy(t->arrays[k].array);
    free(t->arrays);
    free(t->in);
    free(t->in_host);
    free(t->out);
    free(t->out_specs);
    free(t->x);
    free(t->y);
    free(t->weight);
    free(t->param);
    free(t);
}

int64_t spmd_trainer_steps(const spmd_trainer *t)
{
    return t->steps;
}

spmd_array *spmd_trainer_array(const spmd_trainer *t, int k, const char **name)
{
    if (k < 0 || k >= t->narrays)
        return NULL;
    if (name)
        *name = t->arrays[k].name;
    return t->arrays[k].array;
}
