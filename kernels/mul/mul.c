/* mul: a * b. Linear in either input, not in both: a partial value times a whole one is partial. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__mul_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void mul_loop(const float *restrict a, const float *restrict b, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

SPMD_CLONES static void mul_loop_i32(const int32_t *restrict a, const int32_t *restrict b, int32_t *restrict y,
                                     int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)a[i] * (uint32_t)b[i]);
}

static spmd_status mul_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__arith_host(args, mul_loop, mul_loop_i32);
}

static spmd_status mul_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    for (int k = 0; k < 2; k++) {
        if (need[k]) {
            SPMD_TRY(spmd_mul(ctx, ct, &call->in[1 - k], &gin[k]));
            SPMD_TRY(spmd__sum_to(ctx, &gin[k], &call->in[k], &gin[k]));
        }
    }
    return SPMD_OK;
}

static const spmd_op mul_op = {
    .name = "mul",
    .shape = spmd__arith_shape,
    .grad = mul_grad,
    .host = mul_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__mul_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .linear = 3,
};

spmd_status spmd_mul(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    const spmd_tensor in[] = {*a, *b};
    return spmd__emit(ctx, &mul_op, NULL, in, 2, out, 1);
}
