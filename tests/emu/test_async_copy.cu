/* cp.async, alignment, and kernels that spin on flags. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { THREADS = 64, FLOATS = 4 * THREADS };

static float *device_ramp(int n)
{
    float *host = static_cast<float *>(malloc(n * sizeof *host)), *x = nullptr;
    for (int i = 0; i < n; i++)
        host[i] = float(i);
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), n * sizeof *x));
    ck_cuda(cudaMemcpy(x, host, n * sizeof *x, cudaMemcpyHostToDevice));
    free(host);
    return x;
}

#define RUN(kernel, ...)                                         \
    (SPMD_LAUNCH((kernel), 1, THREADS, 0, nullptr, __VA_ARGS__), \
     cudaGetLastError() ? cudaErrorUnknown : cudaDeviceSynchronize())

enum { RIGHT, NO_WAIT, NO_BARRIER, WRONG_GROUP, MISALIGNED };

/* Two groups of copies, 16 bytes a thread each; the first is waited for alone. */
__global__ void pipeline(const float *x, float *out, int how)
{
    SPMD_SMEM(float, tile, [2][FLOATS]);
    int i = threadIdx.x;
    for (int group = 0; group < 2; group++) {
        __pipeline_memcpy_async(&tile[group][4 * i], x + group * FLOATS + 4 * i + (how == MISALIGNED ? 1 : 0), 16);
        __pipeline_commit();
    }
    float sum = 0;
    for (int group = 0; group < 2; group++) {
        if (how != NO_WAIT)
            __pipeline_wait_prior(group == 0 && how != WRONG_GROUP ? 1 : how == WRONG_GROUP ? 2 : 0);
        if (how != NO_BARRIER)
            __syncthreads();
        sum += tile[group][FLOATS - 1 - 4 * i];
    }
    out[i] = sum;
}

START_TEST(asynchronous_copies_must_be_waited_for)
{
    float got[THREADS], *x = device_ramp(2 * FLOATS + 4), *out = device_ramp(THREADS);
    ck_cuda(RUN(pipeline, x, out, RIGHT));
    ck_cuda(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < THREADS; i++)
        ck_assert(got[i] == FLOATS - 1 - 4 * i + 2 * FLOATS - 1 - 4 * i);
    ck_clean();
    (void)RUN(pipeline, x, out, NO_WAIT);
    ck_assert(emu_reports("initcheck") > 0);
    ck_found("cp.async", "never waited for");
    (void)RUN(pipeline, x, out, WRONG_GROUP);
    ck_found("initcheck", "nobody has written");
    (void)RUN(pipeline, x, out, NO_BARRIER);
    ck_found("racecheck", "no barrier between");
    (void)RUN(pipeline, x, out, MISALIGNED);
    ck_found("cp.async", "multiples of its size");
}
END_TEST

__global__ void fill_zeros(const float *x, float *out)
{
    SPMD_SMEM(float, tile, [FLOATS]);
    int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[4 * i], x + 4 * i, 16, i == 0 ? 16 : 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int k = 0; k < 4; k++)
        out[4 * i + k] = tile[4 * i + k];
}

START_TEST(asynchronous_copies_fill_with_zeros)
{
    float got[FLOATS], *out = device_ramp(FLOATS);
    ck_cuda(RUN(fill_zeros, device_ramp(FLOATS), out));
    ck_cuda(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < FLOATS; i++)
        ck_assert(got[i] == (i >= 4 && i % 4 < 2 ? i : 0));
    ck_clean();
}
END_TEST

__global__ void vector_copy(const float *x, float *y, int offset)
{
    int i = threadIdx.x;
    float4 v = *reinterpret_cast<const float4 *>(x + 4 * i + offset);
    v.x += 1;
    reinterpret_cast<float4 *>(y)[i] = v;
}

START_TEST(misaligned_vectors_are_found)
{
    float *x = device_ramp(FLOATS + 4), *y = device_ramp(FLOATS);
    ck_cuda(RUN(vector_copy, x, y, 0));
    ck_cuda(RUN(vector_copy, x, y, 4));
    ck_clean();
    ck_assert(RUN(vector_copy, x, y, 2) == cudaErrorMisalignedAddress);
    ck_found("alignment", "test_async_copy.cu:");
}
END_TEST

/* Block 0 waits for what block 1 computes: right only because of the flag. */
__global__ void wait_for_flag(float *x, unsigned *flag, unsigned value)
{
    if (blockIdx.x == 1) {
        x[threadIdx.x] = 5;
        __syncthreads();
        if (threadIdx.x == 0)
            spmd_st_release(flag, value);
    } else {
        if (threadIdx.x == 0)
            while (spmd_ld_acquire(flag) < 1)
                SPMD_SPIN();
        __syncthreads();
        x[THREADS + threadIdx.x] = x[threadIdx.x] + 1;
    }
}

START_TEST(spinning_blocks_and_streams_make_progress)
{
    float got[2 * THREADS], *x = device_ramp(2 * THREADS);
    unsigned *flag = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&flag), sizeof *flag));
    ck_cuda(cudaMemset(flag, 0, sizeof *flag));
    SPMD_LAUNCH((wait_for_flag), 2, THREADS, 0, nullptr, x, flag, 1u);
    ck_cuda(cudaDeviceSynchronize());
    ck_cuda(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < THREADS; i++)
        ck_assert(got[THREADS + i] == 6);
    ck_clean();
    ck_cuda(cudaMemset(flag, 0, sizeof *flag));
    emu_set_timeout(0.2);
    SPMD_LAUNCH((wait_for_flag), 2, THREADS, 0, nullptr, x, flag, 0u); /* the flag never gets its value */
    ck_assert(cudaDeviceSynchronize() != cudaSuccess);
    ck_found("hang", "spmd_st_release");
}
END_TEST

__global__ void signal_peer(float *x, unsigned *mine, unsigned *theirs, float *other)
{
    x[threadIdx.x] = 3;
    __syncthreads();
    if (threadIdx.x == 0) {
        spmd_st_release(mine, 1);
        while (spmd_ld_acquire(theirs) < 1)
            SPMD_SPIN();
    }
    __syncthreads();
    x[THREADS + threadIdx.x] = other[threadIdx.x];
}

START_TEST(kernels_of_two_streams_meet_by_flags)
{
    float *x[2];
    unsigned *flag[2];
    cudaStream_t stream[2];
    for (int k = 0; k < 2; k++) {
        x[k] = device_ramp(2 * THREADS);
        ck_cuda(cudaMalloc(reinterpret_cast<void **>(&flag[k]), sizeof(unsigned)));
        ck_cuda(cudaMemset(flag[k], 0, sizeof(unsigned)));
        ck_cuda(cudaStreamCreateWithFlags(&stream[k], cudaStreamNonBlocking));
    }
    ck_cuda(cudaDeviceSynchronize());
    for (int k = 0; k < 2; k++)
        SPMD_LAUNCH((signal_peer), 1, THREADS, 0, stream[k], x[k], flag[k], flag[1 - k], x[1 - k]);
    ck_cuda(cudaDeviceSynchronize());
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("asynchronous copies", tcase_add_test(tc, asynchronous_copies_must_be_waited_for);
              tcase_add_test(tc, asynchronous_copies_fill_with_zeros); tcase_add_test(tc, misaligned_vectors_are_found);
              tcase_add_test(tc, spinning_blocks_and_streams_make_progress);
              tcase_add_test(tc, kernels_of_two_streams_meet_by_flags);)
