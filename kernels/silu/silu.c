/* silu: x sigmoid(x). The gradient is fused: one exp and one division an element instead of five passes. */
#include "kernels/gelu_math.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__silu_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__silu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

/* x is clamped below, where silu is 0 in f32 anyway: -inf times 0 would be NaN. */
static inline float clamp_below(float x)
{
    return x < -100.0f ? -100.0f : x;
}

SPMD_CLONES static void silu_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = clamp_below(x[i]) / (1.0f + spmd__exp_f32(-x[i]));
}

static spmd_status silu_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, silu_loop);
}

/* s (1 + x (1 - s)), with x clamped above too: there 1 - s is 0 and inf times 0 would be NaN. */
SPMD_CLONES static void silu_grad_loop(const float *restrict x, const float *restrict ct, float *restrict g, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float low = clamp_below(x[i]), c = low > 100.0f ? 100.0f : low;
        float s = 1.0f / (1.0f + spmd__exp_f32(-c));
        g[i] = ct[i] * (s * (1.0f + c * (1.0f - s)));
    }
}

static spmd_status silu_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__binary_host(args, silu_grad_loop);
}

static const spmd_op silu_grad_op = {
    .name = "silu_grad",
    .shape = spmd__binary_shape,
    .host = silu_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__silu_grad_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 2,
};

static spmd_status silu_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    const spmd_tensor in[] = {call->in[0], *ct};
    return need[0] ? spmd__emit(ctx, &silu_grad_op, NULL, in, 2, &gin[0], 1) : SPMD_OK;
}

static const spmd_op silu_op = {
    .name = "silu",
    .shape = spmd__unary_shape,
    .grad = silu_grad,
    .host = silu_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__silu_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_silu(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &silu_op, NULL, x, 1, out, 1);
}
