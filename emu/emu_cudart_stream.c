/* cudart: streams and events. */
#include <stdlib.h>
#include "emu/emu_runtime.h"

/* --- streams --- */
static cudaError_t create(cudaStream_t *out, unsigned flags, int priority, const char *call)
{
    if (!out || flags & ~(unsigned)cudaStreamNonBlocking)
        return cudaErrorInvalidValue;
    if (emu_capture_forbids(call))
        return cudaErrorStreamCaptureUnsupported;
    int device = emu_current_device();
    emu_lock();
    cudaError_t error = emu_devices[device].sticky;
    if (!error) {
        *out = emu_stream_new(device, flags, priority, false);
        emu_born(EMU_STREAM);
    }
    emu_unlock();
    return error;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    EMU_CUDA_ENTER(cudaStreamCreate);
    return emu_return(create(out, cudaStreamDefault, 0, "cudaStreamCreate"));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    EMU_CUDA_ENTER(cudaStreamCreateWithFlags);
    return emu_return(create(out, flags, 0, "cudaStreamCreateWithFlags"));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    EMU_CUDA_ENTER(cudaStreamCreateWithPriority);
    return emu_return(create(out, flags, priority, "cudaStreamCreateWithPriority"));
}

/* Returns at once; what is on the stream still runs. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaStreamDestroy);
    emu_lock();
    struct CUstream_st *s = stream ? emu_stream_of(stream, "cudaStreamDestroy") : NULL;
    cudaError_t error = cudaSuccess;
    if (!s || s == emu_devices[s->device].default_stream) {
        error = cudaErrorInvalidResourceHandle;
    } else {
        if (s->capture)
            emu_capture_leave(s);
        s->destroyed = true;
        emu_died(EMU_STREAM);
        if (!s->head)
            emu_stream_delete(s);
    }
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaStreamSynchronize);
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, "cudaStreamSynchronize");
    cudaError_t error = s ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (s && s->capture) {
        emu_capture_spoil(s);
        error = cudaErrorStreamCaptureUnsupported;
    }
    emu_unlock();
    if (!error && emu_capture_forbids("cudaStreamSynchronize"))
        error = cudaErrorStreamCaptureUnsupported;
    if (error)
        return emu_return(error);
    emu_lock();
    int device = s->device;
    error = emu_wait_stream(s, "cudaStreamSynchronize");
    error = error ? error : emu_devices[device].sticky;
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaStreamQuery);
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, "cudaStreamQuery");
    cudaError_t error = s ? emu_devices[s->device].sticky : cudaErrorInvalidResourceHandle;
    if (s && s->capture) {
        emu_capture_spoil(s);
        error = cudaErrorStreamCaptureUnsupported;
    } else if (!error && s->tail) {
        emu_demand(s->tail);
        error = cudaErrorNotReady;
    } else if (!error) {
        emu_clock_join(&emu_host.clock, &s->clock);
    }
    emu_unlock();
    if (error == cudaErrorNotReady) {
        emu_yield();
        return error; /* no error for cudaGetLastError */
    }
    return emu_return(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    EMU_CUDA_ENTER(cudaDeviceSynchronize);
    if (emu_capture_forbids("cudaDeviceSynchronize"))
        return emu_return(cudaErrorStreamCaptureUnsupported);
    emu_lock();
    int device = emu_current_device();
    cudaError_t error = emu_wait_device(device, "cudaDeviceSynchronize");
    error = error ? error : emu_devices[device].sticky;
    emu_unlock();
    return emu_return(error);
}

static cudaError_t look_up(cudaStream_t stream, const char *call, struct CUstream_st *copy)
{
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, call);
    if (s)
        *copy = *s;
    emu_unlock();
    return s ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
    EMU_CUDA_ENTER(cudaStreamGetFlags);
    struct CUstream_st s = {0};
    cudaError_t error = look_up(stream, "cudaStreamGetFlags", &s);
    *flags = s.flags;
    return emu_return(error);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    EMU_CUDA_ENTER(cudaStreamGetPriority);
    struct CUstream_st s = {0};
    cudaError_t error = look_up(stream, "cudaStreamGetPriority", &s);
    *priority = s.priority;
    return emu_return(error);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    EMU_CUDA_ENTER(cudaStreamGetDevice);
    struct CUstream_st s = {0};
    cudaError_t error = look_up(stream, "cudaStreamGetDevice", &s);
    *device = s.device;
    return emu_return(error);
}

