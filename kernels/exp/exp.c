/* exp: e^x. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include "kernels/gelu_math.h"

spmd_status spmd__exp_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void exp_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = spmd__exp_f32(x[i]);
}

static spmd_status exp_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, exp_loop);
}

static spmd_status exp_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    return need[0] ? spmd_mul(ctx, ct, &call->out[0], &gin[0]) : SPMD_OK;
}

static const spmd_op exp_op = {
    .name = "exp",
    .shape = spmd__unary_shape,
    .grad = exp_grad,
    .host = exp_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__exp_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_exp(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &exp_op, NULL, x, 1, out, 1);
}
