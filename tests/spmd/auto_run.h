/* Runs a shard function in one of the two modes, eagerly or as a program; for the tests of the automatic mode. */
#ifndef TESTS_AUTO_RUN_H
#define TESTS_AUTO_RUN_H

#include "spmd/testing.h"

enum { RUN_MOST = 24 };

typedef struct auto_run {
    const char *axes;
    spmd_shard_fn *fn;
    void *user;
    bool explicitly, jit;
    int nin, nout;
    const spmd_value *in; /* with their specs */
    const char *const *out_specs;
    /* results */
    spmd_value out[RUN_MOST];
    spmd_stats stats;
    spmd_program_info info; /* with jit */
} auto_run;

static spmd_status auto_run_read(auto_run *r, spmd_array *const *out)
{
    for (int k = 0; k < r->nout; k++) {
        r->out[k] = spmd_value_zeros(spmd_array_dtype(out[k]), NULL, spmd_array_rank(out[k]), spmd_array_shape(out[k]));
        SPMD_TRY(spmd_unshard(out[k], r->out[k].data));
    }
    return SPMD_OK;
}

static spmd_status auto_run_launch(auto_run *r, spmd_mesh *mesh, spmd_jit *jit, spmd_array **in, spmd_array **out)
{
    spmd_spec out_specs[RUN_MOST];
    for (int k = 0; k < r->nin; k++) {
        spmd_spec spec;
        SPMD_TRY(spmd_spec_parse(r->in[k].spec ? r->in[k].spec : "", &spec));
        SPMD_TRY(spmd_shard(mesh, r->in[k].data, r->in[k].dtype, r->in[k].rank, r->in[k].shape, spec, &in[k]));
    }
    for (int k = 0; k < r->nout; k++)
        SPMD_TRY(spmd_spec_parse(r->out_specs[k], &out_specs[k]));
    spmd_job job = {.mesh = mesh,
                    .fn = r->fn,
                    .user = r->user,
                    .nin = r->nin,
                    .nout = r->nout,
                    .in = in,
                    .out = out,
                    .out_specs = out_specs,
                    .verify_replication = true,
                    .jit = jit,
                    .stats = &r->stats};
    for (int repeat = 0; repeat < (jit ? 2 : 1); repeat++) { /* the second time it replays */
        job.verify_recording = repeat;
        SPMD_TRY(r->explicitly ? spmd_shard_map(&job) : spmd_auto_map(&job));
    }
    if (jit)
        SPMD_TRY(spmd_jit_info(jit, 0, &r->info));
    if (jit && getenv("SPMD_TEST_PRINT"))
        SPMD_TRY(spmd_jit_print(jit, 0, stderr));
    return auto_run_read(r, out);
}

static spmd_status auto_run_go(auto_run *r)
{
    spmd_mesh *mesh;
    spmd_jit *jit = NULL;
    spmd_array *in[RUN_MOST] = {NULL}, *out[RUN_MOST] = {NULL};
    memset(r->out, 0, sizeof r->out);
    SPMD_TRY(spmd_mesh_create(r->axes, spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    spmd_status status = r->jit ? spmd_jit_create(mesh, &jit) : SPMD_OK;
    if (status == SPMD_OK)
        status = auto_run_launch(r, mesh, jit, in, out);
    spmd_jit_destroy(jit);
    for (int k = 0; k < RUN_MOST; k++) {
        spmd_array_destroy(in[k]);
        spmd_array_destroy(out[k]);
    }
    spmd_status destroyed = spmd_mesh_destroy(mesh);
    return status != SPMD_OK ? status : destroyed;
}

#endif