/* --- events --- */
static cudaError_t create_event(cudaEvent_t *out, unsigned flags)
{
    if (!out)
        return cudaErrorInvalidValue;
    *out = emu_alloc(sizeof **out);
    (*out)->device = emu_current_device();
    (*out)->flags = flags;
    emu_born(EMU_EVENT);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    EMU_CUDA_ENTER(cudaEventCreate);
    return emu_return(create_event(out, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    EMU_CUDA_ENTER(cudaEventCreateWithFlags);
    return emu_return(create_event(out, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    EMU_CUDA_ENTER(cudaEventDestroy);
    if (!event)
        return emu_return(cudaErrorInvalidResourceHandle);
    emu_lock();
    emu_op_drop(event->last);
    emu_capture_forget(event);
    emu_unlock();
    free(event);
    emu_died(EMU_EVENT);
    return cudaSuccess;
}

/* The moment at which the work before the event was done. */
static void note_time(emu_op *op, void *args)
{
    (void)op;
    *(double *)args = emu_seconds();
}

static cudaError_t record(cudaEvent_t event, cudaStream_t stream)
{
    struct CUstream_st *s = event ? emu_stream_of(stream, "cudaEventRecord") : NULL;
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (event->device != s->device) {
        emu_report("device",
                   "cudaEventRecord: the event belongs to device %d, the stream to device %d; create it while "
                   "the stream's device is current",
                   event->device, s->device);
        return cudaErrorInvalidResourceHandle;
    }
    emu_op_drop(event->last);
    event->last = NULL;
    event->polls = 0;
    emu_capture_forget(event);
    if (s->capture)
        return emu_capture_record(s, event);
    if (emu_devices[s->device].sticky)
        return emu_devices[s->device].sticky;
    double time = 0;
    emu_work work = {.kind = EMU_MARK, .name = "event record", .args = &time, .size = sizeof time};
    work.fn = event->flags & cudaEventDisableTiming ? NULL : note_time;
    event->last = emu_issue(s, &work, NULL, 0);
    emu_op_keep(event->last);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaEventRecord);
    emu_lock();
    cudaError_t error = record(event, stream);
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    EMU_CUDA_ENTER(cudaEventRecordWithFlags);
    (void)flags;
    emu_lock();
    cudaError_t error = record(event, stream);
    emu_unlock();
    return emu_return(error);
}

static cudaError_t wait_event(cudaStream_t stream, cudaEvent_t event)
{
    struct CUstream_st *s = event ? emu_stream_of(stream, "cudaStreamWaitEvent") : NULL;
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (event->capture || s->capture)
        return emu_capture_wait(s, event);
    if (emu_devices[s->device].sticky)
        return emu_devices[s->device].sticky;
    emu_work work = {.kind = EMU_MARK, .name = "event wait"};
    if (event->last) /* an event that was never recorded holds nobody up */
        (void)emu_issue(s, &work, &event->last, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    EMU_CUDA_ENTER(cudaStreamWaitEvent);
    (void)flags;
    emu_lock();
    cudaError_t error = wait_event(stream, event);
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    EMU_CUDA_ENTER(cudaEventSynchronize);
    if (!event)
        return emu_return(cudaErrorInvalidResourceHandle);
    if (emu_capture_forbids("cudaEventSynchronize"))
        return emu_return(cudaErrorStreamCaptureUnsupported);
    emu_lock();
    cudaError_t error = event->capture ? cudaErrorCapturedEvent : emu_wait(event->last, "cudaEventSynchronize");
    error = error ? error : emu_devices[event->device].sticky;
    emu_unlock();
    return emu_return(error);
}

/* Answers "not ready" a few times even for what would be ready, and then sees to it. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    EMU_CUDA_ENTER(cudaEventQuery);
    if (!event)
        return emu_return(cudaErrorInvalidResourceHandle);
    if (emu_capture_forbids("cudaEventQuery"))
        return emu_return(cudaErrorStreamCaptureUnsupported);
    emu_lock();
    emu_op *op = event->last;
    cudaError_t error = event->capture ? cudaErrorCapturedEvent : emu_devices[event->device].sticky;
    if (!error && op && !op->done) {
        if (++event->polls > emu_hash(emu_settings.seed, op->order, 3) % 4)
            emu_demand(op);
        error = cudaErrorNotReady;
    } else if (!error && op) {
        emu_clock_join(&emu_host.clock, &op->clock);
    }
    emu_unlock();
    if (error == cudaErrorNotReady) {
        emu_yield();
        return error;
    }
    return emu_return(error);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    EMU_CUDA_ENTER(cudaEventElapsedTime);
    if (!milliseconds || !start || !end)
        return emu_return(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    emu_lock();
    if (!start->last || !end->last || (start->flags | end->flags) & cudaEventDisableTiming)
        error = cudaErrorInvalidResourceHandle;
    else if (!start->last->done || !end->last->done)
        error = cudaErrorNotReady;
    else
        *milliseconds = (float)(1e3 * (*(double *)end->last->args - *(double *)start->last->args));
    emu_unlock();
    return emu_return(error);
}
