/* scale: x * factor, a C constant. A factor of 0 writes 0 whatever x holds: switching a term off must not let its NaN
 * through. The factor is rounded to f32, as an f32 scalar tensor would be. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__scale_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void scale_loop(const float *x, float factor, float *y, int64_t n)
{
    SPMD_SAME_PLACE
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

static spmd_status scale_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    int64_t count = spmd_view_count(x);
    float factor = (float)args->attr->f[0], tile[SPMD__TILE], y_tile[SPMD__TILE];
    (void)ctx;
    if (factor == 0) {
        spmd__encode(y->dtype, 0, tile);
        spmd__splat(tile, spmd_dtype_size(y->dtype), count, y->data);
        return SPMD_OK;
    }
    if (x->dtype == SPMD_F32) {
        scale_loop(x->data, factor, y->data, count);
        return SPMD_OK;
    }
    for (int64_t i = 0; i < count; i += SPMD__TILE) {
        int64_t n = count - i < SPMD__TILE ? count - i : SPMD__TILE;
        spmd__widen(x->dtype, spmd__element(x->data, x->dtype, i), n, tile);
        scale_loop(tile, factor, y_tile, n);
        spmd__narrow(y->dtype, y_tile, n, spmd__element(y->data, y->dtype, i));
    }
    return SPMD_OK;
}

static spmd_status scale_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin)
{
    return need[0] ? spmd_scale(ctx, ct, call->attr.f[0], &gin[0]) : SPMD_OK;
}

static const spmd_op scale_op = {
    .name = "scale",
    .shape = spmd__unary_shape,
    .grad = scale_grad,
    .host = scale_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__scale_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 1,
    .in_place = true,
};

spmd_status spmd_scale(spmd_ctx *ctx, const spmd_tensor *x, double factor, spmd_tensor *out)
{
    spmd_attr attr = {0};
    attr.f[0] = factor;
    return spmd__emit(ctx, &scale_op, &attr, x, 1, out, 1);
}
