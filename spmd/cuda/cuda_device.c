/* Devices of backend cuda: which GPU, its streams, events and memory; from the first to the last CUDA call of a mesh.
 *
 * All that a launch needs is made here, because nothing may be created while a collective is in flight: the driver
 * would wait for the device, and the device for a peer that waits for the driver. */
#include "spmd/cuda/cuda_comms.h"
#include <stdlib.h>
#include <string.h>

enum { STAGING = 1 << 20, MIB = 1 << 20 };

/* Bytes of values a device, from the environment, which has MiB; 0: not set. */
static spmd_status wanted_memory(size_t *bytes)
{
    const char *text = getenv("SPMD_CUDA_MEMORY");
    char *end = NULL;
    long mib = text ? strtol(text, &end, 10) : 0;
    *bytes = (size_t)mib * MIB;
    SPMD_CHECK(!text || (*text && !*end && mib > 0), SPMD_EINVAL,
               "SPMD_CUDA_MEMORY='%s': expected the MiB that a device keeps for the values of a launch", text);
    return SPMD_OK;
}

/* Half of what is free: the other half is for arrays and programs. Emulated memory is the host's. */
static spmd_status half_of_free(const spmd_mesh *mesh, size_t *bytes)
{
    const spmd_cuda_mesh *state = mesh->backend_state;
    size_t free_bytes = 0, total = 0;
    SPMD_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total));
    int shards = (mesh->ndevices + state->gpus - 1) / state->gpus;
    *bytes = free_bytes / 2 / (size_t)shards / MIB * MIB;
#ifdef SPMD_EMU
    *bytes = *bytes < 256 * MIB ? *bytes : 256 * MIB;
#endif
    return SPMD_OK;
}

