#include "spmd/cuda.cuh"
#include "spmd/cuda/cuda_ctx.h"
#include <stdint.h>

namespace
{
__global__ void index_kernel(int32_t *out, int32_t index)
{
    *out = index;
}
} // namespace

extern "C" spmd_status spmd__axis_index_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    SPMD_LAUNCH((index_kernel), 1, 1, 0, stream, (int32_t *)args->out[0].data,
                spmd__axes_index(ctx, &args->attr->axes));
    return spmd__cuda_check(cudaGetLastError(), "axis_index");
}
