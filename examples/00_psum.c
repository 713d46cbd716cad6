/* The whole path: four devices, rows split over them, a matmul on each, one pmean; the claim that all end with the same
 * value (out_specs) is checked. */
#include "spmd/spmdkit.h"
#include <stdlib.h>

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, false, &out[0])); /* this shard's rows: [256,784] x [784,10] */
    return spmd_pmean(ctx, &out[0], "data", &out[0]);                  /* the mean of the four, on every shard */
}

static spmd_status run(const float *x_host, const float *w_host, float *y_host)
{
    spmd_mesh *mesh;
    spmd_array *x, *w, *y = NULL;
    SPMD_TRY(spmd_mesh_create("data=4", "host", &mesh));
    SPMD_TRY(spmd_shard(mesh, x_host, SPMD_F32, SPMD_SHAPE(1024, 784), SPMD_P("data", NULL), &x)); /* rows split */
    SPMD_TRY(spmd_shard(mesh, w_host, SPMD_F32, SPMD_SHAPE(784, 10), SPMD_REPLICATED, &w));        /* a copy each */
    spmd_job job = {.mesh = mesh, .fn = body, .nin = 2, .in = (spmd_array *[]){x, w}, .nout = 1, .out = &y};
    job.out_specs = (spmd_spec[]){SPMD_REPLICATED};
    SPMD_TRY(spmd_shard_map(&job));
    return spmd_unshard(y, y_host); /* [256,10] */
}

int main(void)
{
    static float x[1024 * 784], w[784 * 10], y[256 * 10];
    for (int i = 0; i < 1024 * 784; i++)
        x[i] = (float)(i % 7);
    for (int i = 0; i < 784 * 10; i++)
        w[i] = (float)(i % 3);
    if (run(x, w, y) != SPMD_OK) {
        fprintf(stderr, "%s\n", spmd_last_error());
        return EXIT_FAILURE;
    }
    printf("y[0] = %g %g %g\n", (double)y[0], (double)y[1], (double)y[2]);
    return EXIT_SUCCESS; /* the process ends here; a longer program destroys its arrays, then its mesh */
}
