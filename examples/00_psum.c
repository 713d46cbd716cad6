/* The whole path in one program: four devices, rows split over them, a matmul on each, one pmean.
 * Look at: the shard function computes with [256,784] blocks; only the pmean moves data; out_specs claims that all
 * devices end with the same value, and the claim is checked. */
#include "spmd/spmdkit.h"
#include <stdlib.h>

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, false, &out[0])); /* this shard's rows: [256,784] x [784,10] */
    return spmd_pmean(ctx, &out[0], "data", &out[0]);                  /* the mean of the four, on every shard */
}

static spmd_status run(spmd_mesh *mesh, const float *x_host, const float *w_host, float *y_host)
{
    spmd_array *x, *w, *y = NULL;
    SPMD_TRY(spmd_shard(mesh, x_host, SPMD_F32, SPMD_SHAPE(1024, 784), SPMD_P("data", NULL), &x)); /* rows split */
    SPMD_TRY(spmd_shard(mesh, w_host, SPMD_F32, SPMD_SHAPE(784, 10), SPMD_REPLICATED, &w));        /* a copy each */
    spmd_job job = {.mesh = mesh,
                    .fn = body,
                    .nin = 2,
                    .in = (spmd_array *[]){x, w},
                    .nout = 1,
                    .out = &y,
                    .out_specs = (spmd_spec[]){SPMD_REPLICATED}};
    SPMD_TRY(spmd_shard_map(&job));
    SPMD_TRY(spmd_unshard(y, y_host)); /* [256,10] */
    spmd_array_print_sharding(x, stdout);
    spmd_array_destroy(x);
    spmd_array_destroy(w);
    spmd_array_destroy(y);
    return SPMD_OK;
}

int main(void)
{
    static float x[1024 * 784], w[784 * 10], y[256 * 10];
    for (int i = 0; i < 1024 * 784; i++)
        x[i] = (float)(i % 7);
    for (int i = 0; i < 784 * 10; i++)
        w[i] = (float)(i % 3);
    spmd_mesh *mesh;
    spmd_status status = spmd_mesh_create("data=4", "host", &mesh);
    if (status == SPMD_OK) {
        status = run(mesh, x, w, y);
        spmd_mesh_destroy(mesh);
    }
    if (status != SPMD_OK)
        fprintf(stderr, "%s: %s\n", spmd_status_name(status), spmd_last_error());
    else
        printf("y[0] = %g %g %g ...\n", y[0], y[1], y[2]);
    return status == SPMD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
