/* sum over dimensions. */
#include "kernels/kernels.h"
#include "kernels/reduce.h"

spmd_status spmd__sum_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status sum_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__reduce_host(args, (unsigned)args->attr->i[0], &spmd__fold_sum, 1);
}

static spmd_status sum_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    return need[0] ? spmd__unreduce(ctx, call, ct, &gin[0]) : SPMD_OK;
}

static const spmd_op sum_op = {
    .name = "sum",
    .shape = spmd__reduce_shape,
    .grad = sum_grad,
    .host = sum_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__sum_cuda),
    .cost = spmd__reduce_cost,
    .rule = spmd__reduce_rule,
    .linear = 1,
};

spmd_status spmd_sum(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep, spmd_tensor *out)
{
    return spmd__emit_reduction(ctx, &sum_op, x, dims, n, keep, out);
}
