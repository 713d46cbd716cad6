/* mean over dimensions: the sum, divided before it is rounded. The mean of nothing is NaN. */
#include "kernels/kernels.h"
#include "kernels/reduce.h"

spmd_status spmd__mean_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status mean_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const int64_t *attr = args->attr->i;
    (void)ctx;
    return spmd__reduce_host(args, (unsigned)attr[0], &spmd__fold_sum, (double)attr[2]);
}

static spmd_status mean_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    if (!need[0])
        return SPMD_OK;
    SPMD_TRY(spmd_scale(ctx, ct, 1.0 / (double)call->attr.i[2], &gin[0]));
    return spmd__unreduce(ctx, call, &gin[0], &gin[0]);
}

static const spmd_op mean_op = {
    .name = "mean",
    .shape = spmd__reduce_shape,
    .grad = mean_grad,
    .host = mean_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__mean_cuda),
    .cost = spmd__reduce_cost,
    .rule = spmd__reduce_rule,
    .linear = 1,
};

spmd_status spmd_mean(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep, spmd_tensor *out)
{
    return spmd__emit_reduction(ctx, &mean_op, x, dims, n, keep, out);
}
