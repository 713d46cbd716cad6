/* What backend cuda adds to the rules that all backends keep (those run as emu/...): graphs, shared GPUs, transports,
 * schedules, and a machine without a GPU. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include "tests/cuda/cuda_jobs.h"
#include "spmd/cuda.h"
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, ELEMENTS = WIDTH * WIDTH };

static void expect_equal(const char *what, const float *got, const float *want)
{
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_msg(!memcmp(&got[i], &want[i], sizeof *got), "%s: element %d is %.9g, wanted %.9g", what, i,
                      (double)got[i], (double)want[i]);
}

START_TEST(schedules_give_the_same_bits)
{
    static const emu_policy policies[] = {EMU_EARLY, EMU_LATE, EMU_RANDOM, EMU_NEWEST};
    float want[ELEMENTS], got[ELEMENTS];
    emu_configure(1 << _i, EMU_EARLY, 1); /* GPUs */
    setenv("SPMD_CUDA_TRANSPORT", "p2p", true);
    ck_spmd_ok(job_result("data=4", STEPS, false, want));
    for (int p = 0; p < 4; p++)
        for (unsigned seed = 1; seed <= 5; seed++)
            for (int jit = 0; jit < 2; jit++) {
                char what[64];
                emu_configure(0, policies[p], seed);
                snprintf(what, sizeof what, "%d GPUs, policy %d, seed %u, %s", 1 << _i, p, seed, jit ? "jit" : "eager");
                ck_spmd_ok(job_result("data=4", STEPS, jit, got));
                expect_equal(what, got, want);
            }
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
}
END_TEST

START_TEST(shards_share_gpus)
{
    float want[ELEMENTS], got[ELEMENTS];
    emu_configure(_i, EMU_RANDOM, 1);
    ck_spmd_ok(job_result("data=4", STEPS, true, got));
    ck_spmd_ok(job_result("data=4", STEPS, false, want));
    expect_equal("shared", got, want);
    setenv("SPMD_CUDA_TRANSPORT", "nccl", true);
    ck_spmd_fails(job_result("data=4", 1, false, got), SPMD_EUNSUPPORTED, "4 shards share");
}
END_TEST

START_TEST(copies_have_the_bits_of_peer_memory)
{
    float want[ELEMENTS], got[ELEMENTS];
    emu_configure(4, EMU_RANDOM, 1);
    setenv("SPMD_CUDA_TRANSPORT", "p2p", true);
    ck_spmd_ok(job_result("data=4", STEPS, true, want));
    setenv("SPMD_CUDA_TRANSPORT", "copy", true);
    ck_spmd_ok(job_result("data=4", STEPS, true, got));
    expect_equal("copy", got, want);
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
}
END_TEST

START_TEST(nccl_is_close)
{
    float want[ELEMENTS], got[ELEMENTS];
    emu_configure(4, EMU_RANDOM, 1);
    setenv("SPMD_CUDA_TRANSPORT", "p2p", true);
    ck_spmd_ok(job_result("data=4", STEPS, true, want));
    setenv("SPMD_CUDA_TRANSPORT", "nccl", true);
    ck_spmd_ok(job_result("data=4", STEPS, true, got));
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_float_eq_tol(got[i], want[i], 1e-5f);
    setenv("SPMD_CUDA_TRANSPORT", "mpi", true);
    ck_spmd_fails(job_result("data=4", 1, false, got), SPMD_EINVAL, "expected auto, p2p, nccl or copy");
}
END_TEST

START_TEST(programs_become_graphs)
{
    cuda_job j;
    float want[ELEMENTS], got[ELEMENTS];
    emu_configure(2, EMU_LATE, 1);
    ck_spmd_ok(job_result("data=2", STEPS + 1, false, want));
    ck_spmd_ok(job_make(&j, "data=2"));
    ck_spmd_ok(job_run(&j, 1, true)); /* the first replay makes what the ops keep */
    ck_assert_int_eq(emu_live("executable graph"), 0);
    ck_spmd_ok(job_run(&j, 1, true));
    long made = emu_live("executable graph");
    ck_assert_int_gt(made, 0);
    ck_spmd_ok(job_run(&j, STEPS - 3, true));
    ck_assert_int_eq(emu_live("executable graph"), made);
    spmd_array *moved = NULL; /* another array in its place: graphs hold addresses */
    ck_spmd_ok(spmd_unshard(j.w, got));
    ck_spmd_ok(spmd_shard(j.mesh, got, SPMD_F32, SPMD_SHAPE(WIDTH, WIDTH), SPMD_REPLICATED, &moved));
    spmd_array_destroy(j.w);
    j.w = moved;
    ck_spmd_ok(job_run(&j, 2, true));
    ck_spmd_ok(spmd_unshard(j.w, got));
    expect_equal("replayed", got, want);
    job_free(&j);
    ck_assert_int_eq(emu_live(NULL), 0);
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
}
END_TEST

START_TEST(no_gpu_says_so)
{
    enum { NO_DEVICE = 100 };
    spmd_mesh *mesh;
    emu_fail("cudaGetDeviceCount", 1, NO_DEVICE);
    ck_spmd_fails(spmd_mesh_create("data=2", "cuda", &mesh), SPMD_EUNSUPPORTED, "nvidia-smi");
    ck_assert_ptr_null(mesh);
    setenv("SPMD_CUDA_MEMORY", "much", true);
    ck_spmd_fails(spmd_mesh_create("data=2", "cuda", &mesh), SPMD_EINVAL, "SPMD_CUDA_MEMORY='much'");
}
END_TEST

static spmd_status see_handles(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)out, (void)user;
    struct ncclComm *comm;
    SPMD_CHECK(spmd_cuda_stream(ctx) && spmd_cuda_blas(ctx), SPMD_EUSER, "no stream or no cuBLAS");
    SPMD_TRY(spmd_cuda_comm(ctx, "x,y", &comm));
    return spmd_cuda_comm(ctx, "y", &comm);
}

START_TEST(handles_are_there)
{
    spmd_mesh *mesh;
    spmd_cuda_gpu gpus[4];
    char text[96];
    emu_configure(4, EMU_LATE, 1);
    ck_assert_int_eq(spmd_cuda_gpus(gpus, 4), 4);
    ck_assert_uint_eq(gpus[0].peers, 15);
    ck_assert_ptr_nonnull(strstr(spmd_cuda_versions(text, sizeof text), "nccl 2."));
    ck_spmd_ok(spmd_mesh_create("x=2,y=2", "cuda", &mesh));
    ck_spmd_ok(spmd_shard_map(&(spmd_job){.mesh = mesh, .fn = see_handles}));
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    ck_assert_int_eq(emu_live(NULL), 0);
}
END_TEST

SPMD_TEST_MAIN("cuda_backend", tcase_add_loop_test(tc, schedules_give_the_same_bits, 0, 3);
               tcase_add_loop_test(tc, shards_share_gpus, 1, 4);
               tcase_add_test(tc, copies_have_the_bits_of_peer_memory); tcase_add_test(tc, nccl_is_close);
               tcase_add_test(tc, programs_become_graphs); tcase_add_test(tc, no_gpu_says_so);
               tcase_add_test(tc, handles_are_there);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu)");
}
#endif
