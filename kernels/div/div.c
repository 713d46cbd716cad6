/* div: a / b, linear in a. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__div_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void div_loop(const float *restrict a, const float *restrict b, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] / b[i];
}

static spmd_status div_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__binary_host(args, div_loop);
}

/* d(a/b) = da / b - (a/b) / b db */
static spmd_status div_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    spmd_tensor quotient;
    SPMD_TRY(spmd_div(ctx, ct, &call->in[1], &quotient));
    if (need[0])
        SPMD_TRY(spmd__sum_to(ctx, &quotient, &call->in[0], &gin[0]));
    if (need[1]) {
        SPMD_TRY(spmd_mul(ctx, &quotient, &call->out[0], &gin[1]));
        SPMD_TRY(spmd__sum_to(ctx, &gin[1], &call->in[1], &gin[1]));
        SPMD_TRY(spmd_neg(ctx, &gin[1], &gin[1]));
    }
    return SPMD_OK;
}

static const spmd_op div_op = {
    .name = "div",
    .shape = spmd__binary_shape,
    .grad = div_grad,
    .host = div_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__div_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 1,
};

spmd_status spmd_div(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    const spmd_tensor in[] = {*a, *b};
    return spmd__emit(ctx, &div_op, NULL, in, 2, out, 1);
}
