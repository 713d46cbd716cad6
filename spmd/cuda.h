/* Backend "cuda" from the inside, for shard functions that call CUDA, cuBLAS or NCCL themselves. Include it on top of
 * spmdkit.h where you need it; the types are CUDA's own, so a cudaStream_t may be used directly.
 *
 * On backend "cuda" a shard's thread has its GPU current, and spmd_local gives device memory. Put work on the shard's
 * stream and wait for nothing. While a jit records, spmd_local is refused: use spmd_custom with .cuda.
 *
 * Read by spmd_mesh_create: SPMD_CUDA_MEMORY (MiB that each device keeps for the values of a launch; default: half of
 * what is free), SPMD_CUDA_TRANSPORT (auto, p2p, nccl, copy). A mesh with more shards than GPUs puts several on a GPU.
 */
#ifndef SPMD_CUDA_H
#define SPMD_CUDA_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct cublasLtContext;
struct ncclComm;

/* spmd_cuda_stream - the shard's cudaStream_t; NULL on other backends. Local. */
SPMD_API struct CUstream_st *spmd_cuda_stream(spmd_ctx *ctx);
/* spmd_cuda_blas - the device's cublasLtHandle_t; NULL on other backends. Local. */
SPMD_API struct cublasLtContext *spmd_cuda_blas(spmd_ctx *ctx);
/* spmd_cuda_comm - the ncclComm_t of one axis, or of all of them ("x,y"); ranks are the axis indices, row-major. All
 * members must make the same calls in the same order, with a collective of spmdkit or a barrier before each.   Local.
 * Errors: EAXIS; EUNSUPPORTED where there is none: on other backends, where shards share a GPU, with a transport other
 * than auto and nccl, where NCCL did not start, over an axis of one shard, and over some of several axes. */
SPMD_API spmd_status spmd_cuda_comm(spmd_ctx *ctx, const char *axes, struct ncclComm **out);

/* What is there, without a mesh: GPUs that this process may use. */
typedef struct spmd_cuda_gpu {
    char name[128];
    int major, minor; /* compute capability */
    int processors;
    size_t memory, free; /* bytes */
    uint64_t peers;      /* bit k: kernels can touch the memory of GPU k */
} spmd_cuda_gpu;

/* spmd_cuda_gpus - how many GPUs, and the first `most` of them; 0 without a GPU, a driver, or backend "cuda" in this
 * build, and then spmd_last_error says which.   Local; it starts CUDA, so not before a fork. */
SPMD_API int spmd_cuda_gpus(spmd_cuda_gpu *gpus, int most);
/* "cuda 13.0, cublasLt 13.0, nccl 2.28.9", "emulated" in front if so; NULL if not in this build. Local. */
SPMD_API const char *spmd_cuda_versions(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
