/* tanh. For |x| < 5/8 an odd polynomial (degree 11, 2e-8 relative before rounding), since 1 - 2 / (e^2|x| + 1) cancels
 * there; beyond it that formula. Both sides are computed and one selected: no branch, so the loop vectorizes. */
#include "kernels/gelu_math.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__tanh_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static inline float tanh_f32(float x)
{
    float size = x < 0 ? -x : x, z = x * x;
    float p = -0.006096714163f;
    p = p * z + 0.020997178997f;
    p = p * z - 0.053850909578f;
    p = p * z + 0.133327697370f;
    p = p * z - 0.333333289441f;
    float far = 1.0f - 2.0f / (spmd__exp_f32(2.0f * size) + 1.0f);
    return size < 0.625f ? x + x * z * p : x < 0 ? -far : far;
}

SPMD_CLONES static void tanh_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = tanh_f32(x[i]);
}

static spmd_status tanh_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, tanh_loop);
}

/* (1 - y^2) ct */
static spmd_status tanh_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    spmd_tensor squared;
    if (!need[0])
        return SPMD_OK;
    SPMD_TRY(spmd_square(ctx, &call->out[0], &squared));
    SPMD_TRY(spmd_mul(ctx, ct, &squared, &squared));
    return spmd_sub(ctx, ct, &squared, &gin[0]);
}

static const spmd_op tanh_op = {
    .name = "tanh",
    .shape = spmd__unary_shape,
    .grad = tanh_grad,
    .host = tanh_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__tanh_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_tanh(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &tanh_op, NULL, x, 1, out, 1);
}
