/* linear: x w + bias. The bias goes into the product's own last step, so that bf16 is rounded once. */
#include "kernels/kernels.h"
#include "kernels/linear/affine.h"

spmd_status spmd__linear_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status linear_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    return spmd__affine_shape("linear", call, &call->out[0]);
}

static spmd_status linear_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    SPMD_TRY(spmd__affine_grad(ctx, call, &ct[0], need, gin));
    if (need[2]) {
        const int rows[SPMD_MAX_RANK] = {0, 1, 2, 3, 4, 5};
        SPMD_TRY(spmd_sum(ctx, &ct[0], rows, ct[0].rank - 1, false, &gin[2]));
    }
    return SPMD_OK;
}

static spmd_status linear_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd__affine_product(ctx, args, args->in[2].data, args->out[0].dtype, args->out[0].data);
}

static const spmd_op linear_op = {
    .name = "linear",
    .shape = linear_shape,
    .grad = linear_grad,
    .host = linear_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__linear_cuda),
    .cost = spmd__affine_cost,
    .rule = spmd__affine_rule,
    .sums = 3,
};

spmd_status spmd_linear(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w, const spmd_tensor *bias,
                        spmd_tensor *out)
{
    const spmd_tensor in[] = {*x, *w, *bias};
    return spmd__emit(ctx, &linear_op, NULL, in, 3, out, 1);
}
