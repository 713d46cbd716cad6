/* Allocation: what the runtime promises about memory, and what programs do wrong with it. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

__global__ void write_all(float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = 1.0f;
}

template <class T> static T *device_array(size_t n)
{
    T *x = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&x), n * sizeof *x));
    return x;
}

START_TEST(memory_is_aligned_apart_and_counted)
{
    size_t available, before, total;
    ck_cuda(cudaMemGetInfo(&before, &total));
    char *a = device_array<char>(1), *b = device_array<char>(100000);
    ck_assert(reinterpret_cast<uintptr_t>(a) % 256 == 0 && reinterpret_cast<uintptr_t>(b) % 256 == 0);
    ck_assert(a + 1 <= b || b + 100000 <= a);
    ck_cuda(cudaMemGetInfo(&available, &total));
    ck_assert(available <= before - 100001 && emu_live("device memory") == 2);
    ck_cuda(cudaFree(a));
    ck_cuda(cudaFree(b));
    ck_cuda(cudaFree(nullptr));
    ck_cuda(cudaMemGetInfo(&available, &total));
    ck_assert(available == before && emu_live(NULL) == 0);
    ck_clean();
}
END_TEST

START_TEST(fresh_memory_is_nan_even_when_it_was_used)
{
    enum { N = 1 << 20 };
    float *x = nullptr, got[2] = {0, 0};
    for (int round = 0; round < 40; round++) { /* more than the quarantine holds: addresses come again */
        x = device_array<float>(N);
        ck_cuda(cudaMemcpy(got, x + N - 2, sizeof got, cudaMemcpyDeviceToHost));
        ck_assert(got[0] != got[0] && got[1] != got[1]);
        emu_clear_reports(); /* of the unwritten read */
        ck_cuda(cudaMemset(x, 0, N * sizeof *x));
        ck_cuda(cudaFree(x));
    }
    ck_clean();
}
END_TEST

START_TEST(more_than_there_is_fails_and_leaves_all_usable)
{
    size_t available, total;
    void *p = &total;
    ck_cuda(cudaMemGetInfo(&available, &total));
    ck_assert(cudaMalloc(&p, total + 1) == cudaErrorMemoryAllocation && p == nullptr);
    ck_assert(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    ck_assert(cudaMalloc(&p, SIZE_MAX) == cudaErrorMemoryAllocation);
    ck_cuda(cudaMalloc(&p, total));
    ck_assert(cudaMalloc(&p, 1) == cudaErrorMemoryAllocation);
    ck_clean();
}
END_TEST

START_TEST(wrong_frees_are_found)
{
    char *a = device_array<char>(64), host;
    ck_assert(cudaFree(a + 1) == cudaErrorInvalidValue);
    ck_found("free", "no allocation starts there");
    ck_cuda(cudaFree(a));
    ck_assert(cudaFree(a) == cudaErrorInvalidValue);
    ck_found("free", "freed before");
    ck_assert(cudaFree(&host) == cudaErrorInvalidValue);
    ck_found("free", "did not allocate");
}
END_TEST

START_TEST(what_is_left_is_found)
{
    cudaStream_t stream;
    (void)device_array<char>(64);
    ck_cuda(cudaStreamCreate(&stream));
    emu_report_leaks();
    ck_assert_int_eq(emu_reports("leak"), 2);
    emu_clear_reports();
    ck_cuda(cudaStreamDestroy(stream));
    emu_report_leaks();
    ck_found("leak", "1 of: device memory");
}
END_TEST

START_TEST(memory_freed_in_stream_order_must_be_idle)
{
    cudaStream_t a, b;
    cudaEvent_t e;
    float *x;
    ck_cuda(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    ck_cuda(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    ck_cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int ordered = 1; ordered >= 0; ordered--) {
        ck_cuda(cudaMallocAsync(reinterpret_cast<void **>(&x), 100 * sizeof *x, a));
        SPMD_LAUNCH((write_all), 1, 32, 0, a, x, 100);
        ck_cuda(cudaEventRecord(e, a));
        if (ordered)
            ck_cuda(cudaStreamWaitEvent(b, e, 0));
        ck_cuda(cudaFreeAsync(x, b));
        (void)cudaStreamSynchronize(a);
        (void)cudaStreamSynchronize(b);
        if (ordered) {
            ck_cuda(cudaGetLastError());
            ck_clean();
        }
    }
    ck_assert(emu_reports("stream-race") + emu_reports("memcheck") > 0);
    emu_clear_reports();
    ck_cuda(cudaEventDestroy(e));
}
END_TEST

START_TEST(pointers_say_what_they_are)
{
    cudaPointerAttributes at;
    char *device, *pinned, host[4096];
    ck_cuda(cudaSetDevice(1));
    device = device_array<char>(64);
    ck_cuda(cudaMallocHost(reinterpret_cast<void **>(&pinned), 64));
    ck_cuda(cudaPointerGetAttributes(&at, device + 63));
    ck_assert(at.type == cudaMemoryTypeDevice && at.device == 1);
    ck_cuda(cudaPointerGetAttributes(&at, pinned));
    ck_assert(at.type == cudaMemoryTypeHost && at.hostPointer == pinned);
    ck_cuda(cudaPointerGetAttributes(&at, host));
    ck_assert(at.type == cudaMemoryTypeUnregistered);
    ck_cuda(cudaHostRegister(host, sizeof host, 0));
    ck_cuda(cudaPointerGetAttributes(&at, host + 5));
    ck_assert(at.type == cudaMemoryTypeHost);
    ck_assert(cudaHostRegister(host, sizeof host, 0) == cudaErrorHostMemoryAlreadyRegistered);
    ck_cuda(cudaHostUnregister(host));
    ck_cuda(cudaFreeHost(pinned));
    ck_cuda(cudaFree(device));
    ck_assert(emu_live(NULL) == 0);
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("allocation", tcase_add_test(tc, memory_is_aligned_apart_and_counted);
              tcase_add_test(tc, fresh_memory_is_nan_even_when_it_was_used);
              tcase_add_test(tc, more_than_there_is_fails_and_leaves_all_usable);
              tcase_add_test(tc, wrong_frees_are_found); tcase_add_test(tc, what_is_left_is_found);
              tcase_add_test(tc, memory_freed_in_stream_order_must_be_idle);
              tcase_add_test(tc, pointers_say_what_they_are);)
