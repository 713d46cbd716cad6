/* What the examples 04 to 07 share: a net of two layers, and a training that runs three times: on one device, on a mesh
 * with what the example writes by hand, and on the same mesh in automatic mode, where the same cut follows from the
 * arrays' specs alone. Prints the losses' and parameters' largest difference, the collectives and their bytes. */
#ifndef EXAMPLES_TWO_LAYERS_H
#define EXAMPLES_TWO_LAYERS_H

#include "spmd/spmdkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 24, HIDDEN = 64, CLASSES = 8, ROWS = 512, STEPS = 30 };
enum { W1, B1, W2, B2, PARAMS, MOST_LISTS = 4, MOST = MOST_LISTS * PARAMS };
static const int64_t two_layers_shape[PARAMS][2] = {
    [W1] = {FEATURES, HIDDEN}, [B1] = {HIDDEN}, [W2] = {HIDDEN, CLASSES}, [B2] = {CLASSES}};

/* A step's inputs are lists of PARAMS tensors (parameters; with 4 lists the optimizer's own copy of them; mu, nu), then
 * x, y, rate, count; its outputs the lists, updated in place, and the loss. */
typedef struct two_layers {
    const char *name, *axes;
    int lists;
    const char *spec[MOST_LISTS][PARAMS], *rows; /* how the lists are cut, and the batch */
    spmd_shard_fn *by_hand;
} two_layers;

typedef struct two_layers_batch {
    const spmd_tensor *x, *y;
} two_layers_batch;

/* The mean loss of the rows that x has: all of them on one device and in automatic mode. */
static spmd_status two_layers_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const two_layers_batch *b = user;
    spmd_tensor h;
    SPMD_TRY(spmd_linear_gelu(ctx, b->x, &p[W1], &p[B1], &h));
    SPMD_TRY(spmd_matmul(ctx, &h, &p[W2], false, false, &h));
    SPMD_TRY(spmd_add(ctx, &h, &p[B2], &h));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &h, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

/* AdamW on the last three of the lists, `rate` and `count` behind the batch; in[] and out[] are the step's. */
static inline spmd_status two_layers_update(spmd_ctx *ctx, int lists, const spmd_tensor *in, const spmd_tensor *grads,
                                            spmd_tensor *out)
{
    const spmd_adamw_opts opts = {.b1 = 0.9, .b2 = 0.999, .epsilon = 1e-8, .weight_decay = 1e-4};
    const spmd_tensor *own = in + (lists - 3) * PARAMS, *rate = in + lists * PARAMS + 2;
    spmd_tensor *to = out + (lists - 3) * PARAMS;
    return spmd_adamw(ctx, &opts, PARAMS, own, grads, own + PARAMS, own + 2 * PARAMS, rate, rate + 1, to, to + PARAMS,
                      to + 2 * PARAMS);
}

/* For one device, and for automatic mode: no word of devices. */
static spmd_status two_layers_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    int lists = *(const int *)user;
    two_layers_batch batch = {&in[lists * PARAMS], &in[lists * PARAMS + 1]};
    spmd_tensor grads[PARAMS];
    SPMD_TRY(spmd_value_and_grad(ctx, two_layers_loss, &batch, in, PARAMS, &out[lists * PARAMS], grads));
    SPMD_TRY(two_layers_update(ctx, lists, in, grads, out));
    if (lists == MOST_LISTS)
        memcpy(out, out + PARAMS, PARAMS * sizeof *out); /* the new parameters are the copy's */
    return SPMD_OK;
}

/* --- the training --- */

typedef struct two_layers_result {
    float loss[STEPS], params[PARAMS][FEATURES * HIDDEN];
    spmd_stats stats; /* of the last step */
} two_layers_result;

static double two_layers_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 24) * 2 - 1;
}

static spmd_status two_layers_arrays(spmd_mesh *mesh, const two_layers *l, spmd_array **arrays)
{
    bool one = spmd_mesh_devices(mesh) == 1;
    static float x[ROWS * FEATURES], w[FEATURES * HIDDEN];
    static int32_t y[ROWS];
    uint32_t random = 1;
    for (int i = 0; i < ROWS * FEATURES; i++)
        x[i] = (float)two_layers_random(&random);
    for (int i = 0; i < ROWS; i++)
        y[i] = (x[i * FEATURES] > 0) + 2 * (x[i * FEATURES + 1] > 0) + 4 * (x[i * FEATURES + 2] * x[i * FEATURES] > 0);
    for (int k = 0; k < l->lists * PARAMS; k++) {
        int rank = k % 2 ? 1 : 2, list = k / PARAMS, copies = l->lists - 2; /* the others, mu and nu, begin with 0 */
        spmd_spec spec;
        random = (uint32_t)(k % PARAMS + 1);
        for (int i = 0; i < FEATURES * HIDDEN; i++)
            w[i] = (float)(two_layers_random(&random) * (rank == 2 ? 0.3 : 0));
        SPMD_TRY(spmd_spec_parse(one ? "" : l->spec[list][k % PARAMS], &spec));
        SPMD_TRY(
            spmd_shard(mesh, list < copies ? w : NULL, SPMD_F32, rank, two_layers_shape[k % PARAMS], spec, &arrays[k]));
    }
    spmd_spec rows;
    SPMD_TRY(spmd_spec_parse(one ? "" : l->rows, &rows));
    arrays += l->lists * PARAMS;
    SPMD_TRY(spmd_shard(mesh, x, SPMD_F32, SPMD_SHAPE(ROWS, FEATURES), rows, &arrays[0]));
    SPMD_TRY(spmd_shard(mesh, y, SPMD_I32, SPMD_SHAPE(ROWS), rows, &arrays[1]));
    SPMD_TRY(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &arrays[2]));
    SPMD_TRY(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &arrays[3]));
    return spmd_array_set(arrays[2], 0.01);
}

