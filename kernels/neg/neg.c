/* neg: -x. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__neg_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void neg_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = -x[i];
}

static spmd_status neg_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, neg_loop);
}

static spmd_status neg_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    (void)call;
    return need[0] ? spmd_neg(ctx, ct, &gin[0]) : SPMD_OK;
}

static const spmd_op neg_op = {
    .name = "neg",
    .shape = spmd__unary_shape,
    .grad = neg_grad,
    .host = neg_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__neg_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 1,
};

spmd_status spmd_neg(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &neg_op, NULL, x, 1, out, 1);
}
