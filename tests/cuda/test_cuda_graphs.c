/* Whole steps as CUDA graphs: collectives that go over NCCL are captured with the local ops around them, on all devices
 * or on none. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include "tests/cuda/cuda_jobs.h"
#include <stdlib.h>
#include <string.h>

enum { MANY = 1000000, STEPS = 6, UNKNOWN = 999, SYSTEM = 2 }; /* errors of CUDA and NCCL */
enum { A_STEP = 2 * 2 };                                       /* calls of a step: two shards, loss and gradient */

/* How often so many steps call the function. */
static int calls(const char *function, cuda_job *j, int steps)
{
    emu_fail(function, MANY, 0);
    ck_spmd_ok(job_run(j, steps, true));
    int n = MANY - emu_fail_left(function);
    emu_fail(function, 0, 0);
    return n;
}

static void start(cuda_job *j)
{
    emu_configure(2, EMU_RANDOM, 1);
    setenv("SPMD_CUDA_TRANSPORT", "nccl", true);
    ck_spmd_ok(job_make(j, "data=2"));
}

static void expect_result(cuda_job *j)
{
    float want[WIDTH * WIDTH], got[WIDTH * WIDTH];
    ck_spmd_ok(spmd_unshard(j->w, got));
    job_free(j);
    ck_spmd_ok(job_result("data=2", STEPS, false, want));
    ck_assert_mem_eq(got, want, sizeof want); /* two summands: any order has the same bits */
    ck_assert_int_eq(emu_live(NULL), 0);
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
}

START_TEST(collectives_are_captured)
{
    cuda_job j;
    start(&j);
    ck_assert_int_eq(calls("ncclAllReduce", &j, 1), A_STEP);
    ck_assert_int_eq(calls("ncclAllReduce", &j, 1), A_STEP); /* into the graph */
    ck_assert_int_eq(calls("ncclAllReduce", &j, STEPS - 2), 0);
    ck_assert_int_eq(j.stats.collectives, 1); /* of the last step: counted though nothing met */
    expect_result(&j);
}
END_TEST

static void keep(void *user, const char *text)
{
    snprintf(user, 256, "%s", text);
}

START_TEST(one_device_that_cannot_is_enough)
{
    cuda_job j;
    char notice[256] = "";
    start(&j);
    spmd_mesh_set_log(j.mesh, keep, notice);
    ck_spmd_ok(job_run(&j, 1, true));
    emu_fail("ncclAllReduce", _i, SYSTEM);
    ck_spmd_ok(job_run(&j, 1, true));
    ck_assert_int_eq(emu_fail_left("ncclAllReduce"), 0);
    ck_assert_ptr_nonnull(strstr(notice, "not part of a CUDA graph"));
    ck_assert_int_gt(emu_live("executable graph"), 0); /* the local runs are */
    ck_assert_int_eq(calls("ncclAllReduce", &j, STEPS - 2), (STEPS - 2) * A_STEP);
    expect_result(&j);
}
END_TEST

/* Of a step: on two shards, the local run before the first update in place, and the rest. A shard that does not launch
 * the latter leaves the other one's collective without an end. */
enum { LAUNCHES = 2 * 2 };

START_TEST(graphs_go_before_their_communicators)
{
    cuda_job j;
    start(&j);
    emu_quiet(true);
    ck_spmd_ok(job_run(&j, 3, true));
    emu_fail("cudaGraphLaunch", _i, UNKNOWN);
    ck_spmd_fails(job_run(&j, 1, true), SPMD_ECUDA, "cudaGraphLaunch");
    emu_clear_reports();
    int again = calls("ncclAllReduce", &j, 2);
    if (_i == LAUNCHES) /* the other one has launched: call by call, and into new graphs */
        ck_assert_int_eq(again, 2 * A_STEP);
    ck_assert_int_eq(calls("ncclAllReduce", &j, 2), 0);
    job_free(&j);
    ck_assert_int_eq(emu_live(NULL), 0);
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
}
END_TEST

SPMD_TEST_MAIN("cuda_graphs", tcase_add_test(tc, collectives_are_captured);
               tcase_add_loop_test(tc, one_device_that_cannot_is_enough, 1, A_STEP + 1);
               tcase_add_loop_test(tc, graphs_go_before_their_communicators, 1, LAUNCHES + 1);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu)");
}
#endif
