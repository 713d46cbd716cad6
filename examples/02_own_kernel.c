/* A kernel of one's own inside a shard function: y = x * sigmoid(b x), with its gradient.
 *
 * Look at: the kernel gets plain local views; its gradient is written with ops, so it works on every mesh; what it
 * returns varies over every axis its inputs vary over, so forgetting the pmean at the end would be an error, not a
 * wrong number. */
#include "spmd/spmdkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8 };

static spmd_status swish_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    SPMD_CHECK(in[0].dtype == SPMD_F32 && in[1].dtype == SPMD_F32 && in[1].rank == 0, SPMD_ESHAPE,
               "swish: expected x f32 of any shape and b f32 scalar");
    out[0].dtype = SPMD_F32;
    out[0].rank = in[0].rank;
    memcpy(out[0].shape, in[0].shape, sizeof out[0].shape);
    return SPMD_OK;
}

static spmd_status swish_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    const float *x = in[0].data, b = *(const float *)in[1].data;
    float *y = out[0].data;
    for (int64_t i = 0; i < spmd_view_count(&in[0]); i++)
        y[i] = x[i] / (1 + expf(-b * x[i]));
    return SPMD_OK;
}

/* With s = sigmoid(b x): dy/dx = s + b x s (1 - s), dy/db = x^2 s (1 - s). */
static spmd_status swish_grad(spmd_ctx *ctx, const spmd_tensor *in, int nin, const spmd_tensor *out, int nout,
                              const spmd_tensor *ct, const bool *need, spmd_tensor *gin, void *user)
{
    (void)nin, (void)nout, (void)user;
    spmd_tensor s, slope, t;
    SPMD_TRY(spmd_mul(ctx, &in[0], &in[1], &s));
    SPMD_TRY(spmd_sigmoid(ctx, &s, &s));
    SPMD_TRY(spmd_mul(ctx, &out[0], &s, &slope));
    SPMD_TRY(spmd_sub(ctx, &out[0], &slope, &slope)); /* x s (1 - s) */
    if (need[0]) {
        SPMD_TRY(spmd_mul(ctx, &slope, &in[1], &t));
        SPMD_TRY(spmd_add(ctx, &s, &t, &t));
        SPMD_TRY(spmd_mul(ctx, &t, &ct[0], &gin[0]));
    }
    if (need[1]) {
        SPMD_TRY(spmd_mul(ctx, &slope, &in[0], &t));
        SPMD_TRY(spmd_mul(ctx, &t, &ct[0], &t));
        SPMD_TRY(spmd_sum(ctx, &t, NULL, 0, false, &gin[1]));
    }
    return SPMD_OK;
}

/* The same on a GPU, in 02_own_kernel.cu. Without it backend cuda would call swish_host, on copies. */
#ifdef SPMD_HAVE_CUDA
spmd_status swish_cuda(const spmd_view *in, int nin, const spmd_view *out, int nout, void *stream, void *user);
#else
#define swish_cuda NULL
#endif

static const spmd_custom_op swish = {
    .name = "swish", .shape = swish_shape, .host = swish_host, .cuda = swish_cuda, .grad = swish_grad};

static spmd_status loss_fn(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor in[2] = {*(const spmd_tensor *)user, params[0]}, y;
    SPMD_TRY(spmd_custom(ctx, &swish, in, 2, &y, 1));
    return spmd_mean(ctx, &y, NULL, 0, false, loss);
}

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, (void *)&in[1], in, 1, &out[0], &out[1]));
    return spmd_pmean_list(ctx, out, 2, "data", out);
}

static spmd_status run(spmd_mesh *mesh, float *loss, float *gradient)
{
    float x[ROWS], b = 1.5f;
    for (int i = 0; i < ROWS; i++)
        x[i] = (float)i - 3.5f;
    spmd_array *in[2] = {NULL}, *out[2] = {NULL};
    spmd_job job = {.mesh = mesh,
                    .fn = body,
                    .nin = 2,
                    .in = in,
                    .nout = 2,
                    .out = out,
                    .out_specs = (spmd_spec[]){SPMD_REPLICATED, SPMD_REPLICATED}};
    spmd_status status = spmd_shard(mesh, &b, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &in[0]);
    if (status == SPMD_OK)
        status = spmd_shard(mesh, x, SPMD_F32, SPMD_SHAPE(ROWS), SPMD_P("data"), &in[1]);
    if (status == SPMD_OK)
        status = spmd_shard_map(&job);
    if (status == SPMD_OK) {
        spmd_unshard(out[0], loss);
        spmd_unshard(out[1], gradient);
    }
    for (int k = 0; k < 2; k++) {
        spmd_array_destroy(in[k]);
        spmd_array_destroy(out[k]);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "host"; /* or "cuda" */
    for (int devices = 1; devices <= 4; devices *= 2) {
        char axes[32];
        float loss, gradient;
        spmd_mesh *mesh;
        snprintf(axes, sizeof axes, "data=%d", devices);
        spmd_status status = spmd_mesh_create(axes, backend, &mesh);
        if (status == SPMD_OK)
            status = run(mesh, &loss, &gradient);
        spmd_mesh_destroy(mesh);
        if (status != SPMD_OK) {
            fprintf(stderr, "%s: %s\n", spmd_status_name(status), spmd_last_error());
            return EXIT_FAILURE;
        }
        printf("%d device(s): mean swish %.6f, d/db %.6f\n", devices, (double)loss, (double)gradient);
    }
    return EXIT_SUCCESS;
}
