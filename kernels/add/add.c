/* add: a + b. Linear in both inputs jointly, so partial sums may be added before they are reduced. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include "spmd/linear.h"

spmd_status spmd__add_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void add_loop(const float *a, const float *b, float *y, int64_t n)
{
    SPMD_SAME_PLACE
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

SPMD_CLONES static void add_loop_i32(const int32_t *a, const int32_t *b, int32_t *y, int64_t n)
{
    SPMD_SAME_PLACE
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
}

static spmd_status add_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__arith_host(args, add_loop, add_loop_i32);
}

static spmd_status add_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    for (int k = 0; k < 2; k++)
        if (need[k])
            SPMD_TRY(spmd__sum_to(ctx, ct, &call->in[k], &gin[k]));
    return SPMD_OK;
}

static const spmd_op add_op = {
    .name = "add",
    .shape = spmd__arith_shape,
    .grad = add_grad,
    .host = add_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__add_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 3,
    .joint = true,
    .in_place = true,
};

spmd_status spmd_add(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    const spmd_tensor in[] = {*a, *b};
    return spmd__emit(ctx, &add_op, NULL, in, 2, out, 1);
}

spmd_status spmd__linear_add(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    return spmd_add(ctx, a, b, out);
}
