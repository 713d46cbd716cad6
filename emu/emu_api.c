/* The entry of every API function: start at the first call, ordered failures (emu_fail), last errors. */
#include <cublasLt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "emu/emu_runtime.h"

#define NAME(name) #name,
static const char *const names[] = {EMU_APIS(NAME)};

/* Every listed function exists: else this does not link. */
#define ADDRESS(name) (void (*)(void)) name,
__attribute__((used)) static void (*const functions[])(void) = {EMU_CUDA_APIS(ADDRESS) EMU_BLAS_APIS(ADDRESS)
                                                                    EMU_NCCL_APIS(ADDRESS)};

static struct ordered {
    atomic_int left; /* calls until it fails; 0: none is ordered */
    int error;
} ordered[EMU_API_COUNT];
static atomic_int orders; /* how many are left: usually none, and a call costs one load */

static _Thread_local cudaError_t last_error;

const char *emu_api_name(emu_api api)
{
    return names[api];
}

const char *emu_function(int index)
{
    return index >= 0 && index < EMU_API_COUNT ? names[index] : NULL;
}

static int find(const char *function)
{
    for (int i = 0; i < EMU_API_COUNT; i++)
        if (!strcmp(names[i], function))
            return i;
    return -1;
}

void emu_fail(const char *function, int nth, int error)
{
    int api = find(function);
    if (api < 0)
        emu_fatal("emu_fail: '%s' is not a function that the emulator provides; emu_function lists them", function);
    if (atomic_exchange(&ordered[api].left, 0))
        atomic_fetch_sub(&orders, 1);
    if (nth <= 0)
        return;
    ordered[api].error = error;
    atomic_fetch_add(&orders, 1);
    atomic_store(&ordered[api].left, nth);
}

int emu_fail_left(const char *function)
{
    int api = find(function);
    return api < 0 ? 0 : atomic_load(&ordered[api].left);
}

bool emu_enter(emu_api api, int *error)
{
    emu_init();
    *error = 0;
    if (!atomic_load(&orders))
        return false;
    int left = atomic_load(&ordered[api].left);
    while (left && !atomic_compare_exchange_weak(&ordered[api].left, &left, left - 1))
        ;
    if (left != 1)
        return false;
    atomic_fetch_sub(&orders, 1);
    *error = ordered[api].error;
    return true;
}

bool emu_injected(const char *function, cudaError_t *error)
{
    int api = find(function), code;
    bool injected = api >= 0 && emu_enter((emu_api)api, &code);
    if (injected)
        *error = (cudaError_t)code;
    return injected;
}

cudaError_t emu_return(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static cudaError_t sticky_here(void)
{
    if (!emu_devices)
        return cudaSuccess;
    emu_lock();
    cudaError_t error = emu_devices[emu_current_device()].sticky;
    emu_unlock();
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error, sticky = sticky_here();
    last_error = cudaSuccess;
    return sticky != cudaSuccess ? sticky : error;
}

cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t sticky = sticky_here();
    return sticky != cudaSuccess ? sticky : last_error;
}

#define ERRORS(X)                                                                                                     \
    X(cudaSuccess, "no error")                                                                                        \
    X(cudaErrorInvalidValue, "invalid argument")                                                                      \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                     \
    X(cudaErrorInitializationError, "initialization error")                                                           \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                \
    X(cudaErrorInvalidPitchValue, "invalid pitch argument")                                                           \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                                           \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")                    \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                        \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                               \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                                                      \
    X(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device")                    \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                      \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")                                \
    X(cudaErrorNotReady, "device not ready")                                                                          \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                                            \
    X(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                                       \
    X(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                                              \
    X(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                                            \
    X(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")                                              \
    X(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices")                       \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")            \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                  \
    X(cudaErrorMisalignedAddress, "misaligned address")                                                               \
    X(cudaErrorAssert, "device-side assert triggered")                                                                \
    X(cudaErrorLaunchFailure, "unspecified launch failure")                                                           \
    X(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch")                                    \
    X(cudaErrorNotPermitted, "operation not permitted")                                                               \
    X(cudaErrorNotSupported, "operation not supported")                                                               \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                          \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                   \
    X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")                 \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")                        \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                           \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                     \
    X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream") \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")              \
    X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")  \
    X(cudaErrorUnknown, "unknown error")

const char *cudaGetErrorName(cudaError_t error)
{
#define CASE(code, text) \
    case code:           \
        return #code;
    switch (error) {
        ERRORS(CASE)
    default:
        return "unrecognized error code";
    }
#undef CASE
}

const char *cudaGetErrorString(cudaError_t error)
{
#define CASE(code, text) \
    case code:           \
        return text;
    switch (error) {
        ERRORS(CASE)
    default:
        return "unrecognized error code";
    }
#undef CASE
}
