/* Shared memory: barriers that are missing, lanes that do not wait, content that nobody wrote, indices that run over.
 */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { THREADS = 128, BARRIER = 1, WARP_ONLY = 2 };

static float *device_floats(int n)
{
    float *x = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), n * sizeof *x));
    ck_cuda(cudaMemset(x, 0, n * sizeof *x));
    return x;
}

#define RUN(kernel, smem, ...)                                         \
    do {                                                               \
        SPMD_LAUNCH((kernel), 2, THREADS, smem, nullptr, __VA_ARGS__); \
        ck_cuda(cudaGetLastError());                                   \
        ck_cuda(cudaDeviceSynchronize());                              \
    } while (0)

/* Each thread reads what the thread at `distance` wrote. */
template <class T> __global__ void exchange(float *out, int distance, int order)
{
    SPMD_SMEM(T, value, [THREADS]);
    int i = threadIdx.x;
    value[i] = T(float(i % 100));
    if (order == BARRIER)
        __syncthreads();
    else if (order == WARP_ONLY)
        __syncwarp();
    out[blockIdx.x * THREADS + i] = float(value[(i + distance) % THREADS]);
}

START_TEST(a_missing_barrier_is_found)
{
    float *out = device_floats(2 * THREADS);
    RUN(exchange<float>, 0, out, 5, BARRIER);
    RUN(exchange<float>, 0, out, 0, 0);
    RUN(exchange<__nv_bfloat16>, 0, out, 5, BARRIER);
    RUN(exchange<__nv_bfloat16>, 0, out, 0, 0);
    RUN(exchange<signed char>, 0, out, 5, BARRIER);
    RUN(exchange<signed char>, 0, out, 0, 0); /* neighbours in one word are no race */
    ck_clean();
    RUN(exchange<float>, 0, out, 5, 0);
    ck_found("racecheck", "no barrier between");
    RUN(exchange<__nv_bfloat16>, 0, out, 5, 0);
    ck_found("racecheck", "test_smem.cu:");
    RUN(exchange<signed char>, 0, out, 1, 0);
    ck_found("racecheck", "exchange");
    RUN(exchange<float>, 0, out, 5, WARP_ONLY);
    ck_found("racecheck", "Put __syncthreads()");
}
END_TEST

/* Within a warp. */
__global__ void swap_lanes(float *out, bool sync, bool shuffle)
{
    SPMD_SMEM(float, value, [THREADS]);
    int i = threadIdx.x, other = i;
    value[i] = float(i);
    if (shuffle)
        other = __shfl_xor_sync(0xffffffffu, i, 1);
    if (sync)
        __syncwarp();
    out[blockIdx.x * THREADS + i] = value[i ^ 1] + other;
}

START_TEST(lanes_must_sync_and_a_shuffle_is_no_sync)
{
    float *out = device_floats(2 * THREADS);
    RUN(swap_lanes, 0, out, true, false);
    RUN(swap_lanes, 0, out, true, true);
    ck_clean();
    RUN(swap_lanes, 0, out, false, false);
    ck_found("racecheck", "Put __syncwarp()");
    RUN(swap_lanes, 0, out, false, true);
    ck_found("racecheck", "warp functions do not order memory");
}
END_TEST

/* A tile is used twice: what is read must be read before it is written again. */
__global__ void two_rounds(float *out, bool second_barrier)
{
    SPMD_SMEM_DYN(float, value);
    int i = threadIdx.x;
    float sum = 0;
    for (int round = 0; round < 2; round++) {
        value[i] = float(i + round);
        __syncthreads();
        sum += value[THREADS - 1 - i];
        if (second_barrier)
            __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

START_TEST(overwriting_what_others_still_read_is_found)
{
    float *out = device_floats(2 * THREADS), got[2 * THREADS];
    RUN(two_rounds, THREADS * sizeof(float), out, true);
    ck_cuda(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 2 * THREADS; i++)
        ck_assert(got[i] == 2 * (THREADS - 1 - i % THREADS) + 1);
    ck_clean();
    RUN(two_rounds, THREADS * sizeof(float), out, false);
    ck_found("racecheck", "read at test_smem.cu:");
}
END_TEST

/* All threads read one word, then one writes it. */
__global__ void read_then_write(float *out, bool barrier)
{
    SPMD_SMEM(float, total, [1]);
    if (threadIdx.x == 0)
        total[0] = 1;
    __syncthreads();
    float all = total[0];
    if (barrier)
        __syncthreads();
    if (threadIdx.x == 7)
        total[0] = 2;
    __syncthreads();
    out[blockIdx.x * THREADS + threadIdx.x] = all + total[0];
}

START_TEST(many_readers_and_a_writer)
{
    float *out = device_floats(2 * THREADS);
    RUN(read_then_write, 0, out, true);
    ck_clean();
    RUN(read_then_write, 0, out, false);
    ck_found("racecheck", "threads");
}
END_TEST

__global__ void count_up(int *out, bool atomically)
{
    SPMD_SMEM(int, count, [1]);
    if (threadIdx.x == 0)
        count[0] = 0;
    __syncthreads();
    if (atomically)
        atomicAdd(&count[0], 1);
    else
        count[0]++;
    __syncthreads();
    if (threadIdx.x == 0)
        out[blockIdx.x] = count[0];
}

START_TEST(atomic_functions_do_not_race)
{
    int got[2], *out = reinterpret_cast<int *>(device_floats(2));
    RUN(count_up, 0, out, true);
    ck_cuda(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    ck_assert(got[0] == THREADS && got[1] == THREADS);
    ck_clean();
    RUN(count_up, 0, out, false);
    ck_found("racecheck", "count_up");
}
END_TEST

__global__ void use_index(float *out, int index, bool write_first)
{
    SPMD_SMEM(float, tile, [8][4]);
    SPMD_SMEM(float, behind, [4]);
    float *flat = &tile[0][0];
    if (threadIdx.x == 0) {
        behind[0] = 1;
        if (write_first)
            flat[index] = 1;
        out[blockIdx.x] = flat[index] + behind[0];
    }
}

START_TEST(unwritten_content_and_overruns_are_found)
{
    float *out = device_floats(2);
    RUN(use_index, 0, out, 31, true);
    ck_clean();
    RUN(use_index, 0, out, 31, false);
    ck_found("initcheck", "nobody has written");
    RUN(use_index, 0, out, 32, true);
    ck_found("memcheck", "0 bytes behind the end of tile");
    RUN(two_rounds, THREADS * sizeof(float) - 4, device_floats(2 * THREADS), true);
    ck_found("memcheck", "dynamic shared memory");
}
END_TEST

EMU_TEST_MAIN("shared memory", tcase_add_test(tc, a_missing_barrier_is_found);
              tcase_add_test(tc, lanes_must_sync_and_a_shuffle_is_no_sync);
              tcase_add_test(tc, overwriting_what_others_still_read_is_found);
              tcase_add_test(tc, many_readers_and_a_writer); tcase_add_test(tc, atomic_functions_do_not_race);
              tcase_add_test(tc, unwritten_content_and_overruns_are_found);)
