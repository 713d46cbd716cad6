/* Stream capture and graphs: what they compute, and what may not be done meanwhile. */
#include "emu_test.h"
#include "spmd/cuda.cuh"
#include <pthread.h>

enum { N = 256 };

__global__ void add(const float *x, float *y, float factor)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        y[i] += factor * x[i];
}

static cudaStream_t stream, side;
static cudaEvent_t fork_event, join_event;
static float *x, *y, *z, *got;

static void setup(void)
{
    ck_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ck_cuda(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    ck_cuda(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
    ck_cuda(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
    for (float **p : {&x, &y, &z}) {
        ck_cuda(cudaMalloc(reinterpret_cast<void **>(p), N * sizeof(float)));
        ck_cuda(cudaMemset(*p, 0, N * sizeof(float)));
    }
    ck_cuda(cudaMallocHost(reinterpret_cast<void **>(&got), N * sizeof(float)));
    for (int i = 0; i < N; i++)
        got[i] = 1.0f;
    ck_cuda(cudaDeviceSynchronize()); /* the stream does not wait for the default stream */
    ck_cuda(cudaMemcpyAsync(x, got, N * sizeof(float), cudaMemcpyHostToDevice, stream));
    ck_cuda(cudaDeviceSynchronize());
}

static void teardown(void)
{
    ck_cuda(cudaStreamDestroy(stream));
    ck_cuda(cudaStreamDestroy(side));
    ck_cuda(cudaEventDestroy(fork_event));
    ck_cuda(cudaEventDestroy(join_event));
    for (float *p : {x, y, z})
        ck_cuda(cudaFree(p));
    ck_cuda(cudaFreeHost(got));
    ck_assert_int_eq(emu_live(NULL), 0);
}

static float result(const float *p)
{
    ck_cuda(cudaMemcpyAsync(got, p, N * sizeof(float), cudaMemcpyDeviceToHost, stream));
    ck_cuda(cudaStreamSynchronize(stream));
    return got[N - 1];
}

static void begin()
{
    ck_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static cudaGraphExec_t end()
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ck_cuda(cudaStreamEndCapture(stream, &graph));
    ck_cuda(cudaGraphInstantiate(&exec, graph, 0));
    ck_cuda(cudaGraphDestroy(graph));
    return exec;
}

static void invalid(cudaError_t expected)
{
    cudaGraph_t graph = nullptr;
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), expected);
    ck_assert(!graph);
    (void)cudaGetLastError();
}

/* y += 2x beside z += 3x, then y += z. */
static void capture_diamond(bool fork, bool join)
{
    begin();
    ck_cuda(cudaEventRecord(fork_event, stream));
    if (fork)
        ck_cuda(cudaStreamWaitEvent(side, fork_event, 0));
    SPMD_LAUNCH((add), 1, 32, 0, fork ? side : stream, x, z, 3.0f);
    SPMD_LAUNCH((add), 1, 32, 0, stream, x, y, 2.0f);
    ck_cuda(cudaEventRecord(join_event, fork ? side : stream));
    if (join)
        ck_cuda(cudaStreamWaitEvent(stream, join_event, 0));
    SPMD_LAUNCH((add), 1, 32, 0, stream, z, y, 1.0f);
}

START_TEST(a_captured_diamond_replays)
{
    for (int policy = EMU_EARLY; policy <= EMU_NEWEST; policy++)
        for (unsigned seed = 1; seed <= 5; seed++) {
            emu_configure(0, emu_policy(policy), seed);
            ck_cuda(cudaMemsetAsync(y, 0, N * sizeof(float), stream));
            ck_cuda(cudaMemsetAsync(z, 0, N * sizeof(float), stream));
            capture_diamond(true, true);
            cudaGraphExec_t exec = end();
            ck_assert(result(y) == 0.0f); /* nothing has run */
            for (int i = 0; i < 3; i++)
                ck_cuda(cudaGraphLaunch(exec, stream));
            ck_assert(result(y) == 3 * 2 + (3 + 6 + 9));
            ck_cuda(cudaGraphExecDestroy(exec));
            ck_clean();
        }
}
END_TEST

START_TEST(work_after_a_launch_waits_for_all_of_the_graph)
{
    capture_diamond(true, true);
    cudaGraphExec_t exec = end();
    ck_cuda(cudaGraphLaunch(exec, stream));
    ck_cuda(cudaMemsetAsync(z, 0, N * sizeof(float), stream));
    ck_cuda(cudaGraphExecDestroy(exec)); /* goes on */
    ck_assert(result(y) == 5.0f);
    ck_clean();
}
END_TEST

START_TEST(work_beside_a_launch_does_not)
{
    capture_diamond(true, true);
    cudaGraphExec_t exec = end();
    ck_cuda(cudaGraphLaunch(exec, stream));
    ck_cuda(cudaMemsetAsync(z, 0, N * sizeof(float), side));
    ck_cuda(cudaDeviceSynchronize());
    ck_found("stream-race", "no event or synchronization");
    ck_cuda(cudaGraphExecDestroy(exec));
}
END_TEST

START_TEST(a_missing_join_inside_is_found)
{
    begin();
    ck_cuda(cudaEventRecord(fork_event, stream));
    ck_cuda(cudaStreamWaitEvent(side, fork_event, 0));
    SPMD_LAUNCH((add), 1, 32, 0, side, x, z, 3.0f);
    ck_cuda(cudaEventRecord(join_event, side));
    SPMD_LAUNCH((add), 1, 32, 0, stream, z, y, 1.0f); /* too early */
    ck_cuda(cudaStreamWaitEvent(stream, join_event, 0));
    cudaGraphExec_t exec = end();
    ck_cuda(cudaGraphLaunch(exec, stream));
    ck_cuda(cudaStreamSynchronize(stream));
    ck_found("stream-race", "add");
    ck_cuda(cudaGraphExecDestroy(exec));
}
END_TEST

START_TEST(a_stream_that_is_not_joined_is_refused)
{
    capture_diamond(true, false);
    invalid(cudaErrorStreamCaptureUnjoined);
    ck_found("capture", "does not wait for");
    capture_diamond(false, false); /* one stream needs no join */
    ck_cuda(cudaGraphExecDestroy(end()));
    ck_clean();
}
END_TEST

static cudaError_t unsafe_call(int i)
{
    static void *p;
    switch (i) {
    case 0:
        return cudaMalloc(&p, 4);
    case 1:
        return cudaFree(z);
    case 2:
        return cudaDeviceSynchronize();
    case 3:
        return cudaStreamSynchronize(stream);
    case 4:
        return cudaMemcpy(got, x, 4, cudaMemcpyDeviceToHost);
    case 5:
        return cudaEventQuery(fork_event);
    default:
        return cudaStreamSynchronize(side);
    }
}

START_TEST(unsafe_calls_end_a_capture)
{
    begin();
    ck_assert_int_eq(unsafe_call(_i), cudaErrorStreamCaptureUnsupported);
    SPMD_LAUNCH((add), 1, 32, 0, stream, x, y, 1.0f);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    cudaStreamCaptureStatus status;
    ck_cuda(cudaStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, cudaStreamCaptureStatusInvalidated);
    invalid(cudaErrorStreamCaptureInvalidated);
    emu_clear_reports();
    ck_cuda(cudaStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, cudaStreamCaptureStatusNone);
    ck_assert(result(y) == 0.0f); /* the stream works again */
    ck_clean();
}
END_TEST

static void *allocate(void *error)
{
    void *p = nullptr;
    *static_cast<cudaError_t *>(error) = cudaMalloc(&p, 4);
    return cudaFree(p) == cudaSuccess ? nullptr : error;
}

START_TEST(the_mode_says_whom_a_capture_stops)
{
    for (int global = 0; global < 2; global++) {
        cudaError_t error = cudaSuccess;
        pthread_t thread;
        ck_cuda(
            cudaStreamBeginCapture(stream, global ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeThreadLocal));
        pthread_create(&thread, nullptr, allocate, &error);
        pthread_join(thread, nullptr);
        ck_assert_int_eq(error, global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
        if (global)
            invalid(cudaErrorStreamCaptureInvalidated);
        else
            ck_cuda(cudaGraphExecDestroy(end()));
    }
    ck_found("capture", "during a stream capture");
    void *p; /* and a relaxed one nobody */
    ck_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    ck_cuda(cudaMalloc(&p, 4));
    ck_cuda(cudaFree(p));
    ck_cuda(cudaGraphExecDestroy(end()));
    ck_clean();
}
END_TEST

START_TEST(events_do_not_cross_the_border)
{
    ck_cuda(cudaEventRecord(join_event, side)); /* outside */
    begin();
    ck_assert_int_eq(cudaStreamWaitEvent(stream, join_event, 0), cudaErrorStreamCaptureIsolation);
    invalid(cudaErrorStreamCaptureInvalidated);
    ck_found("capture", "outside of the capture");
    begin();
    ck_cuda(cudaEventRecord(fork_event, stream)); /* inside */
    ck_cuda(cudaGraphExecDestroy(end()));
    ck_assert_int_eq(cudaEventSynchronize(fork_event), cudaErrorCapturedEvent);
    ck_assert_int_eq(cudaStreamWaitEvent(side, fork_event, 0), cudaErrorCapturedEvent);
    (void)cudaGetLastError();
    ck_cuda(cudaEventRecord(fork_event, stream)); /* and usable again */
    ck_cuda(cudaEventSynchronize(fork_event));
    ck_clean();
}
END_TEST

START_TEST(buffers_of_a_graph_are_pinned)
{
    float host[N] = {0};
    begin();
    ck_assert_int_eq(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, stream),
                     cudaErrorStreamCaptureUnsupported);
    invalid(cudaErrorStreamCaptureInvalidated);
    ck_found("pinned", "pageable");
    begin();
    ck_cuda(cudaMemcpyAsync(x, got, N * sizeof(float), cudaMemcpyHostToDevice, stream));
    cudaGraphExec_t exec = end();
    got[N - 1] = 4.0f; /* read at each launch */
    ck_cuda(cudaGraphLaunch(exec, stream));
    ck_cuda(cudaStreamSynchronize(stream));
    got[N - 1] = 0.0f;
    ck_assert(result(x) == 4.0f);
    ck_cuda(cudaGraphExecDestroy(exec));
    ck_clean();
}
END_TEST

START_TEST(the_wrong_ends_of_a_capture)
{
    cudaGraph_t graph;
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
    begin();
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
    ck_cuda(cudaEventRecord(fork_event, stream));
    ck_cuda(cudaStreamWaitEvent(side, fork_event, 0));
    ck_assert_int_eq(cudaStreamEndCapture(side, &graph), cudaErrorStreamCaptureUnmatched);
    (void)cudaGetLastError();
    ck_cuda(cudaGraphExecDestroy(end()));
    ck_assert_int_eq(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("capture", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, a_captured_diamond_replays);
              tcase_add_test(tc, work_after_a_launch_waits_for_all_of_the_graph);
              tcase_add_test(tc, work_beside_a_launch_does_not); tcase_add_test(tc, a_missing_join_inside_is_found);
              tcase_add_test(tc, a_stream_that_is_not_joined_is_refused);
              tcase_add_loop_test(tc, unsafe_calls_end_a_capture, 0, 7);
              tcase_add_test(tc, the_mode_says_whom_a_capture_stops);
              tcase_add_test(tc, events_do_not_cross_the_border); tcase_add_test(tc, buffers_of_a_graph_are_pinned);
              tcase_add_test(tc, the_wrong_ends_of_a_capture);)
