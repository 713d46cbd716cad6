/* gelu, tanh form. Forward and fused gradient share spmd__gelu2; the compiler drops the half that a loop leaves unused.
 */
#include "kernels/gelu_math.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__gelu_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__gelu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void gelu_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float slope;
        spmd__gelu2(x[i], &y[i], &slope);
    }
}

static spmd_status gelu_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, gelu_loop);
}

SPMD_CLONES static void gelu_grad_loop(const float *restrict x, const float *restrict ct, float *restrict g, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float y, slope;
        spmd__gelu2(x[i], &y, &slope);
        g[i] = ct[i] * slope;
    }
}

static spmd_status gelu_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__binary_host(args, gelu_grad_loop);
}

static const spmd_op gelu_grad_op = {
    .name = "gelu_grad",
    .shape = spmd__binary_shape,
    .host = gelu_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__gelu_grad_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 2,
};

static spmd_status gelu_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    const spmd_tensor in[] = {call->in[0], *ct};
    return need[0] ? spmd__emit(ctx, &gelu_grad_op, NULL, in, 2, &gin[0], 1) : SPMD_OK;
}

static const spmd_op gelu_op = {
    .name = "gelu",
    .shape = spmd__unary_shape,
    .grad = gelu_grad,
    .host = gelu_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__gelu_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_gelu(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &gelu_op, NULL, x, 1, out, 1);
}
