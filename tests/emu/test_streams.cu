/* Order: streams, events, copies and the host. Every missing wait is found under every policy, whether or not this run
 * computed something wrong; the twin with the wait is clean and right. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { N = 1000, SEEDS = 5 };

__global__ void fill(float *x, float value)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        x[i] = value;
}

__global__ void copy_kernel(const float *x, float *y)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        y[i] = x[i];
}

struct setup {
    cudaStream_t a, b;
    cudaEvent_t event;
    float *x, *y, *pinned;
};

static setup make()
{
    setup s;
    ck_cuda(cudaStreamCreateWithFlags(&s.a, cudaStreamNonBlocking));
    ck_cuda(cudaStreamCreateWithFlags(&s.b, cudaStreamNonBlocking));
    ck_cuda(cudaEventCreateWithFlags(&s.event, cudaEventDisableTiming));
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&s.x), N * sizeof(float)));
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&s.y), N * sizeof(float)));
    ck_cuda(cudaMallocHost(reinterpret_cast<void **>(&s.pinned), N * sizeof(float)));
    ck_cuda(cudaMemset(s.x, 0, N * sizeof(float)));
    ck_cuda(cudaMemset(s.y, 0, N * sizeof(float)));
    ck_cuda(cudaDeviceSynchronize());
    return s;
}

static void unmake(const setup &s)
{
    ck_cuda(cudaStreamDestroy(s.a));
    ck_cuda(cudaStreamDestroy(s.b));
    ck_cuda(cudaEventDestroy(s.event));
    ck_cuda(cudaFree(s.x));
    ck_cuda(cudaFree(s.y));
    ck_cuda(cudaFreeHost(s.pinned));
    ck_assert_int_eq(emu_live(NULL), 0);
}

static void every_order(void (*test)(bool ordered))
{
    for (int policy = EMU_EARLY; policy <= EMU_NEWEST; policy++)
        for (unsigned seed = 1; seed <= SEEDS; seed++) {
            emu_configure(0, emu_policy(policy), seed);
            test(true);
            ck_assert_msg(emu_reports(NULL) == 0, "policy %d, seed %u: %s", policy, seed, emu_report_text(NULL));
            test(false);
            ck_assert_msg(emu_reports(NULL) > 0, "policy %d, seed %u: nothing found", policy, seed);
            emu_clear_reports();
        }
}

/* b reads what a writes. */
static void read_after_write(bool ordered)
{
    setup s = make();
    SPMD_LAUNCH((fill), 1, 64, 0, s.a, s.x, 7.0f);
    ck_cuda(cudaEventRecord(s.event, s.a));
    if (ordered)
        ck_cuda(cudaStreamWaitEvent(s.b, s.event, 0));
    SPMD_LAUNCH((copy_kernel), 1, 64, 0, s.b, s.x, s.y);
    ck_cuda(cudaMemcpyAsync(s.pinned, s.y, N * sizeof(float), cudaMemcpyDeviceToHost, s.b));
    ck_cuda(cudaStreamSynchronize(s.b));
    ck_assert(!ordered || s.pinned[N - 1] == 7.0f);
    ck_cuda(cudaDeviceSynchronize());
    ck_assert(ordered || emu_reports("stream-race") > 0);
    unmake(s);
}

/* b overwrites what a reads. */
static void write_after_read(bool ordered)
{
    setup s = make();
    SPMD_LAUNCH((copy_kernel), 1, 64, 0, s.a, s.x, s.y);
    ck_cuda(cudaEventRecord(s.event, s.a));
    if (ordered)
        ck_cuda(cudaStreamWaitEvent(s.b, s.event, 0));
    ck_cuda(cudaMemsetAsync(s.x, 1, N * sizeof(float), s.b));
    ck_cuda(cudaStreamSynchronize(s.b));
    ck_cuda(cudaMemcpyAsync(s.pinned, s.y, N * sizeof(float), cudaMemcpyDeviceToHost, s.a));
    ck_cuda(cudaStreamSynchronize(s.a));
    ck_assert(!ordered || s.pinned[0] == 0.0f);
    ck_assert(ordered || emu_reports("stream-race") > 0);
    unmake(s);
}

