/* sigmoid: 1 / (1 + e^-x). */
#include "kernels/gelu_math.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__sigmoid_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void sigmoid_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 1.0f / (1.0f + spmd__exp_f32(-x[i]));
}

static spmd_status sigmoid_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, sigmoid_loop);
}

/* (y - y^2) ct */
static spmd_status sigmoid_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                spmd_tensor *gin)
{
    spmd_tensor slope;
    if (!need[0])
        return SPMD_OK;
    SPMD_TRY(spmd_square(ctx, &call->out[0], &slope));
    SPMD_TRY(spmd_sub(ctx, &call->out[0], &slope, &slope));
    return spmd_mul(ctx, ct, &slope, &gin[0]);
}

static const spmd_op sigmoid_op = {
    .name = "sigmoid",
    .shape = spmd__unary_shape,
    .grad = sigmoid_grad,
    .host = sigmoid_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__sigmoid_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_sigmoid(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &sigmoid_op, NULL, x, 1, out, 1);
}
