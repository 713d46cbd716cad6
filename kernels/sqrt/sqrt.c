/* sqrt: exactly rounded; NaN below 0. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include <math.h>

spmd_status spmd__sqrt_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void sqrt_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = sqrtf(x[i]);
}

static spmd_status sqrt_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, sqrt_loop);
}

static spmd_status sqrt_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    if (!need[0])
        return SPMD_OK;
    SPMD_TRY(spmd_scale(ctx, ct, 0.5, &gin[0]));
    return spmd_div(ctx, &gin[0], &call->out[0], &gin[0]);
}

static const spmd_op sqrt_op = {
    .name = "sqrt",
    .shape = spmd__unary_shape,
    .grad = sqrt_grad,
    .host = sqrt_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__sqrt_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_sqrt(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &sqrt_op, NULL, x, 1, out, 1);
}
