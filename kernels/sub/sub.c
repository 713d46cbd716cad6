/* sub: a - b. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__sub_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void sub_loop(const float *restrict a, const float *restrict b, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] - b[i];
}

SPMD_CLONES static void sub_loop_i32(const int32_t *restrict a, const int32_t *restrict b, int32_t *restrict y,
                                     int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)a[i] - (uint32_t)b[i]);
}

static spmd_status sub_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__arith_host(args, sub_loop, sub_loop_i32);
}

static spmd_status sub_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    if (need[0])
        SPMD_TRY(spmd__sum_to(ctx, ct, &call->in[0], &gin[0]));
    if (need[1]) { /* negated after the sum: fewer elements */
        SPMD_TRY(spmd__sum_to(ctx, ct, &call->in[1], &gin[1]));
        SPMD_TRY(spmd_neg(ctx, &gin[1], &gin[1]));
    }
    return SPMD_OK;
}

static const spmd_op sub_op = {
    .name = "sub",
    .shape = spmd__arith_shape,
    .grad = sub_grad,
    .host = sub_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__sub_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 3,
    .joint = true,
};

spmd_status spmd_sub(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    const spmd_tensor in[] = {*a, *b};
    return spmd__emit(ctx, &sub_op, NULL, in, 2, out, 1);
}