static spmd_status two_layers_steps(spmd_job *job, bool automatic, int lists, two_layers_result *r)
{
    for (int k = 0; k < STEPS; k++) {
        SPMD_TRY(spmd_array_set(job->in[job->nin - 1], k + 1));
        SPMD_TRY(automatic ? spmd_auto_map(job) : spmd_shard_map(job));
        SPMD_TRY(spmd_unshard(job->out[lists * PARAMS], &r->loss[k]));
    }
    for (int k = 0; k < PARAMS; k++)
        SPMD_TRY(spmd_unshard(job->out[k], r->params[k]));
    return SPMD_OK;
}

static spmd_status two_layers_train(const two_layers *l, const char *axes, spmd_shard_fn *step, bool automatic,
                                    two_layers_result *r)
{
    spmd_array *in[MOST + 4] = {NULL}, *out[MOST + 1];
    spmd_spec specs[MOST + 1] = {{0}}; /* the loss: SPMD_REPLICATED */
    int lists = l->lists, n = lists * PARAMS;
    spmd_job job = {.fn = step, .user = &lists, .nin = n + 4, .in = in, .nout = n + 1, .out = out, .out_specs = specs};
    job.stats = &r->stats;
    SPMD_TRY(spmd_mesh_create(axes, NULL, &job.mesh));
    spmd_status status = two_layers_arrays(job.mesh, l, in);
    for (int k = 0; k < n && status == SPMD_OK; k++) {
        out[k] = in[k]; /* updated in place */
        specs[k] = spmd_array_spec(in[k]);
    }
    out[n] = NULL;
    if (status == SPMD_OK)
        status = spmd_jit_create(job.mesh, &job.jit);
    if (status == SPMD_OK)
        status = two_layers_steps(&job, automatic, lists, r);
    spmd_array_destroy(out[n]);
    for (int k = 0; k < n + 4; k++)
        spmd_array_destroy(in[k]);
    spmd_jit_destroy(job.jit);
    spmd_mesh_destroy(job.mesh);
    return status;
}

/* The larger one; a NaN stays, which fmax would drop. */
static double two_layers_larger(double a, double b)
{
    return a >= b || isnan(a) ? a : b;
}

/* Largest difference of losses, relative to their size, and of parameters. */
static double two_layers_difference(const two_layers_result *a, const two_layers_result *b)
{
    double most = 0;
    for (int k = 0; k < STEPS; k++)
        most = two_layers_larger(most, fabs(a->loss[k] - b->loss[k]) / b->loss[k]);
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < FEATURES * HIDDEN; i++)
            most = two_layers_larger(most, fabs((double)a->params[k][i] - (double)b->params[k][i]));
    return most;
}

/* Runs all three. main returns it: success if both give what one device gives. */
static int two_layers_compare(const two_layers *l)
{
    static two_layers_result one, by_hand, automatic; /* too large for the stack */
    const spmd_status statuses[] = {two_layers_train(l, "one=1", two_layers_step, false, &one),
                                    two_layers_train(l, l->axes, l->by_hand, false, &by_hand),
                                    two_layers_train(l, l->axes, two_layers_step, true, &automatic)};
    for (int k = 0; k < 3; k++)
        if (statuses[k] != SPMD_OK) {
            fprintf(stderr, "run %d: %s: %s\n", k, spmd_status_name(statuses[k]), spmd_last_error());
            return EXIT_FAILURE;
        }
    const two_layers_result *runs[] = {&by_hand, &automatic};
    static const char *const names[] = {"by hand", "automatic"};
    double most = 0;
    printf("%s on %s: loss %.4f -> %.4f in %d steps\n", l->name, l->axes, (double)one.loss[0],
           (double)one.loss[STEPS - 1], STEPS);
    for (int k = 0; k < 2; k++) {
        double difference = two_layers_difference(runs[k], &one);
        most = two_layers_larger(most, difference);
        printf("  %-9s  %lld collectives, %lld bytes a step; differs from one device by %.1e\n", names[k],
               (long long)runs[k]->stats.collectives, (long long)runs[k]->stats.bytes, difference);
    }
    return most < 1e-4 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