spmd_status spmd__cuda_prepare(spmd_mesh *mesh)
{
    int gpus = 0;
    cudaError_t error = cudaGetDeviceCount(&gpus);
    SPMD_CHECK(
        error == cudaSuccess && gpus > 0, SPMD_EUNSUPPORTED,
        "backend 'cuda' finds no GPU here (%s: %s): see whether nvidia-smi lists one and the driver is new enough "
        "for CUDA %d.%d, or use backend \"host\"",
        cudaGetErrorName(error), error == cudaSuccess ? "none is visible" : cudaGetErrorString(error),
        CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
    spmd_cuda_mesh *state = calloc(1, sizeof *state);
    SPMD_CHECK(state, SPMD_ENOMEM, "out of memory for the mesh's CUDA devices");
    mesh->backend_state = state;
    state->gpus = gpus;
    for (int d = 0; d < mesh->ndevices; d++) {
        state->device[d].gpu = mesh->ndevices <= gpus ? d : d * gpus / mesh->ndevices;
        pthread_mutex_init(&state->device[d].staging_lock, NULL);
    }
    if (mesh->ndevices > gpus)
        spmd__log(mesh, NULL, "backend cuda: %d shards share %d GPU%s", mesh->ndevices, gpus, gpus == 1 ? "" : "s");
    SPMD_TRY(wanted_memory(&state->values));
    return state->values ? SPMD_OK : half_of_free(mesh, &state->values);
}

void spmd__cuda_release(spmd_mesh *mesh)
{
    spmd_cuda_mesh *state = mesh->backend_state;
    for (int d = 0; state && d < mesh->ndevices; d++)
        pthread_mutex_destroy(&state->device[d].staging_lock);
    free(state);
}

static spmd_status enable_peers(const spmd_device *device)
{
    const spmd_mesh *mesh = device->mesh;
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    for (int d = 0; d < mesh->ndevices; d++) {
        int gpu = spmd__cuda_of(&mesh->devices[d])->gpu, can = gpu == cuda->gpu;
        if (!can)
            SPMD_CUDA_TRY(cudaDeviceCanAccessPeer(&can, cuda->gpu, gpu));
        if (can)
            cuda->reach |= (uint64_t)1 << d;
        if (!can || gpu == cuda->gpu)
            continue;
        cudaError_t error = cudaDeviceEnablePeerAccess(gpu, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError(); /* another mesh did it: no error to be found later */
        else
            SPMD_CUDA_TRY(error);
    }
    return SPMD_OK;
}

static spmd_status make_events(const spmd_device *device)
{
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    for (int signal = 0; signal < SPMD_CUDA_SIGNALS; signal++)
        for (int mask = 1; mask < 1 << device->mesh->naxes; mask++)
            SPMD_CUDA_TRY(cudaEventCreateWithFlags(&cuda->events[signal][mask], cudaEventDisableTiming));
    SPMD_CUDA_TRY(cudaEventCreateWithFlags(&cuda->fork, cudaEventDisableTiming));
    for (int k = 0; k < SPMD_CUDA_JOINS; k++)
        SPMD_CUDA_TRY(cudaEventCreateWithFlags(&cuda->joins[k], cudaEventDisableTiming));
    return SPMD_OK;
}

static spmd_status take_slab(spmd_device *device)
{
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    size_t bytes = ((spmd_cuda_mesh *)device->mesh->backend_state)->values;
    cudaError_t error = cudaMalloc(&cuda->slab, bytes);
    SPMD_CHECK(error == cudaSuccess, SPMD_ENOMEM,
               "device %d: GPU %d has no %zu MiB for values (%s): set SPMD_CUDA_MEMORY to fewer MiB", device->id,
               cuda->gpu, bytes / MIB, cudaGetErrorName(error));
    spmd_chunk *chunk = spmd__alloc(device->mesh, sizeof *chunk);
    if (!chunk)
        return SPMD_ENOMEM;
    *chunk = (spmd_chunk){.memory = cuda->slab, .size = bytes};
    device->data = (spmd_arena){.mesh = device->mesh, .fixed = bytes, .first = chunk, .current = chunk};
    return SPMD_OK;
}

spmd_status spmd__cuda_open(spmd_device *device)
{
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    SPMD_CUDA_TRY(cudaSetDevice(cuda->gpu));
    SPMD_CUDA_TRY(cudaDeviceGetAttribute(&cuda->processors, cudaDevAttrMultiProcessorCount, cuda->gpu));
    SPMD_CUDA_TRY(cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking));
    SPMD_CUDA_TRY(cudaStreamCreateWithFlags(&cuda->copies, cudaStreamNonBlocking));
    SPMD_CUDA_TRY(cudaStreamCreateWithFlags(&cuda->second, cudaStreamNonBlocking));
    cuda->stream = cuda->compute;
    SPMD_TRY(make_events(device));
    SPMD_TRY(enable_peers(device));
    SPMD_CUBLAS_TRY(cublasLtCreate(&cuda->blas));
    SPMD_CUDA_TRY(cudaMallocHost((void **)&cuda->staging, STAGING));
    SPMD_CUDA_TRY(cudaMallocHost((void **)&cuda->note, sizeof *cuda->note));
    *cuda->note = (spmd_cuda_note){0};
    SPMD_TRY(take_slab(device));
    snprintf(device->place + strlen(device->place), sizeof device->place - strlen(device->place), ", GPU %d",
             cuda->gpu);
    return SPMD_OK;
}

/* Nothing is in flight: every launch has waited for its stream. Failures here would have nobody to go to. */
void spmd__cuda_close(spmd_device *device)
{
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    spmd__cuda_disconnect(device);
    spmd__free(device->data.first);
    device->data = (spmd_arena){0};
    (void)cudaFree(cuda->slab);
    (void)cudaFreeHost(cuda->staging);
    (void)cudaFreeHost(cuda->note);
    if (cuda->blas)
        (void)cublasLtDestroy(cuda->blas);
    for (int signal = 0; signal < SPMD_CUDA_SIGNALS; signal++)
        for (int mask = 0; mask < 1 << SPMD_MAX_AXES; mask++)
            if (cuda->events[signal][mask])
                (void)cudaEventDestroy(cuda->events[signal][mask]);
    for (int k = 0; k < SPMD_CUDA_JOINS; k++)
        if (cuda->joins[k])
            (void)cudaEventDestroy(cuda->joins[k]);
    if (cuda->fork)
        (void)cudaEventDestroy(cuda->fork);
    if (cuda->second)
        (void)cudaStreamDestroy(cuda->second);
    if (cuda->copies)
        (void)cudaStreamDestroy(cuda->copies);
    if (cuda->compute)
        (void)cudaStreamDestroy(cuda->compute);
}

/* --- memory --- */
static void *cuda_alloc(spmd_device *device, size_t bytes)
{
    int before = 0;
    void *memory = NULL;
    cudaError_t error = cudaGetDevice(&before);
    if (error == cudaSuccess)
        error = cudaSetDevice(spmd__cuda_of(device)->gpu);
    if (error == cudaSuccess)
        error = cudaMalloc(&memory, bytes ? bytes : 1);
    (void)cudaSetDevice(before);
    if (error == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    SPMD_FAIL(SPMD_ENOMEM,
              "out of memory: %zu bytes wanted on GPU %d (%s); use smaller blocks, more devices, or set "
              "SPMD_CUDA_MEMORY so that less is kept for values",
              bytes, spmd__cuda_of(device)->gpu, cudaGetErrorName(error));
    return NULL;
}

static void cuda_free(void *memory)
{
    (void)cudaFree(memory);
}

/* Through pinned memory, piece by piece. Either `remote` is written from `host`, or the other way round. */
static spmd_status through_staging(spmd_cuda_device *cuda, char *remote, char *host, size_t bytes, bool to_remote)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < STAGING ? bytes - at : STAGING;
        if (to_remote) {
            memcpy(cuda->staging, host + at, n);
            SPMD_CUDA_TRY(cudaMemcpyAsync(remote + at, cuda->staging, n, cudaMemcpyHostToDevice, cuda->copies));
        } else
            SPMD_CUDA_TRY(cudaMemcpyAsync(cuda->staging, remote + at, n, cudaMemcpyDeviceToHost, cuda->copies));
        SPMD_CUDA_TRY(cudaStreamSynchronize(cuda->copies));
        if (!to_remote)
            memcpy(host + at, cuda->staging, n);
    }
    return SPMD_OK;
}

/* From any thread: its own current device stays as it was. */
static spmd_status transfer(spmd_device *device, char *remote, char *host, size_t bytes, bool to_remote)
{
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    int before;
    SPMD_CUDA_TRY(cudaGetDevice(&before));
    SPMD_CUDA_TRY(cudaSetDevice(cuda->gpu));
    pthread_mutex_lock(&cuda->staging_lock);
    spmd_status status = through_staging(cuda, remote, host, bytes, to_remote);
    pthread_mutex_unlock(&cuda->staging_lock);
    (void)cudaSetDevice(before);
    return status;
}

static spmd_status cuda_put(spmd_device *device, void *to, const void *from, size_t bytes)
{
    return transfer(device, to, (char *)from, bytes, true);
}

static spmd_status cuda_get(spmd_device *device, void *to, const void *from, size_t bytes)
{
    return transfer(device, (char *)from, to, bytes, false);
}

static spmd_status cuda_copy(spmd_ctx *ctx, void *to, const void *from, size_t bytes)
{
    if (bytes)
        SPMD_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, spmd__cuda_stream(ctx)));
    return SPMD_OK;
}

const spmd_remote spmd__cuda_memory = {
    .alloc = cuda_alloc, .free = cuda_free, .put = cuda_put, .get = cuda_get, .copy = cuda_copy};