/* The host reads a pinned buffer before the copy has ended. */
static void read_of_pinned_memory(bool ordered)
{
    setup s = make();
    memset(s.pinned, 0, N * sizeof(float));
    SPMD_LAUNCH((fill), 1, 64, 0, s.a, s.x, 7.0f);
    ck_cuda(cudaMemcpyAsync(s.pinned, s.x, N * sizeof(float), cudaMemcpyDeviceToHost, s.a));
    if (ordered)
        ck_cuda(cudaStreamSynchronize(s.a));
    volatile float got = s.pinned[3];
    ck_assert(!ordered || got == 7.0f);
    ck_cuda(cudaDeviceSynchronize());
    ck_assert(ordered || emu_reports("pinned") > 0);
    unmake(s);
}

/* The host overwrites a pinned buffer that is still being copied from. */
static void write_of_pinned_memory(bool ordered)
{
    setup s = make();
    for (int i = 0; i < N; i++)
        s.pinned[i] = 5.0f;
    ck_cuda(cudaMemcpyAsync(s.x, s.pinned, N * sizeof(float), cudaMemcpyHostToDevice, s.a));
    if (ordered)
        ck_cuda(cudaStreamSynchronize(s.a));
    s.pinned[3] = 6.0f;
    ck_cuda(cudaDeviceSynchronize());
    ck_assert(ordered || emu_reports("pinned") > 0);
    unmake(s);
}

START_TEST(missing_wait_before_a_read)
{
    every_order(read_after_write);
}
END_TEST

START_TEST(missing_wait_before_a_write)
{
    every_order(write_after_read);
}
END_TEST

START_TEST(missing_wait_of_the_host)
{
    every_order(read_of_pinned_memory);
    every_order(write_of_pinned_memory);
}
END_TEST

START_TEST(pageable_memory_is_copied_at_once)
{
    setup s = make();
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = 5.0f;
    ck_cuda(cudaMemcpyAsync(s.x, host, sizeof host, cudaMemcpyHostToDevice, s.a));
    host[3] = 6.0f; /* staged: the copy does not see it */
    ck_cuda(cudaMemcpyAsync(host, s.x, sizeof host, cudaMemcpyDeviceToHost, s.a));
    ck_assert(host[3] == 5.0f); /* and this one has waited */
    ck_clean();
    unmake(s);
}
END_TEST

START_TEST(the_default_stream_waits_for_blocking_ones)
{
    setup s = make();
    cudaStream_t blocking;
    ck_cuda(cudaStreamCreate(&blocking));
    SPMD_LAUNCH((fill), 1, 64, 0, blocking, s.x, 1.0f);
    SPMD_LAUNCH((copy_kernel), 1, 64, 0, nullptr, s.x, s.y);
    SPMD_LAUNCH((fill), 1, 64, 0, blocking, s.x, 2.0f);
    ck_cuda(cudaMemcpy(s.pinned, s.y, N * sizeof(float), cudaMemcpyDeviceToHost));
    ck_assert(s.pinned[N - 1] == 1.0f);
    ck_cuda(cudaDeviceSynchronize());
    ck_clean();
    SPMD_LAUNCH((fill), 1, 64, 0, nullptr, s.x, 1.0f);
    SPMD_LAUNCH((copy_kernel), 1, 64, 0, s.a, s.x, s.y); /* a non-blocking one does not wait */
    ck_cuda(cudaDeviceSynchronize());
    ck_found("stream-race", "no event or synchronization");
    ck_cuda(cudaStreamDestroy(blocking));
    unmake(s);
}
END_TEST

static void set_flag(void *flag)
{
    *static_cast<volatile int *>(flag) = 1;
}

static void call_cuda(void *result)
{
    *static_cast<cudaError_t *>(result) = cudaDeviceSynchronize();
}

START_TEST(host_functions_run_in_order_and_may_not_call_cuda)
{
    setup s = make();
    volatile int flag = 0;
    cudaError_t inside = cudaSuccess;
    ck_cuda(cudaLaunchHostFunc(s.a, set_flag, const_cast<int *>(&flag)));
    ck_cuda(cudaStreamSynchronize(s.a));
    ck_assert(flag == 1);
    ck_clean();
    ck_cuda(cudaLaunchHostFunc(s.a, call_cuda, &inside));
    ck_cuda(cudaStreamSynchronize(s.a));
    ck_assert(inside == cudaErrorNotPermitted);
    ck_found("host", "inside a host function");
    unmake(s);
}
END_TEST

