#include "spmd/cuda/cuda_ctx.h"

/* The block at the source, zeros elsewhere. */
extern "C" spmd_status spmd__keep_at_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const size_t bytes = spmd__view_bytes(&args->in[0]);
    void *out = args->out[0].data;
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (bytes == 0)
        return SPMD_OK;
    if (spmd__axes_index(ctx, &args->attr->axes) == args->attr->i[0])
        return spmd__cuda_check(cudaMemcpyAsync(out, args->in[0].data, bytes, cudaMemcpyDeviceToDevice, stream),
                                "keep_at");
    return spmd__cuda_check(cudaMemsetAsync(out, 0, bytes, stream), "keep_at");
}
