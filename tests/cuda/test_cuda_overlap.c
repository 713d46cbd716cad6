/* Collectives of a program run beside its local ops: the same numbers, nothing unordered, and no event that could be
 * left out: the checker finds every one that is. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, ELEMENTS = SIDE * SIDE, LAUNCHES = 3 }; /* launches: call by call, captured, replayed */

/* in: x, w; out: w. The sum and the gather each leave something to do; the last sum does not. The first sum is needed
 * before the gather, or (*user) at the end. */
static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const bool *late = user;
    spmd_tensor a, b, c, d, all;
    SPMD_TRY(spmd_gelu(ctx, &in[0], &a));
    SPMD_TRY(spmd_psum(ctx, &a, "data", &a));
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, false, &b));
    SPMD_TRY(spmd_gelu(ctx, &b, &b));
    if (!*late)
        SPMD_TRY(spmd_add(ctx, &a, &b, &b));
    SPMD_TRY(spmd_all_gather(ctx, &b, "data", &(spmd_gather_opts){.tiled = true, .to = SPMD_TO_INVARYING}, &all));
    SPMD_TRY(spmd_mul(ctx, &in[1], &in[1], &c));
    SPMD_TRY(spmd_sum(ctx, &c, (int[]){0}, 1, false, &d));
    SPMD_TRY(spmd_add(ctx, &c, &d, &c));
    SPMD_TRY(spmd_mul(ctx, &c, &in[1], &c));
    SPMD_TRY(spmd_sum(ctx, &all, (int[]){0}, 1, false, &d));
    SPMD_TRY(spmd_add(ctx, &c, &d, &c));
    if (*late)
        SPMD_TRY(spmd_add(ctx, &a, &c, &c));
    SPMD_TRY(spmd_matmul(ctx, &c, &in[1], false, false, &d)); /* where the gather's input was */
    SPMD_TRY(spmd_psum(ctx, &d, "data", &d));
    return spmd_scale(ctx, &d, 0.001, &out[0]);
}

/* The last w. */
static spmd_status result(const char *backend, bool late, spmd_jit **jit, spmd_mesh **mesh, float *w)
{
    float x[2 * ELEMENTS];
    spmd_array *in[2] = {NULL, NULL}, *out[1] = {NULL};
    for (int i = 0; i < 2 * ELEMENTS; i++)
        x[i] = (float)(i % 11 - 5) / 8;
    SPMD_TRY(spmd_mesh_create("data=2", backend, mesh));
    spmd_mesh_set_log(*mesh, NULL, NULL);
    SPMD_TRY(spmd_jit_create(*mesh, jit));
    spmd_status status = spmd_shard(*mesh, x, SPMD_F32, SPMD_SHAPE(2 * SIDE, SIDE), SPMD_P("data", NULL), &in[0]);
    if (status == SPMD_OK)
        status = spmd_shard(*mesh, x, SPMD_F32, SPMD_SHAPE(SIDE, SIDE), SPMD_REPLICATED, &in[1]);
    out[0] = in[1];
    spmd_job job = {.mesh = *mesh, .fn = step, .nin = 2, .nout = 1, .in = in, .out = out, .jit = *jit};
    job.user = &late;
    job.out_specs = (spmd_spec[]){SPMD_REPLICATED};
    for (int k = 0; k < LAUNCHES && status == SPMD_OK; k++)
        status = spmd_shard_map(&job);
    if (status == SPMD_OK)
        status = spmd_unshard(in[1], w);
    spmd_array_destroy(in[0]);
    spmd_array_destroy(in[1]);
    return status;
}

static spmd_status run(const char *backend, bool late, spmd_program_info *info, float *w)
{
    spmd_mesh *mesh = NULL;
    spmd_jit *jit = NULL;
    spmd_status status = result(backend, late, &jit, &mesh, w);
    if (status == SPMD_OK)
        status = spmd_jit_info(jit, 0, info);
    spmd_jit_destroy(jit);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return status;
}

START_TEST(the_numbers_are_the_hosts)
{
    static const emu_policy policies[] = {EMU_EARLY, EMU_LATE, EMU_RANDOM, EMU_NEWEST};
    float want[ELEMENTS], got[ELEMENTS];
    spmd_program_info info;
    ck_spmd_ok(run("host", _i, &info, want));
    ck_assert_int_eq(info.beside, 0);
    for (int p = 0; p < 4; p++)
        for (unsigned seed = 1; seed <= 5; seed++) {
            emu_configure(2, policies[p], seed);
            ck_spmd_ok(run("cuda", _i, &info, got));
            ck_assert_int_eq(info.beside, 2);
            for (int i = 0; i < ELEMENTS; i++)
                ck_assert_float_eq_tol(got[i], want[i], 1e-5f);
        }
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
}
END_TEST

/* Of a launch: on two shards, two collectives beside wait both ways on their device and for the other one, before and
 * after; and then the last one for the other, whose end is only followed by that of the launch. */
enum { BESIDE = 2 * 2 * 4, WAITS = BESIDE + 2 * 2 };

START_TEST(every_event_is_needed)
{
    float w[ELEMENTS];
    spmd_program_info info;
    int n = 1;
    emu_configure(2, EMU_LATE, 1);
    emu_quiet(true);
    for (bool left_out = true; left_out; n++) {
        emu_fail("cudaStreamWaitEvent", n, 0);
        ck_spmd_ok(run("cuda", false, &info, w));
        left_out = emu_fail_left("cudaStreamWaitEvent") == 0;
        emu_fail("cudaStreamWaitEvent", 0, 0);
        ck_assert_msg(!left_out || (n - 1) % WAITS >= BESIDE || emu_reports(NULL) > 0, "wait %d was not missed", n);
        ck_assert_msg(left_out || emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
        emu_clear_reports();
    }
    ck_assert_int_eq(n, 1 + LAUNCHES * WAITS + 1);
}
END_TEST

SPMD_TEST_MAIN("cuda_overlap", tcase_add_loop_test(tc, the_numbers_are_the_hosts, 0, 2);
               tcase_add_test(tc, every_event_is_needed);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu)");
}
#endif
