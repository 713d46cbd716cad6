/* Private: a small training step for the tests of backend cuda: products, pointwise ops, a list of reductions, a
 * gather, and an update in place. */
#ifndef TESTS_CUDA_CUDA_JOBS_H
#define TESTS_CUDA_CUDA_JOBS_H

#include "spmd/testing.h"

enum { ROWS = 16, WIDTH = 8 };

typedef struct cuda_job {
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *w, *x, *loss;
    spmd_stats stats; /* of the last step */
} cuda_job;

static spmd_status job_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor h;
    SPMD_TRY(spmd_matmul(ctx, user, p, false, false, &h));
    SPMD_TRY(spmd_gelu(ctx, &h, &h));
    SPMD_TRY(spmd_mul(ctx, &h, &h, &h));
    return spmd_mean(ctx, &h, NULL, 0, false, loss);
}

/* in: w, x; out: w, loss */
static spmd_status job_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor found[2];
    SPMD_TRY(spmd_value_and_grad(ctx, job_loss, (void *)&in[1], in, 1, &found[0], &found[1]));
    SPMD_TRY(spmd_pmean_list(ctx, found, 2, "data", found));
    SPMD_TRY(spmd_scale(ctx, &found[1], -0.1, &found[1]));
    SPMD_TRY(spmd_add(ctx, &in[0], &found[1], &out[0]));
    out[1] = found[0];
    return SPMD_OK;
}

static spmd_status job_make(cuda_job *j, const char *axes)
{
    float w[WIDTH * WIDTH], x[ROWS * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = (float)(i % 7 - 3) / 8;
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i % 11 - 5) / 4;
    *j = (cuda_job){0};
    SPMD_TRY(spmd_mesh_create(axes, "cuda", &j->mesh));
    spmd_mesh_set_log(j->mesh, NULL, NULL);
    SPMD_TRY(spmd_jit_create(j->mesh, &j->jit));
    SPMD_TRY(spmd_shard(j->mesh, w, SPMD_F32, SPMD_SHAPE(WIDTH, WIDTH), SPMD_REPLICATED, &j->w));
    return spmd_shard(j->mesh, x, SPMD_F32, SPMD_SHAPE(ROWS, WIDTH), SPMD_P("data", NULL), &j->x);
}

static spmd_status job_run(cuda_job *j, int steps, bool jit)
{
    spmd_array *out[2] = {j->w, j->loss};
    spmd_job job = {.mesh = j->mesh, .fn = job_step, .nin = 2, .nout = 2, .in = (spmd_array *[]){j->w, j->x}};
    job.out = out;
    job.out_specs = (spmd_spec[]){SPMD_REPLICATED, SPMD_REPLICATED};
    job.jit = jit ? j->jit : NULL;
    job.stats = &j->stats;
    for (int k = 0; k < steps; k++) {
        spmd_status status = spmd_shard_map(&job);
        j->loss = out[1];
        if (status != SPMD_OK)
            return status;
    }
    return SPMD_OK;
}

static void job_free(cuda_job *j)
{
    spmd_array_destroy(j->w);
    spmd_array_destroy(j->x);
    spmd_array_destroy(j->loss);
    spmd_jit_destroy(j->jit);
    ck_spmd_ok(spmd_mesh_destroy(j->mesh));
}

/* Makes, runs, reads w, frees. */
static spmd_status job_result(const char *axes, int steps, bool jit, float *w)
{
    cuda_job j;
    spmd_status status = job_make(&j, axes);
    if (status == SPMD_OK)
        status = job_run(&j, steps, jit);
    if (status == SPMD_OK)
        status = spmd_unshard(j.w, w);
    job_free(&j);
    return status;
}

#endif
