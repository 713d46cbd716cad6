/* relu: max(x, 0); NaN stays NaN. The gradient is one pass, and linear in the cotangent: its own gradient is itself. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__relu_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__relu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void relu_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] <= 0 ? 0 : x[i];
}

static spmd_status relu_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, relu_loop);
}

SPMD_CLONES static void relu_grad_loop(const float *restrict y, const float *restrict ct, float *restrict g, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        g[i] = y[i] > 0 ? ct[i] : 0;
}

static spmd_status relu_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__binary_host(args, relu_grad_loop);
}

static spmd_status relu_grad_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin);

/* relu_grad(relu(x), ct) = ct where relu(x) > 0 */
static const spmd_op relu_grad_op = {
    .name = "relu_grad",
    .shape = spmd__binary_shape,
    .grad = relu_grad_grad,
    .host = relu_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__relu_grad_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 2,
};

static spmd_status relu_grad_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    const spmd_tensor in[] = {call->in[0], *ct};
    return need[1] ? spmd__emit(ctx, &relu_grad_op, NULL, in, 2, &gin[1], 1) : SPMD_OK;
}

static spmd_status relu_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    const spmd_tensor in[] = {call->out[0], *ct};
    return need[0] ? spmd__emit(ctx, &relu_grad_op, NULL, in, 2, &gin[0], 1) : SPMD_OK;
}

static const spmd_op relu_op = {
    .name = "relu",
    .shape = spmd__unary_shape,
    .grad = relu_grad,
    .host = relu_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__relu_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_relu(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &relu_op, NULL, x, 1, out, 1);
}
