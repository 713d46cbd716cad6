/* One shard fails, or sleeps longer than any wait may last, while the others make a collective: all of them return, in
 * time, and no result does. One that leaves is in test_mismatch.c. */
#include "tests/collectives/mismatch_calls.h"
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { ODD = 2 };

/* As a call is named in reports: a permutation with all shards in it is one. */
static const char *const reported[OPS] = {"psum",     "pmean",      "pmax",         "pmin",
                                          "psum",     "all_gather", "psum_scatter", "all_to_all",
                                          "ppermute", "ppermute",   "pbroadcast",   "ragged_all_to_all"};

typedef struct run_args {
    collective op;
    bool fails;
    atomic_bool wake; /* the one that sleeps */
} run_args;

static spmd_status run(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    run_args *a = user;
    out[0] = in[0];
    if (spmd_ctx_device(ctx) == ODD) {
        SPMD_CHECK(!a->fails, SPMD_EUSER, "the odd shard gives up");
        while (!atomic_load(&a->wake))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return call(ctx, a->op, in, 0, usual);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Launches it on a new mesh; an error is expected. */
static spmd_mesh *launch(run_args *args, spmd_status want)
{
    spmd_mesh *mesh;
    spmd_array *in[4], *out = NULL;
    const spmd_spec specs[] = {SPMD_REPLICATED};
    ck_spmd_ok(spmd_mesh_create("x=2,y=2", spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    for (int k = 0; k < 4; k++)
        ck_spmd_ok(spmd_shard(mesh, NULL, k == 1 ? SPMD_I32 : SPMD_F32, 3, shapes[k], SPMD_REPLICATED, &in[k]));
    spmd_job job = {
        .mesh = mesh, .fn = run, .user = args, .nin = 4, .nout = 1, .in = in, .out = &out, .out_specs = specs};
    double start = seconds();
    spmd_status status = spmd_shard_map(&job);
    ck_assert_msg(status == want, "op %d: %s: %s", args->op, spmd_status_name(status), spmd_last_error());
    ck_assert_msg(seconds() - start < 30, "op %d: %g s", args->op, seconds() - start);
    ck_assert_ptr_null(out);
    for (int k = 0; k < 4; k++)
        spmd_array_destroy(in[k]);
    return mesh;
}

START_TEST(one_fails)
{
    run_args args = {.op = (collective)_i, .fails = true};
    spmd_mesh *mesh = launch(&args, SPMD_EUSER);
    ck_assert_msg(strstr(spmd_last_error(), "shard 2 (x=1, y=0): the odd shard gives up"), "%s", spmd_last_error());
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(one_sleeps)
{
    static run_args args; /* the thread that sleeps comes back when this test has what it wants */
    args.op = (collective)_i;
    setenv("SPMD_TIMEOUT_MS", "300", 1);
    spmd_mesh *mesh = launch(&args, SPMD_ETIMEOUT);
    char waits[64];
    snprintf(waits, sizeof waits, "waits in %s at usual.c:1", reported[_i]); /* at least the one that reports */
    ck_assert_msg(strstr(spmd_last_error(), waits) && strstr(spmd_last_error(), "shard 2 runs"), "no '%s' in: %s",
                  waits, spmd_last_error());
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    atomic_store(&args.wake, true);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}
END_TEST

SPMD_TEST_MAIN("one shard", tcase_add_loop_test(tc, one_fails, 0, OPS); tcase_add_loop_test(tc, one_sleeps, 0, OPS);)
