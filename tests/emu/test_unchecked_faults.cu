/* Kernels that are not compiled for checking: accesses far out are still found, since the memory is not there. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { N = 64 };

__global__ void write_at(float *x, long long offset, int value)
{
    x[offset + threadIdx.x] = float(value);
}

static cudaError_t run(float *x, long long offset)
{
    SPMD_LAUNCH((write_at), 1, N, 0, nullptr, x, offset, 3);
    ck_cuda(cudaGetLastError());
    return cudaDeviceSynchronize();
}

START_TEST(a_wild_access_ends_the_kernel_and_not_the_process)
{
    float got[N], *x = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), sizeof got));
    ck_cuda(run(x, 0));
    ck_cuda(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
    ck_assert(got[0] == 3 && got[N - 1] == 3);
    ck_clean();
    ck_assert(run(x, 1 << 26) == cudaErrorIllegalAddress);
    ck_found("memcheck", "write_at");
    ck_cuda(run(x, 0));
    ck_clean();
    ck_assert(run(x, N) == cudaErrorIllegalAddress); /* right behind the end, in the page that is left out */
    ck_found("memcheck", "not allocated");
}
END_TEST

START_TEST(a_null_pointer_ends_the_kernel_and_not_the_process)
{
    float *x = nullptr;
    for (int round = 0; round < 3; round++) {
        ck_assert(run(nullptr, 0) == cudaErrorIllegalAddress);
        ck_found("memcheck", "Is the pointer NULL");
    }
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), N * sizeof *x));
    ck_cuda(run(x, 0));
    ck_clean();
}
END_TEST

__global__ void large_array(float *x, int n)
{
    volatile char local[80 << 10];
    for (int i = 0; i < n; i++)
        local[i] = char(i);
    __syncthreads();
    x[threadIdx.x] = local[n - 1 - int(threadIdx.x)];
}

START_TEST(too_large_local_arrays_are_found)
{
    float *x = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), N * sizeof *x));
    SPMD_LAUNCH((large_array), 2, N, 0, nullptr, x, 80 << 10);
    ck_assert(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    ck_found("launch", "local variables");
    ck_cuda(run(x, 0));
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("unchecked faults", tcase_add_test(tc, a_wild_access_ends_the_kernel_and_not_the_process);
              tcase_add_test(tc, a_null_pointer_ends_the_kernel_and_not_the_process);
              tcase_add_test(tc, too_large_local_arrays_are_found);)
