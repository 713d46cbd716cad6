/* The functions of spmd/cuda.h in a build without backend cuda. */
#include "spmd/cuda.h"

#ifndef SPMD_HAVE_CUDA
struct CUstream_st *spmd_cuda_stream(spmd_ctx *ctx)
{
    (void)ctx;
    return NULL;
}

struct cublasLtContext *spmd_cuda_blas(spmd_ctx *ctx)
{
    (void)ctx;
    return NULL;
}

spmd_status spmd_cuda_comm(spmd_ctx *ctx, const char *axes, struct ncclComm **out)
{
    (void)ctx;
    *out = NULL;
    return SPMD_FAIL(SPMD_EUNSUPPORTED, "spmd_cuda_comm over '%s': backend cuda is not in this build", axes);
}

int spmd_cuda_gpus(spmd_cuda_gpu *gpus, int most)
{
    (void)gpus;
    (void)most;
    SPMD_FAIL(SPMD_EUNSUPPORTED, "backend cuda is not in this build: configure with -DSPMD_CUDA=ON");
    return 0;
}

const char *spmd_cuda_versions(char *text, size_t size)
{
    (void)text;
    (void)size;
    return NULL;
}
#endif
