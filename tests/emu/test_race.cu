/* Global memory inside one launch: what threads and blocks may not do to each other. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { BLOCKS = 3, THREADS = 64, N = BLOCKS * THREADS };

static void *device_bytes(size_t n)
{
    void *x = nullptr;
    ck_cuda(cudaMalloc(&x, n));
    ck_cuda(cudaMemset(x, 0, n));
    return x;
}

#define RUN(kernel, blocks, ...)                                         \
    do {                                                                 \
        SPMD_LAUNCH((kernel), blocks, THREADS, 0, nullptr, __VA_ARGS__); \
        ck_cuda(cudaGetLastError());                                     \
        ck_cuda(cudaDeviceSynchronize());                                \
    } while (0)

enum { OWN, SAME_WORD, NEIGHBOUR, NEIGHBOUR_AFTER_BARRIER, NEIGHBOUR_AFTER_SYNCWARP, OTHER_BLOCK };

template <class T> __global__ void touch(T *x, float *out, int how)
{
    int i = threadIdx.x, block = blockIdx.x * THREADS, from = block + i;
    x[how == SAME_WORD ? block : block + i] = T(1.0f);
    if (how == NEIGHBOUR_AFTER_BARRIER)
        __syncthreads();
    if (how == NEIGHBOUR_AFTER_SYNCWARP)
        __syncwarp();
    if (how == NEIGHBOUR || how == NEIGHBOUR_AFTER_SYNCWARP)
        from = block + (i ^ 1);
    if (how == NEIGHBOUR_AFTER_BARRIER)
        from = block + THREADS - 1 - i;
    if (how == OTHER_BLOCK)
        from = (block + THREADS + i) % N;
    out[block + i] = float(x[from]);
}

template <class T> static void try_all(int blocks)
{
    T *x = static_cast<T *>(device_bytes(N * sizeof *x));
    float *out = static_cast<float *>(device_bytes(N * sizeof *out));
    for (int how : {OWN, NEIGHBOUR_AFTER_BARRIER, NEIGHBOUR_AFTER_SYNCWARP})
        RUN(touch<T>, blocks, x, out, how);
    ck_clean();
    for (int how : {SAME_WORD, NEIGHBOUR}) {
        RUN(touch<T>, blocks, x, out, how);
        ck_found("race", "test_race.cu:");
    }
}

START_TEST(threads_race_unless_a_barrier_orders_them)
{
    try_all<float>(BLOCKS);
    try_all<__nv_bfloat16>(BLOCKS);
    try_all<signed char>(BLOCKS);
    try_all<double>(1);
}
END_TEST

START_TEST(blocks_race_whatever_barriers_they_have)
{
    float *x = static_cast<float *>(device_bytes(N * sizeof *x)),
          *out = static_cast<float *>(device_bytes(N * sizeof *x));
    RUN(touch<float>, BLOCKS, x, out, OTHER_BLOCK);
    ck_found("race", "Blocks run in any order");
    RUN(touch<float>, 1, x, out, OTHER_BLOCK);
    ck_clean();
}
END_TEST

/* All read one word; then, behind a barrier, one thread of the block writes it. */
__global__ void read_then_write(float *x, float *out, bool barrier)
{
    float all = x[blockIdx.x];
    if (barrier)
        __syncthreads();
    if (threadIdx.x == 40)
        x[blockIdx.x] = 2;
    out[blockIdx.x * THREADS + threadIdx.x] = all;
}

__global__ void read_common(float *x, float *out, bool write)
{
    float all = x[0];
    __syncthreads();
    if (write && blockIdx.x == 1 && threadIdx.x == 0)
        x[0] = all + 1;
    out[blockIdx.x * THREADS + threadIdx.x] = all;
}

