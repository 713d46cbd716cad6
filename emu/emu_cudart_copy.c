/* cudart: copies and fills. */
#include <stdlib.h>
#include <string.h>
#include "emu/emu_runtime.h"

/* Rows of `width` bytes; one row for a plain copy. With `staged`, the source's bytes follow the struct: pageable memory
 * is read before the call returns. */
struct copy {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, rows;
    bool staged;
};

static void run_copy(emu_op *op, void *args)
{
    const struct copy *c = args;
    const char *from = c->staged ? (const char *)(c + 1) : c->from;
    size_t from_pitch = c->staged ? c->width : c->from_pitch;
    for (size_t row = 0; row < c->rows; row++)
        emu_check_copy(op, (char *)c->to + row * c->to_pitch, from + row * from_pitch, c->width);
    for (size_t row = 0; row < c->rows && !op->error; row++)
        memcpy((char *)c->to + row * c->to_pitch, from + row * from_pitch, c->width);
}

static bool on_device(const void *p)
{
    int place = emu_place_of(p);
    return place != EMU_ELSEWHERE && place != emu_memory.devices;
}

/* Does the direction fit the pointers? With unified addresses the real one looks at them, too. */
static cudaError_t check_direction(const struct copy *c, enum cudaMemcpyKind kind)
{
    bool from_device = on_device(c->from), to_device = on_device(c->to);
    bool fits = kind == cudaMemcpyDefault || (kind == cudaMemcpyHostToHost && !from_device && !to_device) ||
                (kind == cudaMemcpyHostToDevice && !from_device && to_device) ||
                (kind == cudaMemcpyDeviceToHost && from_device && !to_device) ||
                (kind == cudaMemcpyDeviceToDevice && from_device && to_device);
    if (!c->to || !c->from)
        return cudaErrorInvalidValue;
    if (fits)
        return cudaSuccess;
    emu_report("memcheck",
               "copy of %zu bytes from %p (%s) to %p (%s) with cudaMemcpyKind %d; use cudaMemcpyDefault or "
               "the right direction",
               c->width * c->rows, c->from, from_device ? "device" : "host", c->to, to_device ? "device" : "host",
               (int)kind);
    return cudaErrorInvalidValue;
}

static const char *name_of(const struct copy *c)
{
    return on_device(c->from) ? on_device(c->to) ? "copy device to device" : "copy device to host"
           : on_device(c->to) ? "copy host to device"
                              : "copy host to host";
}

static bool is_pageable(const void *p)
{
    return !on_device(p) && !emu_is_pinned(p);
}

static cudaError_t enqueue_staged(const struct copy *c, cudaStream_t stream, const char *name)
{
    size_t size = sizeof *c + c->width * c->rows;
    struct copy *staged = emu_alloc(size);
    *staged = *c;
    staged->staged = true;
    for (size_t row = 0; row < c->rows; row++)
        memcpy((char *)(staged + 1) + row * c->width, (const char *)c->from + row * c->from_pitch, c->width);
    cudaError_t error = emu_enqueue(stream, EMU_COPY, name, run_copy, staged, size);
    free(staged);
    return error;
}

static cudaError_t copy_async(const struct copy *c, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (!c->width || !c->rows)
        return cudaSuccess;
    cudaError_t error = check_direction(c, kind);
    if (error)
        return error;
    emu_lock();
    bool from_pageable = is_pageable(c->from), to_pageable = is_pageable(c->to);
    struct CUstream_st *s = emu_stream_of(stream, name_of(c));
    bool captured = s && s->capture && (from_pageable || to_pageable);
    if (captured) {
        emu_capture_spoil(s);
        emu_report("pinned",
                   "%s of pageable memory %p during a capture; use cudaMallocHost for buffers that a graph copies",
                   name_of(c), from_pageable ? c->from : c->to);
    }
    emu_unlock();
    if (captured || !s)
        return captured ? cudaErrorStreamCaptureUnsupported : cudaErrorInvalidResourceHandle;
    if (from_pageable)
        error = enqueue_staged(c, stream, name_of(c));
    else
        error = emu_enqueue(stream, EMU_COPY, name_of(c), run_copy, c, sizeof *c);
    if (error || !to_pageable)
        return error;
    emu_lock(); /* pageable memory: the call returns when the bytes are there */
    error = emu_wait_stream(s, "cudaMemcpyAsync to pageable memory");
    error = error ? error : emu_devices[s->device].sticky;
    emu_unlock();
    return error;
}

