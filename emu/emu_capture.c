/* Stream capture: work becomes nodes of a graph. Streams join a capture by waiting for an event recorded in it. */
#include <stdlib.h>
#include <string.h>
#include "emu/emu_graph.h"

struct emu_capture {
    struct CUgraph_st *graph;
    struct CUstream_st *origin; /* NULL: ended */
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool spoiled;
    int refs; /* while it captures: one; every event recorded in it: one */
    struct emu_capture *next;
};

static struct emu_capture *captures; /* that have not ended */
static _Thread_local enum cudaStreamCaptureMode thread_mode;

static void drop(struct emu_capture *capture)
{
    if (!--capture->refs)
        free(capture);
}

static void set_front(int **to, int *nto, const int *from, int nfrom)
{
    int *copy = emu_alloc(sizeof(int) * (size_t)nfrom);
    if (nfrom)
        memcpy(copy, from, sizeof(int) * (size_t)nfrom);
    free(*to);
    *to = copy;
    *nto = nfrom;
}

static void join_capture(struct CUstream_st *s, struct emu_capture *capture)
{
    s->capture = capture;
    s->capture_lane = emu_graph_add_lane(capture->graph, s->device);
    s->nfront = 0;
}

static bool forbids(const struct emu_capture *capture)
{
    if (thread_mode == cudaStreamCaptureModeRelaxed)
        return false;
    bool mine = pthread_equal(capture->thread, pthread_self());
    if (mine)
        return capture->mode != cudaStreamCaptureModeRelaxed;
    return thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
}

bool emu_capture_forbids(const char *call)
{
    bool forbidden = false;
    emu_lock();
    for (struct emu_capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            c->spoiled = true;
            forbidden = true;
        }
    emu_unlock();
    if (forbidden)
        emu_report("capture",
                   "%s during a stream capture, which is invalid now; make the call before the capture, or "
                   "capture with cudaStreamCaptureModeThreadLocal if another thread calls",
                   call);
    return forbidden;
}

cudaError_t emu_capture_work(struct CUstream_st *s, const emu_work *work)
{
    struct emu_capture *capture = s->capture;
    if (capture->spoiled)
        return cudaErrorStreamCaptureInvalidated;
    int node = emu_graph_add_node(capture->graph, work, s->capture_lane, s->front, s->nfront);
    set_front(&s->front, &s->nfront, &node, 1);
    return cudaSuccess;
}

void emu_capture_spoil(struct CUstream_st *s)
{
    s->capture->spoiled = true;
}

bool emu_capture_allows_default(int device, const char *call)
{
    bool allowed = true;
    for (struct emu_capture *c = captures; c; c = c->next)
        if (c->origin->device == device && !(c->origin->flags & cudaStreamNonBlocking)) {
            c->spoiled = true;
            allowed = false;
        }
    if (!allowed)
        emu_report("capture",
                   "%s on the default stream of device %d, which waits for a stream that captures; create that "
                   "stream with cudaStreamNonBlocking",
                   call, device);
    return allowed;
}

/* --- events --- */
void emu_capture_forget(cudaEvent_t event)
{
    if (event->capture)
        drop(event->capture);
    event->capture = NULL;
    free(event->front);
    event->front = NULL;
    event->nfront = 0;
}

cudaError_t emu_capture_record(struct CUstream_st *s, cudaEvent_t event)
{
    event->capture = s->capture;
    s->capture->refs++;
    set_front(&event->front, &event->nfront, s->front, s->nfront);
    return cudaSuccess;
}

