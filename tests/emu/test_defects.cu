/* One step of training on two devices, written by hand, and six mistakes that real GPUs mostly let pass. Each is
 * planted in it and must be found under every order of execution; the step without it is right, and nothing is said
 * about it. docs/checking-cuda-without-a-gpu.md shows what is found. */
#include "nccl_ranks.h"

enum { N = RANKS * LENGTH, THREADS = 256, SEEDS = 3 };
enum defect { NONE, EVENT, BARRIER, STORE, DEVICE, SKIPPED, ALLOCATION };

template <defect planted> __global__ void add_up(const float *x, float *sum)
{
    SPMD_SMEM(float, part, [THREADS]);
    int i = threadIdx.x;
    part[i] = i < N ? x[i] : 0.0f;
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (planted != BARRIER)
            __syncthreads();
        if (i < distance)
            part[i] += part[i + distance];
    }
    if (i == 0)
        *sum = part[0];
}

template <defect planted> __global__ void spread(const float *sum, float *y)
{
    int i = threadIdx.x, n = planted == STORE ? N + 1 : N;
    if (i < n)
        y[i] = *sum;
}

/* The sum of this device's x is added to the other's on a stream of its own. */
template <defect planted> static void step(nccl_rank *me)
{
    cudaStream_t side;
    cudaEvent_t added, met;
    float *sum, got[N];
    void *late = nullptr;
    must(cudaSetDevice(planted == DEVICE ? 0 : me->rank) == cudaSuccess);
    must(cudaMalloc((void **)&sum, sizeof *sum) == cudaSuccess);
    must(cudaSetDevice(me->rank) == cudaSuccess);
    must(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking) == cudaSuccess);
    must(cudaEventCreateWithFlags(&added, cudaEventDisableTiming) == cudaSuccess);
    must(cudaEventCreateWithFlags(&met, cudaEventDisableTiming) == cudaSuccess);

    SPMD_LAUNCH((add_up<planted>), 1, THREADS, 0, me->stream, me->x, sum);
    must(cudaEventRecord(added, me->stream) == cudaSuccess);
    if (planted != EVENT)
        must(cudaStreamWaitEvent(side, added, 0) == cudaSuccess);
    if (planted != SKIPPED || me->rank == 0)
        must(ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, me->comm, side) == ncclSuccess);
    if (planted == ALLOCATION)
        must(cudaMalloc(&late, sizeof *sum) == cudaSuccess);
    must(cudaEventRecord(met, side) == cudaSuccess);
    must(cudaStreamWaitEvent(me->stream, met, 0) == cudaSuccess);
    SPMD_LAUNCH((spread<planted>), 1, THREADS, 0, me->stream, sum, me->y);
    must(cudaGetLastError() == cudaSuccess);
    nccl_rank_fetch(me, got, N);
    for (int i = 0; i < N; i++)
        must(got[i] == 3.0f * (N * (N + 1) / 2));

    emu_reset_device(me->rank); /* a defect may have left an error on it, or a collective that never ends */
    must((planted == NONE ? ncclCommDestroy : ncclCommAbort)(me->comm) == ncclSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess);
    must(cudaStreamDestroy(side) == cudaSuccess && cudaEventDestroy(added) == cudaSuccess);
    must(cudaEventDestroy(met) == cudaSuccess && cudaFree(sum) == cudaSuccess && cudaFree(late) == cudaSuccess);
}

template <defect planted> static void expect(const char *kind, const char *words)
{
    for (int policy = EMU_EARLY; policy <= EMU_NEWEST; policy++)
        for (unsigned seed = 1; seed <= SEEDS; seed++) {
            emu_configure(0, (emu_policy)policy, seed);
            emu_set_timeout(20);
            ck_assert_msg(!nccl_ranks_run(2, step<NONE>) && !emu_reports(NULL), "policy %d, seed %u: %s", policy, seed,
                          emu_report_text(NULL));
            if (planted == SKIPPED || planted == DEVICE) /* the other device waits for ever */
                emu_set_timeout(0.3);
            (void)nccl_ranks_run(2, step<planted>);
            ck_found(kind, words);
            ck_assert_int_eq(emu_live(NULL), 0);
        }
}

START_TEST(a_dropped_event)
{
    expect<EVENT>("stream-race", "ncclAllReduce");
}
END_TEST

START_TEST(a_dropped_barrier)
{
    expect<BARRIER>("racecheck", "with no barrier between");
}
END_TEST

START_TEST(a_store_out_of_bounds)
{
    expect<STORE>("memcheck", "writes 4 bytes");
}
END_TEST

START_TEST(a_pointer_of_another_device)
{
    expect<DEVICE>("peer", "has no access to the memory of device");
}
END_TEST

START_TEST(a_collective_that_one_device_skips)
{
    expect<SKIPPED>("hang", "not called by rank 1");
}
END_TEST

START_TEST(an_allocation_during_a_collective)
{
    expect<ALLOCATION>("nccl", "cudaMalloc on device");
}
END_TEST

EMU_TEST_MAIN("defects", tcase_add_checked_fixture(tc, nccl_test_setup, NULL); tcase_add_test(tc, a_dropped_event);
              tcase_add_test(tc, a_dropped_barrier); tcase_add_test(tc, a_store_out_of_bounds);
              tcase_add_test(tc, a_pointer_of_another_device); tcase_add_test(tc, a_collective_that_one_device_skips);
              tcase_add_test(tc, an_allocation_during_a_collective);)
