/* Memory that a kernel may not touch, and memory that nobody has written. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { N = 100, BLOCK = 64 };

template <class T> __global__ void add_one(T *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = T(float(x[i]) + 1.0f);
}

template <class T> static T *device_array(int n, bool written)
{
    T *x = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), n * sizeof *x));
    if (written)
        ck_cuda(cudaMemset(x, 0, n * sizeof *x));
    return x;
}

template <class T> static cudaError_t run_add_one(T *x, int n)
{
    SPMD_LAUNCH((add_one<T>), (n + BLOCK - 1) / BLOCK, BLOCK, 0, nullptr, x, n);
    ck_cuda(cudaGetLastError());
    return cudaDeviceSynchronize();
}

START_TEST(right_kernels_are_clean_and_right)
{
    float got[N], *x = device_array<float>(N, true);
    ck_cuda(run_add_one(x, N));
    ck_cuda(run_add_one(x, N));
    ck_cuda(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        ck_assert(got[i] == 2.0f);
    ck_cuda(run_add_one(device_array<__nv_bfloat16>(N - 1, true), N - 1));
    ck_cuda(run_add_one(device_array<signed char>(N - 3, true), N - 3));
    ck_cuda(run_add_one(device_array<double>(N, true), N));
    ck_clean();
    ck_assert(emu_accesses() > 2 * N);
}
END_TEST

START_TEST(one_element_behind_the_end_is_found)
{
    ck_assert(run_add_one(device_array<float>(N, true), N + 1) == cudaErrorIllegalAddress);
    ck_found("memcheck", "test_memcheck.cu:");
    ck_assert(run_add_one(device_array<__nv_bfloat16>(N - 1, true), N) == cudaErrorIllegalAddress);
    ck_found("memcheck", "thread (35,0,0)");
    ck_assert(run_add_one(device_array<signed char>(N - 3, true), N - 2) == cudaErrorIllegalAddress);
    ck_found("memcheck", "add_one");
}
END_TEST

START_TEST(errors_stay_until_the_device_is_reset)
{
    ck_assert(run_add_one(device_array<float>(N, true), 2 * N) == cudaErrorIllegalAddress);
    ck_assert(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    ck_found("memcheck", "not allocated");
    ck_cuda(run_add_one(device_array<float>(N, true), N));
    ck_clean();
}
END_TEST

START_TEST(use_after_free_is_found)
{
    float *x = device_array<float>(N, true);
    ck_cuda(cudaFree(x));
    ck_assert(run_add_one(x, 1) == cudaErrorIllegalAddress);
    ck_found("memcheck", "freed");
}
END_TEST

START_TEST(unwritten_memory_is_found)
{
    ck_cuda(run_add_one(device_array<float>(N, false), N));
    ck_found("initcheck", "nobody has written it");
    signed char *x = device_array<signed char>(N, false);
    ck_cuda(cudaMemset(x, 0, N - 1)); /* all but the last byte of a word */
    ck_cuda(run_add_one(x, N - 1));
    ck_clean();
    ck_cuda(run_add_one(x, N));
    ck_found("initcheck", "thread (35,0,0)");
}
END_TEST

START_TEST(copies_between_arrays_keep_what_is_unwritten)
{
    float got[N], *x = device_array<float>(N, false), *y = device_array<float>(N, true);
    ck_cuda(cudaMemset(x, 0, 10 * sizeof *x));
    ck_cuda(cudaMemcpy(y, x, N * sizeof *x, cudaMemcpyDeviceToDevice));
    ck_cuda(run_add_one(y, 10));
    ck_cuda(cudaMemcpy(got, y, 10 * sizeof *y, cudaMemcpyDeviceToHost));
    ck_clean();
    ck_cuda(cudaMemcpy(got, y, 11 * sizeof *y, cudaMemcpyDeviceToHost));
    ck_found("initcheck", "nobody has written it");
    ck_cuda(run_add_one(y, 11));
    ck_found("initcheck", "add_one");
}
END_TEST

START_TEST(memory_of_the_host_is_found)
{
    float *x = static_cast<float *>(calloc(N, sizeof *x));
    ck_assert(run_add_one(x, N) == cudaErrorIllegalAddress);
    ck_found("memcheck", "memory of the host");
    free(x);
    ck_assert(run_add_one(static_cast<float *>(nullptr), N) == cudaErrorIllegalAddress);
    ck_assert(emu_reports("memcheck") > 0);
    ck_found("memcheck", "no memory at all");
    ck_cuda(run_add_one(device_array<float>(N, true), N));
    ck_clean();
}
END_TEST

START_TEST(the_host_that_touches_a_device_is_found)
{
    float *x = device_array<float>(N, true);
    x[3] = 1.0f;
    ck_found("host", "test_memcheck.cu:");
}
END_TEST

EMU_TEST_MAIN("memcheck", tcase_add_test(tc, right_kernels_are_clean_and_right);
              tcase_add_test(tc, one_element_behind_the_end_is_found);
              tcase_add_test(tc, errors_stay_until_the_device_is_reset); tcase_add_test(tc, use_after_free_is_found);
              tcase_add_test(tc, unwritten_memory_is_found);
              tcase_add_test(tc, copies_between_arrays_keep_what_is_unwritten);
              tcase_add_test(tc, memory_of_the_host_is_found);
              tcase_add_test(tc, the_host_that_touches_a_device_is_found);)