cudaError_t emu_capture_wait(struct CUstream_st *s, cudaEvent_t event)
{
    struct emu_capture *capture = event->capture;
    if (!capture) { /* recorded outside, waited for inside */
        s->capture->spoiled = true;
        emu_report("capture", "cudaStreamWaitEvent: a stream that captures waits for an event recorded outside of the "
                              "capture; record it inside, or wait before the capture begins");
        return cudaErrorStreamCaptureIsolation;
    }
    if (!capture->origin)
        return cudaErrorCapturedEvent;
    if (s->capture && s->capture != capture) {
        s->capture->spoiled = capture->spoiled = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (capture->spoiled)
        return cudaErrorStreamCaptureInvalidated;
    if (!s->capture)
        join_capture(s, capture);
    int *front = emu_alloc(sizeof(int) * (size_t)(s->nfront + event->nfront)), n = s->nfront;
    if (n)
        memcpy(front, s->front, sizeof(int) * (size_t)n);
    for (int i = 0; i < event->nfront; i++) {
        bool known = false;
        for (int k = 0; k < s->nfront; k++)
            known = known || s->front[k] == event->front[i];
        if (!known)
            front[n++] = event->front[i];
    }
    free(s->front);
    s->front = front;
    s->nfront = n;
    return cudaSuccess;
}

/* --- API --- */
static cudaError_t begin(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct CUstream_st *s = emu_stream_of(stream, "cudaStreamBeginCapture");
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (s == emu_devices[s->device].default_stream)
        return cudaErrorStreamCaptureUnsupported;
    if (s->capture)
        return cudaErrorIllegalState;
    struct emu_capture *capture = emu_alloc(sizeof *capture);
    capture->graph = emu_graph_new();
    capture->origin = s;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->refs = 1;
    capture->next = captures;
    captures = capture;
    join_capture(s, capture);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    EMU_CUDA_ENTER(cudaStreamBeginCapture);
    emu_lock();
    cudaError_t error = begin(stream, mode);
    emu_unlock();
    return emu_return(error);
}

/* Takes every stream out of the capture. */
static void close_capture(struct emu_capture *capture)
{
    for (int d = 0; d < emu_settings.devices; d++)
        for (struct CUstream_st *s = emu_devices[d].streams; s; s = s->next)
            if (s->capture == capture) {
                s->capture = NULL;
                s->nfront = 0;
            }
    struct emu_capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    capture->origin = NULL;
    drop(capture);
}

/* The stream is about to go. Without the stream that began it nobody can end a capture. */
void emu_capture_leave(struct CUstream_st *s)
{
    struct emu_capture *capture = s->capture;
    capture->spoiled = true;
    s->capture = NULL;
    if (capture->origin != s)
        return;
    emu_report("capture", "cudaStreamDestroy of a stream that captures; call cudaStreamEndCapture first");
    emu_graph_free(capture->graph);
    close_capture(capture);
}

static cudaError_t end(cudaStream_t stream, cudaGraph_t *out)
{
    struct CUstream_st *s = emu_stream_of(stream, "cudaStreamEndCapture");
    if (!s)
        return cudaErrorInvalidResourceHandle;
    struct emu_capture *capture = s->capture;
    if (!capture)
        return cudaErrorIllegalState;
    if (capture->origin != s)
        return cudaErrorStreamCaptureUnmatched;
    if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    struct CUgraph_st *graph = capture->graph;
    bool spoiled = capture->spoiled, joined = emu_graph_is_joined(graph, s->front, s->nfront);
    close_capture(capture);
    if (!spoiled && joined) {
        *out = graph;
        return cudaSuccess;
    }
    emu_graph_free(graph);
    if (spoiled)
        return cudaErrorStreamCaptureInvalidated;
    emu_report("capture",
               "cudaStreamEndCapture: a stream that joined the capture has work that the first stream does not "
               "wait for; record an event there and let the first stream wait for it");
    return cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    EMU_CUDA_ENTER(cudaStreamEndCapture);
    if (!out)
        return emu_return(cudaErrorInvalidValue);
    *out = NULL;
    emu_lock();
    cudaError_t error = end(stream, out);
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    EMU_CUDA_ENTER(cudaStreamIsCapturing);
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, "cudaStreamIsCapturing");
    cudaError_t error = s ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (s)
        *status = !s->capture           ? cudaStreamCaptureStatusNone
                  : s->capture->spoiled ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    EMU_CUDA_ENTER(cudaThreadExchangeStreamCaptureMode);
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}