static struct copy plain(void *to, const void *from, size_t size)
{
    return (struct copy){.to = to, .from = from, .to_pitch = size, .from_pitch = size, .width = size, .rows = 1};
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaMemcpyAsync);
    struct copy c = plain(to, from, size);
    return emu_return(copy_async(&c, kind, stream));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaMemcpy2DAsync);
    if (to_pitch < width || from_pitch < width)
        return emu_return(cudaErrorInvalidPitchValue);
    struct copy c = {to, from, to_pitch, from_pitch, width, rows, false};
    return emu_return(copy_async(&c, kind, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size,
                                cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaMemcpyPeerAsync);
    if (!emu_valid_device(to_device) || !emu_valid_device(from_device))
        return emu_return(cudaErrorInvalidDevice);
    if (size && (emu_place_of(to) != to_device || emu_place_of(from) != from_device)) {
        emu_report("device",
                   "cudaMemcpyPeerAsync: to %p, said to be on device %d, is on %d; from %p, said to be on device "
                   "%d, is on %d",
                   to, to_device, emu_place_of(to), from, from_device, emu_place_of(from));
        return emu_return(cudaErrorInvalidValue);
    }
    struct copy c = plain(to, from, size);
    return emu_return(copy_async(&c, cudaMemcpyDeviceToDevice, stream));
}

/* The real one waits for the device unless it copies from device to device, or from pageable memory: that is staged,
 * and streams that do not wait for the default stream may still overtake it. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    EMU_CUDA_ENTER(cudaMemcpy);
    if (emu_capture_forbids("cudaMemcpy"))
        return emu_return(cudaErrorStreamCaptureUnsupported);
    struct copy c = plain(to, from, size);
    cudaError_t error = copy_async(&c, kind, NULL);
    if (error || !size || (on_device(from) && on_device(to)))
        return emu_return(error);
    emu_lock();
    struct CUstream_st *s = emu_devices[emu_current_device()].default_stream;
    if (!is_pageable(from))
        error = emu_wait_stream(s, "cudaMemcpy");
    error = error ? error : emu_devices[s->device].sticky;
    emu_unlock();
    return emu_return(error);
}

struct fill {
    void *to;
    int value;
    size_t size;
};

static void run_fill(emu_op *op, void *args)
{
    const struct fill *f = args;
    emu_check_write(op, f->to, f->size);
    if (!op->error)
        memset(f->to, f->value, f->size);
}

static cudaError_t fill_async(void *to, int value, size_t size, cudaStream_t stream)
{
    if (!size)
        return cudaSuccess;
    emu_lock();
    bool pageable = is_pageable(to);
    emu_unlock();
    if (pageable) {
        emu_report("memcheck", "cudaMemset of %p, which is not device memory", to);
        return cudaErrorInvalidValue;
    }
    struct fill f = {to, value, size};
    return emu_enqueue(stream, EMU_COPY, "memset", run_fill, &f, sizeof f);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaMemsetAsync);
    return emu_return(fill_async(to, value, size, stream));
}

cudaError_t cudaMemset(void *to, int value, size_t size) /* does not wait either */
{
    EMU_CUDA_ENTER(cudaMemset);
    return emu_return(emu_capture_forbids("cudaMemset") ? cudaErrorStreamCaptureUnsupported
                                                        : fill_async(to, value, size, NULL));
}
