#include "kernels/matmul/gemm.h"

extern "C" spmd_status spmd__matmul_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    const spmd__gemm_case c = spmd__matmul_case(args->attr, a, b, out);
    return spmd__gemm_cuda(ctx, &c, a->data, b->data, NULL, NULL, out->data);
}

/* The addend is read where it lies: the copy that an op out of place needs is cublasLt's. */
extern "C" spmd_status spmd__matmul_add_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *addend = &args->in[0], *a = &args->in[1], *b = &args->in[2], *out = &args->out[0];
    spmd__gemm_case c = spmd__matmul_case(args->attr, a, b, out);
    c.accumulate = true;
    return spmd__gemm_cuda(ctx, &c, a->data, b->data, NULL, addend->data, out->data);
}
