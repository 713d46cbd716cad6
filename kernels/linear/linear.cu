#include "kernels/linear/affine.h"

/* The bias is added by the product itself. */
extern "C" spmd_status spmd__linear_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = args->in, *out = &args->out[0];
    const spmd__gemm_case c = spmd__affine_case(args, out->dtype);
    return spmd__gemm_cuda(ctx, &c, in[0].data, in[1].data, in[2].data, NULL, out->data);
}
