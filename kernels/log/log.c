/* log: the natural logarithm, libm's: -inf at 0, NaN below. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include <math.h>

spmd_status spmd__log_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

SPMD_CLONES static void log_loop(const float *restrict x, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = logf(x[i]);
}

static spmd_status log_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__unary_host(args, log_loop);
}

static spmd_status log_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    return need[0] ? spmd_div(ctx, ct, &call->in[0], &gin[0]) : SPMD_OK;
}

static const spmd_op log_op = {
    .name = "log",
    .shape = spmd__unary_shape,
    .grad = log_grad,
    .host = log_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__log_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
};

spmd_status spmd_log(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &log_op, NULL, x, 1, out, 1);
}
