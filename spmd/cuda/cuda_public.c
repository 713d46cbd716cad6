/* The functions of spmd/cuda.h. */
#include "spmd/cuda.h"
#include "spmd/cuda/cuda_comms.h"
#include "spmd/cuda/cuda_overlap.h"
#include "spmd/host/meet.h"
#include <string.h>

static spmd_cuda_device *device_of(spmd_ctx *ctx)
{
    return ctx->mesh->backend == &spmd__backend_cuda ? spmd__cuda_of(ctx->device) : NULL;
}

struct CUstream_st *spmd_cuda_stream(spmd_ctx *ctx)
{
    const spmd_cuda_device *cuda = device_of(ctx);
    return cuda ? cuda->compute : NULL;
}

struct cublasLtContext *spmd_cuda_blas(spmd_ctx *ctx)
{
    const spmd_cuda_device *cuda = device_of(ctx);
    return cuda ? cuda->blas : NULL;
}

spmd_status spmd_cuda_comm(spmd_ctx *ctx, const char *text, struct ncclComm **out)
{
    spmd_axes axes;
    spmd_cuda_device *cuda = device_of(ctx);
    *out = NULL;
    SPMD_TRY(spmd__axes_parse(ctx->mesh, text, &axes));
    SPMD_CHECK(cuda, SPMD_EUNSUPPORTED, "spmd_cuda_comm on backend %s: only backend cuda has communicators",
               ctx->mesh->backend->name);
    *out = cuda->comm[spmd__group(ctx, &axes)->mask];
    SPMD_CHECK(
        *out, SPMD_EUNSUPPORTED,
        "spmd_cuda_comm over '%s': no such communicator; NCCL has one of each axis of 2 or more shards and one of all "
        "axes where every shard has a GPU of its own and SPMD_CUDA_TRANSPORT is auto or nccl",
        text);
    cuda->nccl_calls++; /* whoever asks enqueues, */
    cuda->collective = true;
    return spmd__cuda_join(ctx); /* on the shard's stream, and in the order of all collectives */
}

static spmd_status describe(int k, int n, spmd_cuda_gpu *gpu)
{
    struct cudaDeviceProp properties;
    size_t total;
    SPMD_CUDA_TRY(cudaGetDeviceProperties(&properties, k));
    *gpu = (spmd_cuda_gpu){.major = properties.major,
                           .minor = properties.minor,
                           .processors = properties.multiProcessorCount,
                           .memory = properties.totalGlobalMem};
    snprintf(gpu->name, sizeof gpu->name, "%.127s", properties.name);
    SPMD_CUDA_TRY(cudaSetDevice(k));
    SPMD_CUDA_TRY(cudaMemGetInfo(&gpu->free, &total));
    for (int other = 0; other < n && other < 64; other++) {
        int can = other == k;
        if (!can)
            SPMD_CUDA_TRY(cudaDeviceCanAccessPeer(&can, k, other));
        gpu->peers |= (uint64_t)(can != 0) << other;
    }
    return SPMD_OK;
}

int spmd_cuda_gpus(spmd_cuda_gpu *gpus, int most)
{
    int n = 0, before = 0;
    if (spmd__cuda_check(cudaGetDeviceCount(&n), "finding GPUs") != SPMD_OK)
        return 0;
    if (n == 0)
        SPMD_FAIL(SPMD_EUNSUPPORTED, "no GPU is visible");
    (void)cudaGetDevice(&before);
    for (int k = 0; k < n && k < most; k++)
        if (describe(k, n, &gpus[k]) != SPMD_OK)
            n = 0;
    (void)cudaSetDevice(before);
    return n;
}

const char *spmd_cuda_versions(char *text, size_t size)
{
    int cuda = 0, nccl = 0;
    (void)cudaRuntimeGetVersion(&cuda);
    (void)ncclGetVersion(&nccl);
#ifdef SPMD_EMU
    const char *kind = "emulated ";
#else
    const char *kind = "";
#endif
    snprintf(text, size, "%scuda %d.%d, cublasLt %d.%d, nccl %d.%d.%d", kind, cuda / 1000, cuda / 10 % 100,
             CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, nccl / 10000, nccl / 100 % 100, nccl % 100);
    return text;
}
