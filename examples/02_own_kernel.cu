/* The kernel of 02_own_kernel.c for backend "cuda": views hold device memory, work goes on the shard's stream, and
 * nobody waits. Built with -DSPMD_CUDA=EMU it runs on emulated devices, which check every access. */
#include "spmd/cuda.cuh"
#include "spmd/spmdkit.h"

enum { THREADS = 256 };

__global__ void swish_kernel(const float *x, const float *b, float *y, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] / (1 + expf(-*b * x[i]));
}

extern "C" spmd_status swish_cuda(const spmd_view *in, int nin, const spmd_view *out, int nout, void *stream,
                                  void *user)
{
    (void)nin, (void)nout, (void)user;
    int64_t n = spmd_view_count(&in[0]);
    if (n > 0)
        SPMD_LAUNCH((swish_kernel), (unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream,
                    (const float *)in[0].data, (const float *)in[1].data, (float *)out[0].data, n);
    cudaError_t error = cudaGetLastError();
    SPMD_CHECK(error == cudaSuccess, SPMD_ECUDA, "swish: %s", cudaGetErrorString(error));
    return SPMD_OK;
}
