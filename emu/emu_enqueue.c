/* From an API function to a stream: what is allowed, and whether it is captured. */
#include <stdlib.h>
#include "emu/emu_runtime.h"

static cudaError_t enqueue(struct CUstream_st *s, const emu_work *work)
{
    if (s->capture)
        return emu_capture_work(s, work);
    if (s == emu_devices[s->device].default_stream && !emu_capture_allows_default(s->device, work->name))
        return cudaErrorStreamCaptureImplicit;
    if (work->kind == EMU_KERNEL && s->device != emu_current_device()) {
        emu_report("device",
                   "%s is launched on a stream of device %d while device %d is current; call cudaSetDevice(%d) "
                   "before",
                   work->name, s->device, emu_current_device(), s->device);
        return cudaErrorInvalidResourceHandle;
    }
    if (emu_devices[s->device].sticky != cudaSuccess)
        return emu_devices[s->device].sticky;
    (void)emu_issue(s, work, NULL, 0);
    return cudaSuccess;
}

cudaError_t emu_enqueue_work(cudaStream_t stream, const emu_work *work)
{
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, work->name);
    cudaError_t error = s ? enqueue(s, work) : cudaErrorInvalidResourceHandle;
    emu_unlock();
    return error;
}

cudaError_t emu_enqueue(cudaStream_t stream, emu_op_kind kind, const char *name, emu_op_fn *fn, const void *args,
                        size_t size)
{
    emu_work work = {.kind = kind, .name = name, .fn = fn, .args = args, .size = size};
    return emu_enqueue_work(stream, &work);
}

bool emu_wrong_device(const char *call, int device, cudaStream_t stream)
{
    int current = emu_current_device();
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, call);
    int of_stream = s ? s->device : -1;
    emu_unlock();
    if (s && of_stream == device && current == device)
        return false;
    if (s)
        emu_report("device",
                   "%s: the handle belongs to device %d, the stream to device %d, and device %d is current; "
                   "all three must be the same",
                   call, device, of_stream, current);
    return true;
}

void emu_use(emu_op *op, const void *p, size_t size, bool write)
{
    if (!size)
        return;
    if (emu_place_of(p) == EMU_ELSEWHERE) {
        emu_lock();
        bool pinned = emu_is_pinned(p);
        emu_unlock();
        if (pinned)
            return;
        emu_report("memcheck",
                   "%s is given %p, %zu bytes of host memory that devices cannot reach; pass memory of "
                   "cudaMalloc or cudaMallocHost",
                   op->name, p, size);
        op->error = cudaErrorIllegalAddress;
    } else if (write) {
        emu_check_write(op, p, size);
    } else {
        emu_check_read(op, p, size);
    }
}

/* Counts what the host knows, not what has run: the answer must not depend on the order of execution. */
void emu_check_idle_of_collectives(int device, const char *call)
{
    for (struct CUstream_st *s = emu_devices[device].streams; s; s = s->next)
        if (s->collective && emu_clock_at(&emu_host.clock, s->lane) < s->collective) {
            emu_report("nccl",
                       "%s on device %d while a collective may be in flight there: it waits for the device, which "
                       "can deadlock with ranks that have not started theirs; allocate before the first step, or "
                       "synchronize",
                       call, device);
            return;
        }
}

struct host_call {
    cudaHostFn_t fn;
    void *user;
};

static void call_host(emu_op *op, void *args)
{
    (void)op;
    const struct host_call *call = args;
    call->fn(call->user);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *user)
{
    EMU_CUDA_ENTER(cudaLaunchHostFunc);
    if (!fn)
        return emu_return(cudaErrorInvalidValue);
    struct host_call call = {fn, user};
    return emu_return(emu_enqueue(stream, EMU_HOST_FUNCTION, "host function", call_host, &call, sizeof call));
}
