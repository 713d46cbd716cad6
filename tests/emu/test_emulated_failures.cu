/* Every call of every function fails once: the error comes back from that call, nothing hangs, and what was made can
 * still be destroyed. */
#include "emu_test.h"
#include "spmd/cuda.cuh"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <nccl.h>

enum { N = 64 };

__global__ void twice(float *x)
{
    x[threadIdx.x] *= 2.0f;
}

static int error_of(const char *function)
{
    return !strncmp(function, "nccl", 4)     ? (int)ncclSystemError
           : !strncmp(function, "cublas", 6) ? (int)CUBLAS_STATUS_INTERNAL_ERROR
                                             : (int)cudaErrorUnknown;
}

/* What a program owns; all of it may be missing. */
struct owned {
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cublasHandle_t blas;
    cublasLtHandle_t lt;
    ncclComm_t comm;
    float *x, *pinned;
};

/* The first error of a chain of calls; the rest is not called. */
#define TRY(call)                 \
    do {                          \
        int error_ = (int)(call); \
        if (error_)               \
            return error_;        \
    } while (0)

static int capture(owned *o)
{
    TRY(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
    int error = cudaMemcpyAsync(o->x, o->pinned, N * sizeof(float), cudaMemcpyHostToDevice, o->stream);
    SPMD_LAUNCH((twice), 1, N, 0, o->stream, o->x);
    error = error ? error : (int)cudaGetLastError();
    error = error ? error : (int)ncclAllReduce(o->x, o->x, N, ncclFloat32, ncclSum, o->comm, o->stream);
    int end = cudaStreamEndCapture(o->stream, &o->graph);
    if (end) /* a capture must end, or the stream is lost */
        (void)cudaStreamEndCapture(o->stream, &o->graph);
    return error ? error : end;
}

static int program(owned *o)
{
    int device;
    size_t available, total;
    float one = 1.0f, zero = 0.0f;
    ncclUniqueId id;
    TRY(cudaGetDeviceCount(&device));
    TRY(cudaSetDevice(0));
    TRY(cudaGetDevice(&device));
    TRY(cudaMemGetInfo(&available, &total));
    TRY(cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking));
    TRY(cudaEventCreateWithFlags(&o->event, cudaEventDisableTiming));
    TRY(cudaMalloc(reinterpret_cast<void **>(&o->x), N * sizeof(float)));
    TRY(cudaMallocHost(reinterpret_cast<void **>(&o->pinned), N * sizeof(float)));
    TRY(cublasCreate(&o->blas));
    TRY(cublasSetStream(o->blas, o->stream));
    TRY(cublasLtCreate(&o->lt));
    TRY(ncclGetUniqueId(&id));
    TRY(ncclCommInitRank(&o->comm, 1, id, 0));
    for (int i = 0; i < N; i++)
        o->pinned[i] = 1.0f;
    TRY(cudaMemsetAsync(o->x, 0, N * sizeof(float), o->stream));
    TRY(capture(o));
    TRY(cudaGraphInstantiate(&o->exec, o->graph, 0));
    TRY(cudaGraphLaunch(o->exec, o->stream));
    TRY(cudaEventRecord(o->event, o->stream));
    TRY(cudaStreamWaitEvent(o->stream, o->event, 0));
    TRY(cublasSgemm(o->blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, o->x, 1, o->x, 1, &zero, o->x + 1, 1));
    TRY(ncclGroupStart());
    int error = ncclAllReduce(o->x, o->x, N, ncclFloat32, ncclSum, o->comm, o->stream);
    TRY(error | ncclGroupEnd());
    TRY(cudaMemcpyAsync(o->pinned, o->x, N * sizeof(float), cudaMemcpyDeviceToHost, o->stream));
    TRY(cudaEventSynchronize(o->event));
    TRY(cudaStreamSynchronize(o->stream));
    return o->pinned[0] == 2.0f && o->pinned[1] == 4.0f ? 0 : -1;
}

/* Calls again what fails: an ordered failure comes once. */
#define AGAIN(call) ((call) ? (int)(call) : 0)

static int destroy(owned *o)
{
    int error = 0;
    if (o->exec)
        error |= AGAIN(cudaGraphExecDestroy(o->exec));
    if (o->graph)
        error |= AGAIN(cudaGraphDestroy(o->graph));
    if (o->comm)
        error |= AGAIN(ncclCommDestroy(o->comm));
    if (o->lt)
        error |= AGAIN(cublasLtDestroy(o->lt));
    if (o->blas)
        error |= AGAIN(cublasDestroy(o->blas));
    if (o->event)
        error |= AGAIN(cudaEventDestroy(o->event));
    if (o->stream)
        error |= AGAIN(cudaStreamDestroy(o->stream));
    error |= AGAIN(cudaFree(o->x)) | AGAIN(cudaFreeHost(o->pinned));
    return error;
}

START_TEST(every_call_fails_once)
{
    int functions = 0, failures = 0;
    for (int f = 0; emu_function(f); f++) {
        const char *name = emu_function(f);
        int left = 0;
        for (int nth = 1; !left; nth++) {
            owned o = owned();
            (void)cudaGetLastError();
            emu_fail(name, nth, error_of(name));
            int result = program(&o);
            left = emu_fail_left(name);
            ck_assert_msg(destroy(&o) == 0, "call %d of %s failed: cannot destroy: %s", nth, name,
                          emu_report_text(NULL));
            bool in_destroy = left && !emu_fail_left(name);
            ck_assert_msg(left || result == error_of(name), "call %d of %s failed: the program got %d", nth, name,
                          result);
            ck_assert_msg(!left || result == 0, "%s did not fail, but the program got %d", name, result);
            ck_assert_msg(emu_live(NULL) == 0, "call %d of %s failed: %ld things are left", nth, name, emu_live(NULL));
            functions += nth == 1 && (!left || in_destroy);
            failures += !left || in_destroy;
            if (in_destroy)
                left = 0;
        }
        emu_fail(name, 0, 0);
        (void)cudaGetLastError();
    }
    ck_assert_msg(functions >= 30 && failures >= 35, "%d functions, %d failures", functions, failures);
    ck_clean();
}
END_TEST

START_TEST(failures_come_when_ordered)
{
    void *p[3] = {nullptr, nullptr, nullptr};
    emu_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    ck_assert_int_eq(emu_fail_left("cudaMalloc"), 2);
    ck_cuda(cudaMalloc(&p[0], 4));
    ck_assert_int_eq(cudaMalloc(&p[1], 4), cudaErrorMemoryAllocation);
    ck_assert_int_eq(emu_fail_left("cudaMalloc"), 0);
    ck_cuda(cudaMalloc(&p[2], 4));
    ck_assert_int_eq(cudaGetLastError(), cudaErrorMemoryAllocation);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    emu_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
    emu_fail("cudaMalloc", 0, 0); /* taken back */
    ck_cuda(cudaMalloc(&p[1], 4));
    emu_fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    SPMD_LAUNCH((twice), 1, 1, 0, nullptr, static_cast<float *>(p[0]));
    ck_assert_int_eq(cudaGetLastError(), cudaErrorLaunchOutOfResources);
    emu_fail("cudaFree", 1, 0); /* left out */
    ck_cuda(cudaFree(p[2]));
    ck_assert_int_eq(emu_fail_left("cudaFree"), 0);
    ck_assert_int_eq(emu_live("device memory"), 3);
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("failures", tcase_add_test(tc, failures_come_when_ordered); tcase_add_test(tc, every_call_fails_once);)