START_TEST(many_readers_and_a_writer)
{
    float *x = static_cast<float *>(device_bytes(N * sizeof *x)),
          *out = static_cast<float *>(device_bytes(N * sizeof *x));
    RUN(read_then_write, BLOCKS, x, out, true);
    RUN(read_common, BLOCKS, x, out, false);
    ck_clean();
    RUN(read_then_write, BLOCKS, x, out, false);
    ck_found("race", "in the same launch");
    RUN(read_common, BLOCKS, x, out, true);
    ck_found("race", "Blocks run in any order");
}
END_TEST

__global__ void sum(float *total, int *last, unsigned *arrived, bool atomically)
{
    if (atomically)
        atomicAdd(total, 1.0f);
    else
        *total += 1.0f;
    __threadfence();
    if (atomicInc(arrived, 0xffffffffu) == N - 1)
        *last = 1;
}

START_TEST(atomic_functions_do_not_race)
{
    float got = 0, *total = static_cast<float *>(device_bytes(4));
    int got_last = 0, *last = static_cast<int *>(device_bytes(4));
    unsigned *arrived = static_cast<unsigned *>(device_bytes(4));
    RUN(sum, BLOCKS, total, last, arrived, true);
    ck_cuda(cudaMemcpy(&got, total, 4, cudaMemcpyDeviceToHost));
    ck_cuda(cudaMemcpy(&got_last, last, 4, cudaMemcpyDeviceToHost));
    ck_assert(got == N && got_last == 1);
    ck_clean();
    RUN(sum, BLOCKS, total, last, arrived, false);
    ck_found("race", "sum");
}
END_TEST

__global__ void atomics(int *x, unsigned *u, unsigned long long *w)
{
    int i = int(threadIdx.x);
    atomicAdd(x, i);
    atomicSub(x + 1, i);
    atomicMin(x + 2, -i);
    atomicMax(x + 3, i);
    atomicOr(x + 4, 1 << i % 31);
    atomicAnd(u, ~(1u << i % 32));
    atomicXor(u + 1, 1u << i % 32);
    atomicInc(u + 2, 9);
    atomicDec(u + 3, 9);
    atomicAdd(w, 1ull << 33);
    while (atomicCAS(u + 4, unsigned(i), unsigned(i + 1)) != unsigned(i))
        SPMD_SPIN();
    atomicExch(x + 5, 7);
}

START_TEST(atomic_functions_compute_what_cuda_does)
{
    int x[6], *dx = static_cast<int *>(device_bytes(sizeof x));
    unsigned u[5] = {0xffffffffu}, *du = static_cast<unsigned *>(device_bytes(sizeof u));
    unsigned long long w, *dw = static_cast<unsigned long long *>(device_bytes(sizeof w));
    ck_cuda(cudaMemcpy(du, u, sizeof u, cudaMemcpyHostToDevice));
    RUN(atomics, 1, dx, du, dw);
    ck_cuda(cudaMemcpy(x, dx, sizeof x, cudaMemcpyDeviceToHost));
    ck_cuda(cudaMemcpy(u, du, sizeof u, cudaMemcpyDeviceToHost));
    ck_cuda(cudaMemcpy(&w, dw, sizeof w, cudaMemcpyDeviceToHost));
    int sum_of = THREADS * (THREADS - 1) / 2;
    ck_assert(x[0] == sum_of && x[1] == -sum_of && x[2] == 1 - THREADS && x[3] == THREADS - 1 && x[5] == 7);
    ck_assert(x[4] == 0x7fffffff && u[0] == 0 && u[1] == 0 && w == (unsigned long long)THREADS << 33);
    ck_assert(u[2] == THREADS % 10 && u[4] == THREADS);
    ck_assert_uint_eq(u[3], 6); /* 0, 9, 8, ..., 0, 9, ...: ten steps a turn, four over */
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("race", tcase_add_test(tc, threads_race_unless_a_barrier_orders_them);
              tcase_add_test(tc, blocks_race_whatever_barriers_they_have);
              tcase_add_test(tc, many_readers_and_a_writer); tcase_add_test(tc, atomic_functions_do_not_race);
              tcase_add_test(tc, atomic_functions_compute_what_cuda_does);)
