/* square: x * x. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__square_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void square_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * x[i];
}

static spmd_status square_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, square_loop);
}

static spmd_status square_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    if (!need[0])
        return SPMD_OK;
    SPMD_TRY(spmd_scale(ctx, ct, 2, &gin[0]));
    return spmd_mul(ctx, &gin[0], &call->in[0], &gin[0]);
}

static const spmd_op square_op = {
    .name = "square",
    .shape = spmd__unary_shape,
    .grad = square_grad,
    .host = square_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__square_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_square(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &square_op, NULL, x, 1, out, 1);
}
