/* A whole data-parallel training step, written by hand: local loss, local gradients, one pmean, one update.
 *
 * Look at: the shard function `step` sees only its own rows; value_and_grad of a LOCAL loss gives LOCAL gradients; the
 * pmean is the only line that moves data; parameters and optimizer state are inputs and outputs of the same job,
 * updated in place. The data are two interleaved spirals, made here, so that the program needs nothing else. */
#include "spmd/spmdkit.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 512, HIDDEN = 64, PARAMS = 4, STEPS = 300 };

typedef struct batch {
    const spmd_tensor *x, *y;
} batch;

/* params: w1 [2,H], b1 [H], w2 [H,2], b2 [2] */
static spmd_status loss_fn(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const batch *b = user;
    spmd_tensor h, logits;
    SPMD_TRY(spmd_linear_gelu(ctx, b->x, &p[0], &p[1], &h));
    SPMD_TRY(spmd_linear(ctx, &h, &p[2], &p[3], &logits));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &logits, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss); /* the mean over this shard's rows */
}

/* in: params, mu, nu (4 each, replicated), x, y (split over "data"), rate, count. out: params, mu, nu, loss. */
static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    const spmd_tensor *params = in, *mu = in + PARAMS, *nu = in + 2 * PARAMS, *rest = in + 3 * PARAMS;
    batch b = {.x = &rest[0], .y = &rest[1]};
    spmd_tensor grads[PARAMS + 1];
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &b, params, PARAMS, &grads[PARAMS], grads)); /* local */
    SPMD_TRY(spmd_pmean_list(ctx, grads, PARAMS + 1, "data", grads));                       /* averaged by hand */
    out[3 * PARAMS] = grads[PARAMS];
    spmd_adamw_opts opts = {.b1 = 0.9, .b2 = 0.999, .epsilon = 1e-8, .weight_decay = 1e-4};
    return spmd_adamw(ctx, &opts, PARAMS, params, grads, mu, nu, &rest[2], &rest[3], out, out + PARAMS,
                      out + 2 * PARAMS);
}

static void make_data(float *x, int32_t *y)
{
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % 2;
        double turn = 3.0 * (double)(i / 2) / (ROWS / 2) * 3.14159265, sign = y[i] ? -1 : 1;
        x[2 * i] = (float)(sign * turn / 6 * cos(turn));
        x[2 * i + 1] = (float)(sign * turn / 6 * sin(turn));
    }
}

/* Parameters, then zeros for mu and nu, then the batch and the two per-step scalars. */
static spmd_status make_arrays(spmd_mesh *mesh, spmd_array **arrays)
{
    static const int64_t shapes[PARAMS][2] = {{2, HIDDEN}, {HIDDEN, 0}, {HIDDEN, 2}, {2, 0}};
    static float w[PARAMS][2 * HIDDEN], x[ROWS * 2];
    static int32_t y[ROWS];
    srand(1);
    for (int k = 0; k < PARAMS; k += 2)
        for (int i = 0; i < 2 * HIDDEN; i++)
            w[k][i] = (float)(((double)rand() / RAND_MAX - 0.5) * (k ? 0.4 : 3));
    for (int k = 0; k < 3 * PARAMS; k++)
        SPMD_TRY(spmd_shard(mesh, k < PARAMS ? w[k] : NULL, SPMD_F32, k % 2 ? 1 : 2, shapes[k % PARAMS],
                            SPMD_REPLICATED, &arrays[k]));
    make_data(x, y);
    arrays += 3 * PARAMS;
    SPMD_TRY(spmd_shard(mesh, x, SPMD_F32, SPMD_SHAPE(ROWS, 2), SPMD_P("data", NULL), &arrays[0]));
    SPMD_TRY(spmd_shard(mesh, y, SPMD_I32, SPMD_SHAPE(ROWS), SPMD_P("data"), &arrays[1]));
    SPMD_TRY(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &arrays[2]));
    return spmd_shard(mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &arrays[3]);
}

static spmd_status train(spmd_mesh *mesh, spmd_array **arrays)
{
    enum { NIN = 3 * PARAMS + 4, NOUT = 3 * PARAMS + 1 };
    spmd_array *out[NOUT] = {NULL};
    spmd_spec replicated[NOUT] = {{0}}; /* SPMD_REPLICATED */
    for (int k = 0; k < 3 * PARAMS; k++)
        out[k] = arrays[k]; /* updated in place */
    spmd_job job = {
        .mesh = mesh, .fn = step, .nin = NIN, .in = arrays, .nout = NOUT, .out = out, .out_specs = replicated};
    spmd_status status = spmd_array_set(arrays[NIN - 2], 0.02); /* learning rate */
    for (int k = 1; k <= STEPS && status == SPMD_OK; k++) {
        status = spmd_array_set(arrays[NIN - 1], k); /* AdamW's step count */
        if (status == SPMD_OK)
            status = spmd_shard_map(&job);
        float loss = 0;
        if (status == SPMD_OK)
            status = spmd_unshard(out[NOUT - 1], &loss);
        if (k == 1 || k % 100 == 0)
            printf("step %3d  loss %.4f\n", k, (double)loss);
    }
    spmd_array_destroy(out[NOUT - 1]);
    return status;
}

int main(void)
{
    spmd_mesh *mesh;
    spmd_array *arrays[3 * PARAMS + 4] = {NULL};
    spmd_status status = spmd_mesh_create("data=2", "host", &mesh);
    if (status == SPMD_OK)
        status = make_arrays(mesh, arrays);
    if (status == SPMD_OK)
        status = train(mesh, arrays);
    for (int k = 0; k < 3 * PARAMS + 4; k++)
        spmd_array_destroy(arrays[k]);
    spmd_mesh_destroy(mesh);
    if (status != SPMD_OK)
        fprintf(stderr, "%s: %s\n", spmd_status_name(status), spmd_last_error());
    return status == SPMD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