START_TEST(queries_end_when_the_work_does)
{
    setup s = make();
    cudaError_t error;
    SPMD_LAUNCH((fill), 1, 64, 0, s.a, s.x, 7.0f);
    ck_cuda(cudaEventRecord(s.event, s.a));
    while ((error = cudaEventQuery(s.event)) == cudaErrorNotReady)
        ;
    ck_cuda(error);
    ck_cuda(cudaMemsetAsync(s.x, 0, 4, s.b)); /* the query has ordered it */
    while ((error = cudaStreamQuery(s.b)) == cudaErrorNotReady)
        ;
    ck_cuda(error);
    ck_cuda(cudaGetLastError());
    ck_clean();
    unmake(s);
}
END_TEST

START_TEST(streams_that_are_gone_still_run_and_are_refused)
{
    setup s = make();
    cudaStream_t gone;
    ck_cuda(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
    SPMD_LAUNCH((fill), 1, 64, 0, gone, s.x, 7.0f);
    ck_cuda(cudaStreamDestroy(gone));
    ck_assert(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
    ck_found("free", "not a stream");
    ck_cuda(cudaDeviceSynchronize());
    ck_cuda(cudaMemcpy(s.pinned, s.x, N * sizeof(float), cudaMemcpyDeviceToHost));
    ck_assert(s.pinned[N - 1] == 7.0f);
    unmake(s);
}
END_TEST

START_TEST(things_of_another_device_are_found)
{
    setup s = make();
    ck_cuda(cudaSetDevice(1));
    SPMD_LAUNCH((fill), 1, 64, 0, s.a, s.x, 7.0f);
    ck_assert(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    ck_found("device", "cudaSetDevice(0)");
    SPMD_LAUNCH((fill), 1, 64, 0, nullptr, s.x, 7.0f);
    ck_assert(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    ck_found("peer", "cudaDeviceEnablePeerAccess");
    emu_reset_device(1);
    ck_cuda(cudaDeviceEnablePeerAccess(0, 0));
    ck_assert(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    SPMD_LAUNCH((fill), 1, 64, 0, nullptr, s.x, 7.0f);
    ck_cuda(cudaDeviceSynchronize());
    cudaEvent_t other;
    ck_cuda(cudaEventCreate(&other));
    ck_clean();
    ck_assert(cudaEventRecord(other, s.a) == cudaErrorInvalidResourceHandle);
    ck_found("device", "cudaEventRecord");
    ck_cuda(cudaEventDestroy(other));
    ck_cuda(cudaSetDevice(0));
    unmake(s);
}
END_TEST

START_TEST(copies_in_the_wrong_direction_are_found)
{
    setup s = make();
    float host[4] = {0};
    ck_assert(cudaMemcpyAsync(s.x, host, sizeof host, cudaMemcpyDeviceToHost, s.a) == cudaErrorInvalidValue);
    ck_found("memcheck", "cudaMemcpyKind");
    ck_assert(cudaMemset(host, 0, sizeof host) == cudaErrorInvalidValue);
    ck_found("memcheck", "not device memory");
    unmake(s);
}
END_TEST

EMU_TEST_MAIN("streams", tcase_add_test(tc, missing_wait_before_a_read);
              tcase_add_test(tc, missing_wait_before_a_write); tcase_add_test(tc, missing_wait_of_the_host);
              tcase_add_test(tc, pageable_memory_is_copied_at_once);
              tcase_add_test(tc, the_default_stream_waits_for_blocking_ones);
              tcase_add_test(tc, host_functions_run_in_order_and_may_not_call_cuda);
              tcase_add_test(tc, queries_end_when_the_work_does);
              tcase_add_test(tc, streams_that_are_gone_still_run_and_are_refused);
              tcase_add_test(tc, things_of_another_device_are_found);
              tcase_add_test(tc, copies_in_the_wrong_direction_are_found);)
