/* maximum: the larger of a and b; NaN wins. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include "spmd/linear.h"

spmd_status spmd__maximum_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void maximum_loop(const float *restrict a, const float *restrict b, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i]; /* a NaN in b fails both tests */
}

SPMD_CLONES static void maximum_loop_i32(const int32_t *restrict a, const int32_t *restrict b, int32_t *restrict y,
                                         int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] > b[i] ? a[i] : b[i];
}

static spmd_status maximum_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__arith_host(args, maximum_loop, maximum_loop_i32);
}

/* The larger operand takes the cotangent, equal ones half each. Selects, not products with 0, 1/2 or 1: an infinite
 * cotangent must not become NaN where it does not belong. */
static spmd_status maximum_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                spmd_tensor *gin)
{
    spmd_tensor zero, half, tie, share, largest;
    SPMD_TRY(spmd__linear_fill(ctx, ct, 0, &zero));
    SPMD_TRY(spmd_scale(ctx, ct, 0.5, &half));
    SPMD_TRY(spmd_equal(ctx, &call->in[0], &call->in[1], &tie));
    SPMD_TRY(spmd_where(ctx, &tie, &half, ct, &share));
    for (int k = 0; k < 2; k++) {
        if (need[k]) {
            SPMD_TRY(spmd_equal(ctx, &call->in[k], &call->out[0], &largest));
            SPMD_TRY(spmd_where(ctx, &largest, &share, &zero, &gin[k]));
            SPMD_TRY(spmd__sum_to(ctx, &gin[k], &call->in[k], &gin[k]));
        }
    }
    return SPMD_OK;
}

static const spmd_op maximum_op = {
    .name = "maximum",
    .shape = spmd__arith_shape,
    .grad = maximum_grad,
    .host = maximum_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__maximum_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_maximum(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    const spmd_tensor in[] = {*a, *b};
    return spmd__emit(ctx, &maximum_op, NULL, in, 2, out, 1);
}
