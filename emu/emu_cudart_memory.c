/* cudart: allocation. */
#include <stdlib.h>
#include "emu/emu_runtime.h"

static cudaError_t allocate(int slot, size_t size, const char *call, void **out)
{
    if (!out)
        return cudaErrorInvalidValue;
    *out = NULL;
    if (emu_capture_forbids(call))
        return cudaErrorStreamCaptureUnsupported;
    int device = emu_current_device();
    emu_lock();
    cudaError_t error = emu_devices[device].sticky;
    if (error == cudaSuccess) {
        emu_check_idle_of_collectives(device, call);
        if (size)
            error = emu_memory_new(slot, size, call, out);
    }
    emu_unlock();
    return error;
}

cudaError_t cudaMalloc(void **out, size_t size)
{
    EMU_CUDA_ENTER(cudaMalloc);
    return emu_return(allocate(emu_current_device(), size, "cudaMalloc", out));
}

cudaError_t cudaMallocHost(void **out, size_t size)
{
    EMU_CUDA_ENTER(cudaMallocHost);
    return emu_return(allocate(emu_memory.devices, size, "cudaMallocHost", out));
}

cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags)
{
    EMU_CUDA_ENTER(cudaHostAlloc);
    (void)flags;
    return emu_return(allocate(emu_memory.devices, size, "cudaHostAlloc", out));
}

/* Frees after everything that the device (for pinned memory: every device) was given, as the real one does. */
static cudaError_t release(void *p, const char *call)
{
    if (!p)
        return cudaSuccess;
    if (emu_capture_forbids(call))
        return cudaErrorStreamCaptureUnsupported;
    emu_lock();
    int place = emu_place_of(p), device = place == emu_memory.devices ? emu_current_device() : place;
    cudaError_t error = cudaSuccess;
    if (place == EMU_ELSEWHERE) {
        emu_report("free", "%s of %p, which CUDA did not allocate", call, p);
        error = cudaErrorInvalidValue;
    } else {
        emu_check_idle_of_collectives(device, call);
        error = emu_wait_device(device, call);
        cudaError_t freed = emu_memory_delete(p, call);
        error = error ? error : freed;
    }
    if (!error)
        error = emu_devices[device].sticky;
    emu_unlock();
    return error;
}

cudaError_t cudaFree(void *p)
{
    EMU_CUDA_ENTER(cudaFree);
    return emu_return(release(p, "cudaFree"));
}

cudaError_t cudaFreeHost(void *p)
{
    EMU_CUDA_ENTER(cudaFreeHost);
    return emu_return(release(p, "cudaFreeHost"));
}

static bool is_capturing(cudaStream_t stream)
{
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, "stream-ordered allocation");
    bool capturing = s && s->capture;
    if (capturing) {
        emu_capture_spoil(s);
        emu_report("capture", "cudaMallocAsync or cudaFreeAsync during a capture would become a memory node, which the "
                              "emulator does not have; allocate before the capture");
    }
    emu_unlock();
    return capturing;
}

cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaMallocAsync);
    if (!out || is_capturing(stream))
        return emu_return(out ? cudaErrorStreamCaptureUnsupported : cudaErrorInvalidValue);
    *out = NULL;
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, "cudaMallocAsync");
    cudaError_t error = s ? emu_devices[s->device].sticky : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && size)
        error = emu_memory_new(s->device, size, "cudaMallocAsync", out);
    emu_unlock();
    return emu_return(error);
}

static void free_in_order(emu_op *op, void *args)
{
    char *p = *(void **)args, *start;
    size_t size;
    emu_lock();
    bool found = emu_memory_find(p, &start, &size) && start == p;
    emu_unlock();
    if (found)
        emu_check_write(op, p, size); /* every other use must have ended */
    emu_lock();
    (void)emu_memory_delete(p, "cudaFreeAsync");
    emu_unlock();
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaFreeAsync);
    if (!p)
        return cudaSuccess;
    if (is_capturing(stream))
        return emu_return(cudaErrorStreamCaptureUnsupported);
    return emu_return(emu_enqueue(stream, EMU_COPY, "cudaFreeAsync", free_in_order, &p, sizeof p));
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    EMU_CUDA_ENTER(cudaMemGetInfo);
    if (!available || !total)
        return emu_return(cudaErrorInvalidValue);
    emu_lock();
    *total = emu_memory_total();
    *available = *total - emu_memory_used(emu_current_device());
    emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
    EMU_CUDA_ENTER(cudaPointerGetAttributes);
    if (!attributes)
        return emu_return(cudaErrorInvalidValue);
    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = -2};
    emu_lock();
    char *start;
    size_t size;
    int place = emu_place_of(p);
    if (place != EMU_ELSEWHERE && emu_memory_find(p, &start, &size)) {
        bool pinned = place == emu_memory.devices;
        attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        attributes->device = pinned ? emu_current_device() : place;
        attributes->devicePointer = (void *)(uintptr_t)p;
        attributes->hostPointer = pinned ? (void *)(uintptr_t)p : NULL;
    } else if (place == EMU_ELSEWHERE && emu_is_pinned(p)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->device = emu_current_device();
        attributes->hostPointer = attributes->devicePointer = (void *)(uintptr_t)p;
    }
    emu_unlock();
    return cudaSuccess;
}
