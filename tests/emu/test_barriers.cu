/* Barriers and warp functions that not all threads reach, and what they compute when all do. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { THREADS = 96 };

static int *device_ints(int n)
{
    int *x = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), n * sizeof *x));
    ck_cuda(cudaMemset(x, 0, n * sizeof *x));
    return x;
}

#define RUN(kernel, grid, threads, ...)                             \
    (SPMD_LAUNCH((kernel), grid, threads, 0, nullptr, __VA_ARGS__), \
     cudaGetLastError() ? cudaErrorUnknown : cudaDeviceSynchronize())

enum { ALL, BRANCHES, EARLY_END, ONE_HALF };

__global__ void meet(int *x, int how)
{
    int i = threadIdx.x;
    if (how == EARLY_END && i >= 64)
        return;
    if (how == BRANCHES && i < 32) {
        x[i] = 1;
        __syncthreads();
    } else if (how == ONE_HALF && i < 16) {
        __syncwarp();
    } else {
        __syncthreads();
    }
    x[i] = 2;
}

START_TEST(barriers_that_threads_do_not_share_are_found)
{
    int *x = device_ints(THREADS);
    ck_cuda(RUN(meet, 1, THREADS, x, ALL));
    ck_clean();
    (void)RUN(meet, 1, THREADS, x, BRANCHES);
    ck_found("sync", "test_barriers.cu:");
    (void)RUN(meet, 1, THREADS, x, EARLY_END);
    ck_found("sync", "32 of 96 threads ended without reaching");
}
END_TEST

START_TEST(a_stuck_block_ends_with_an_error_and_the_next_kernel_runs)
{
    int *x = device_ints(THREADS);
    ck_assert(RUN(meet, 1, THREADS, x, ONE_HALF) == cudaErrorLaunchFailure);
    ck_found("sync", "is stuck");
    ck_cuda(RUN(meet, 1, THREADS, x, ALL));
    ck_clean();
}
END_TEST

__global__ void barrier_votes(int *x)
{
    int i = threadIdx.x, n = __syncthreads_count(i % 3 == 0);
    int any = __syncthreads_or(i == 5), none = __syncthreads_or(0), all = __syncthreads_and(1),
        but = __syncthreads_and(i);
    x[i] = n * 10000 + any * 1000 + none * 100 + all * 10 + but;
}

__global__ void warp_functions(int *x)
{
    int i = threadIdx.x, lane = i % 32;
    unsigned all = 0xffffffffu;
    int ok = __shfl_sync(all, i, 3) == (i & ~31) + 3;
    ok &= __shfl_xor_sync(all, i, 8) == (i ^ 8);
    ok &= __shfl_down_sync(all, i, 4) == (lane < 28 ? i + 4 : i);
    ok &= __shfl_up_sync(all, i, 4, 8) == (lane % 8 >= 4 ? i - 4 : i);
    ok &= __ballot_sync(all, lane < 5) == 31u;
    ok &= __any_sync(all, lane == 31) && !__all_sync(all, lane != 31) && __all_sync(all, 1);
    ok &= __match_any_sync(all, lane % 2) == (lane % 2 ? 0xaaaaaaaau : 0x55555555u);
    ok &= __reduce_add_sync(all, 1) == 32 && __reduce_max_sync(all, lane) == 31;
    ok &= __shfl_sync(all, double(i), 1) == double((i & ~31) + 1);
    if (lane < 16) /* a part of the warp, which is what the mask says */
        ok &= __shfl_xor_sync(0x0000ffffu, i, 1) == (i ^ 1);
    auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
    ok &= tile.shfl(i, 2) == (i & ~7) + 2 && tile.thread_rank() == unsigned(i % 8) && tile.any(lane % 8 == 7);
    ok &= tile.ballot(tile.thread_rank() == 1) == 2u;
    x[i] = ok;
}

START_TEST(warp_functions_and_votes_compute_what_cuda_does)
{
    int got[THREADS], *x = device_ints(THREADS);
    ck_cuda(RUN(warp_functions, 1, THREADS, x));
    ck_cuda(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < THREADS; i++)
        ck_assert_msg(got[i] == 1, "thread %d", i);
    ck_cuda(RUN(barrier_votes, 1, THREADS, x));
    ck_cuda(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(got[i], 321010);
    ck_clean();
}
END_TEST

enum { ENDED_LANE, LEFT_OUT, MIXED, ABSENT };

__global__ void wrong_warp(int *x, int how)
{
    int lane = threadIdx.x;
    if (how == ENDED_LANE && lane != 3)
        x[lane] = __shfl_sync(0xffffffffu, lane, 3);
    if (how == LEFT_OUT)
        x[lane] = __shfl_sync(0x0000ffffu, lane, lane);
    if (how == MIXED) {
        if (lane < 16)
            x[lane] = __shfl_sync(0xffffffffu, lane, 3);
        else
            __syncwarp();
    }
    if (how == ABSENT) {
        if (lane < 16)
            x[lane] = __shfl_sync(0xffffffffu, lane, 3);
        else
            __syncthreads();
    }
}

START_TEST(wrong_masks_and_absent_lanes_are_found)
{
    static const char *const words[] = {"reads lane 3, which does not take part", "which leaves it out",
                                        "meet in different warp functions", "whose mask names lanes that do not come"};
    for (int how = ENDED_LANE; how <= ABSENT; how++) {
        (void)RUN(wrong_warp, 1, 32, device_ints(32), how);
        ck_found("sync", words[how]);
    }
}
END_TEST

/* Blocks pass numbers on at the grid's barrier. */
__global__ void around(int *x, int rounds)
{
    auto grid = cooperative_groups::this_grid();
    int n = int(grid.size()), me = int(grid.thread_rank());
    for (int i = 0; i < rounds; i++) {
        int next = x[(me + 1) % n];
        grid.sync();
        x[me] = next + 1;
        grid.sync();
    }
}

START_TEST(the_grid_meets_when_it_is_launched_for_it)
{
    enum { N = 4 * THREADS };
    int got[N], *x = device_ints(N);
    SPMD_LAUNCH_COOPERATIVE((around), 4, THREADS, 0, nullptr, x, 3);
    ck_cuda(cudaGetLastError());
    ck_cuda(cudaDeviceSynchronize());
    ck_cuda(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(got[i], 3);
    ck_clean();
    SPMD_LAUNCH_COOPERATIVE((around), 4000, THREADS, 0, nullptr, x, 3);
    ck_assert(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
    ck_assert(RUN(around, 4, THREADS, x, 1) != cudaSuccess);
    ck_found("sync", "SPMD_LAUNCH_COOPERATIVE");
}
END_TEST

EMU_TEST_MAIN("barriers", tcase_add_test(tc, barriers_that_threads_do_not_share_are_found);
              tcase_add_test(tc, a_stuck_block_ends_with_an_error_and_the_next_kernel_runs);
              tcase_add_test(tc, warp_functions_and_votes_compute_what_cuda_does);
              tcase_add_test(tc, wrong_masks_and_absent_lanes_are_found);
              tcase_add_test(tc, the_grid_meets_when_it_is_launched_for_it);)
