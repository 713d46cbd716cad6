/* bias_gelu: gelu(x + bias). The derivative is computed with the value (they share an exp and a division) and kept, so
 * the backward pass is one multiplication. */
#include "kernels/bias_gelu/gelu_backprop.h"
#include "spmd/clones.h"
#include "kernels/gelu_math.h"
#include "kernels/kernels.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"

spmd_status spmd__bias_gelu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status bias_gelu_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *x = &call->in[0], *bias = &call->in[1];
    char xt[96], bt[96];
    spmd__shape_text(x, xt);
    spmd__shape_text(bias, bt);
    SPMD_TRY(spmd__check_float("bias_gelu", "x", x));
    SPMD_CHECK(bias->dtype == x->dtype, SPMD_EDTYPE, "bias_gelu: x is %s, bias is %s: expected one dtype; cast one", xt,
               bt);
    SPMD_CHECK(x->rank >= 1 && bias->rank == 1 && bias->shape[0] == x->shape[x->rank - 1], SPMD_ESHAPE,
               "bias_gelu: x is %s, bias is %s: expected x [.., n] and bias [n]", xt, bt);
    spmd__same_shape(&call->out[0], x);
    spmd__same_shape(&call->out[1], x);
    return SPMD_OK;
}

static spmd_status bias_gelu_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    (void)need; /* one pass makes both */
    return spmd__gelu_backprop(ctx, &ct[0], &call->out[1], &gin[0], &gin[1]);
}

SPMD_CLONES void spmd__bias_gelu_row(float *restrict y, const float *restrict bias, float *restrict slope, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        spmd__gelu2(y[i] + bias[i], &y[i], &slope[i]);
}

static spmd_status bias_gelu_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0], *slope = &args->out[1];
    int64_t n = spmd__row_length(x), rows = spmd__row_count(x);
    float *space = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(3 * n) * sizeof *space);
    SPMD_CHECK(space, SPMD_ENOMEM, "bias_gelu: no memory for rows of %lld: %s", (long long)n, spmd_last_error());
    const float *bias = spmd__read_f32(&args->in[1], 0, n, space);
    for (int64_t r = 0; r < rows; r++) {
        float *y_row = spmd__write_f32(y, r * n, space + n), *slope_row = spmd__write_f32(slope, r * n, space + 2 * n);
        spmd__widen(x->dtype, spmd__element(x->data, x->dtype, r * n), n, y_row);
        spmd__bias_gelu_row(y_row, bias, slope_row, n);
        spmd__wrote_f32(y, r * n, n, y_row);
        spmd__wrote_f32(slope, r * n, n, slope_row);
    }
    return SPMD_OK;
}

static void bias_gelu_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *x = &call->in[0];
    cost->flops = 36.0 * (double)spmd_count(x); /* as counted in spmd__gelu2 */
    cost->bytes = 3.0 * (double)spmd__tensor_bytes(x);
}

static const spmd_op bias_gelu_op = {
    .name = "bias_gelu",
    .shape = bias_gelu_shape,
    .grad = bias_gelu_grad,
    .host = bias_gelu_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__bias_gelu_cuda),
    .cost = bias_gelu_cost,
    .rule = spmd__label_pointwise,
    .residual = 1 << 1,
};

spmd_status spmd_bias_gelu(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *bias, spmd_tensor *out)
{
    const spmd_tensor in[] = {*x, *bias};
    spmd_tensor outs[2]; /* the value, and its derivative for the backward pass */
    SPMD_TRY(spmd__emit(ctx, &bias_gelu_op, NULL, in, 2, outs, 2));
    *out = outs[0];
    return SPMD_OK;
}
