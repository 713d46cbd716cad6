/* cudart: devices, peers, attributes. The device is a small Hopper. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_runtime.h"

enum {
    SMEM_BLOCK = 48 << 10,
    SMEM_BLOCK_OPTIN = 227 << 10,
    SMEM_MULTIPROCESSOR = 228 << 10,
    THREADS_BLOCK = 1024,
    THREADS_MULTIPROCESSOR = 2048,
    CAPABILITY_MAJOR = 9,
    CAPABILITY_MINOR = 0,
};

cudaError_t cudaGetDeviceCount(int *count)
{
    EMU_CUDA_ENTER(cudaGetDeviceCount);
    *count = emu_settings.devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    EMU_CUDA_ENTER(cudaSetDevice);
    if (!emu_valid_device(device))
        return emu_return(cudaErrorInvalidDevice);
    emu_set_current_device(device);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    EMU_CUDA_ENTER(cudaGetDevice);
    *device = emu_current_device();
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    EMU_CUDA_ENTER(cudaDriverGetVersion);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    EMU_CUDA_ENTER(cudaRuntimeGetVersion);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    EMU_CUDA_ENTER(cudaGetDeviceProperties);
    if (!emu_valid_device(device))
        return emu_return(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Emulated GPU %d", device);
    p->totalGlobalMem = emu_memory_total();
    p->sharedMemPerBlock = SMEM_BLOCK;
    p->sharedMemPerBlockOptin = SMEM_BLOCK_OPTIN;
    p->sharedMemPerMultiprocessor = SMEM_MULTIPROCESSOR;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = THREADS_BLOCK;
    p->maxThreadsPerMultiProcessor = THREADS_MULTIPROCESSOR;
    p->maxBlocksPerMultiProcessor = 32;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = CAPABILITY_MAJOR;
    p->minor = CAPABILITY_MINOR;
    p->multiProcessorCount = EMU_MULTIPROCESSORS;
    p->asyncEngineCount = 2;
    p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = p->cooperativeLaunch = 1;
    p->memoryPoolsSupported = p->streamPrioritiesSupported = 1;
    p->l2CacheSize = 1 << 20;
    p->pciBusID = device + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    EMU_CUDA_ENTER(cudaDeviceGetAttribute);
    static const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } attributes[] = {
        {cudaDevAttrMultiProcessorCount, EMU_MULTIPROCESSORS},
        {cudaDevAttrMaxThreadsPerBlock, THREADS_BLOCK},
        {cudaDevAttrMaxThreadsPerMultiProcessor, THREADS_MULTIPROCESSOR},
        {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
        {cudaDevAttrMaxSharedMemoryPerBlock, SMEM_BLOCK},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, SMEM_BLOCK_OPTIN},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, SMEM_MULTIPROCESSOR},
        {cudaDevAttrMaxRegistersPerBlock, 65536},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxGridDimX, 0x7fffffff},
        {cudaDevAttrMaxGridDimY, 65535},
        {cudaDevAttrMaxGridDimZ, 65535},
        {cudaDevAttrComputeCapabilityMajor, CAPABILITY_MAJOR},
        {cudaDevAttrComputeCapabilityMinor, CAPABILITY_MINOR},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrAsyncEngineCount, 2},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrMemoryPoolsSupported, 1},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrL2CacheSize, 1 << 20},
        {cudaDevAttrClockRate, 1000000},
        {cudaDevAttrMemoryClockRate, 1000000},
        {cudaDevAttrGlobalMemoryBusWidth, 64},
    };
    if (!value || !emu_valid_device(device))
        return emu_return(value ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    EMU_CUDA_ENTER(cudaDeviceGetPCIBusId);
    if (!emu_valid_device(device))
        return emu_return(cudaErrorInvalidDevice);
    snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    EMU_CUDA_ENTER(cudaDeviceGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* --- peers --- */
bool emu_peer_allowed(int from, int to)
{
    return from == to || (__atomic_load_n(&emu_devices[from].peers, __ATOMIC_RELAXED) >> to & 1);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    EMU_CUDA_ENTER(cudaDeviceCanAccessPeer);
    if (!emu_valid_device(device) || !emu_valid_device(peer))
        return emu_return(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int device, int peer)
{
    EMU_CUDA_ENTER(cudaDeviceGetP2PAttribute);
    if (!emu_valid_device(device) || !emu_valid_device(peer) || device == peer)
        return emu_return(cudaErrorInvalidDevice);
    *value = attribute == cudaDevP2PAttrAccessSupported || attribute == cudaDevP2PAttrNativeAtomicSupported;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    EMU_CUDA_ENTER(cudaDeviceEnablePeerAccess);
    int device = emu_current_device();
    if (!emu_valid_device(peer) || peer == device || flags)
        return emu_return(flags ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
    uint64_t before = __atomic_fetch_or(&emu_devices[device].peers, (uint64_t)1 << peer, __ATOMIC_RELAXED);
    return emu_return(before >> peer & 1 ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    EMU_CUDA_ENTER(cudaDeviceDisablePeerAccess);
    int device = emu_current_device();
    if (!emu_valid_device(peer))
        return emu_return(cudaErrorInvalidDevice);
    uint64_t before = __atomic_fetch_and(&emu_devices[device].peers, ~((uint64_t)1 << peer), __ATOMIC_RELAXED);
    return emu_return(before >> peer & 1 ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

/* --- kernels --- */
static struct limit {
    const void *kernel;
    size_t smem;
} * limits;
static int nlimits;

static struct limit *limit_of(const void *kernel)
{
    for (int i = 0; i < nlimits; i++)
        if (limits[i].kernel == kernel)
            return &limits[i];
    return NULL;
}

size_t emu_smem_limit(const void *kernel)
{
    emu_lock();
    const struct limit *limit = limit_of(kernel);
    size_t smem = limit ? limit->smem : SMEM_BLOCK;
    emu_unlock();
    return smem;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    EMU_CUDA_ENTER(cudaFuncSetAttribute);
    if (!kernel)
        return emu_return(cudaErrorInvalidDeviceFunction);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess; /* hints */
    if (value < 0 || value > SMEM_BLOCK_OPTIN)
        return emu_return(cudaErrorInvalidValue);
    emu_lock();
    struct limit *limit = limit_of(kernel);
    if (!limit) {
        limits = emu_resize(limits, sizeof *limits * (size_t)(nlimits + 1));
        limit = &limits[nlimits++];
        limit->kernel = kernel;
    }
    limit->smem = (size_t)value;
    emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    EMU_CUDA_ENTER(cudaFuncGetAttributes);
    if (!attributes || !kernel)
        return emu_return(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = THREADS_BLOCK;
    attributes->maxDynamicSharedSizeBytes = (int)emu_smem_limit(kernel);
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = 10 * CAPABILITY_MAJOR + CAPABILITY_MINOR;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t smem)
{
    EMU_CUDA_ENTER(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
    if (!blocks || !kernel || threads <= 0 || threads > THREADS_BLOCK)
        return emu_return(cudaErrorInvalidValue);
    *blocks = THREADS_MULTIPROCESSOR / threads;
    size_t by_smem = smem ? SMEM_MULTIPROCESSOR / smem : 32;
    if ((size_t)*blocks > by_smem)
        *blocks = (int)by_smem;
    if (*blocks > 32)
        *blocks = 32;
    return cudaSuccess;
}
