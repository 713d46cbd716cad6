/* layer_norm: statistics in f32, in two passes over a row that is in L1 (mean, then squares of what is left). Mean and
 * scale are kept as further outputs for the backward pass: two numbers a row. */
#include "spmd/clones.h"
#include "kernels/kernels.h"
#include "kernels/layer_norm/layer_norm_grad.h"
#include "kernels/row_math.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <math.h>

spmd_status spmd__layer_norm_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status layer_norm_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *x = &call->in[0], *gain = &call->in[1], *bias = &call->in[2];
    char xt[96], gt[96], bt[96];
    spmd__shape_text(x, xt);
    spmd__shape_text(gain, gt);
    spmd__shape_text(bias, bt);
    SPMD_TRY(spmd__check_float("layer_norm", "x", x));
    SPMD_CHECK(gain->dtype == x->dtype && bias->dtype == x->dtype, SPMD_EDTYPE,
               "layer_norm: x is %s, gain is %s, bias is %s: expected one dtype; cast them to one", xt, gt, bt);
    SPMD_CHECK(x->rank >= 1 && gain->rank == 1 && bias->rank == 1 && gain->shape[0] == x->shape[x->rank - 1] &&
                   bias->shape[0] == gain->shape[0],
               SPMD_ESHAPE, "layer_norm: x is %s, gain is %s, bias is %s: expected x [.., n], gain [n], bias [n]", xt,
               gt, bt);
    spmd__same_shape(&call->out[0], x);
    for (int k = 1; k < 3; k++) {
        spmd__same_shape(&call->out[k], x);
        call->out[k].dtype = SPMD_F32;
        call->out[k].rank--;
    }
    return SPMD_OK;
}

SPMD_CLONES static void center(float *y, float mean, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] -= mean;
}

SPMD_CLONES static void scale_and_shift(float *restrict y, float scale, const float *restrict gain,
                                        const float *restrict bias, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] * scale * gain[i] + bias[i];
}

static spmd_status layer_norm_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    float *mean = args->out[1].data, *scale = args->out[2].data, epsilon = (float)args->attr->f[0];
    int64_t n = spmd__row_length(x), rows = spmd__row_count(x);
    float *space = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(3 * n) * sizeof *space);
    SPMD_CHECK(space, SPMD_ENOMEM, "layer_norm: no memory for rows of %lld: %s", (long long)n, spmd_last_error());
    const float *gain = spmd__read_f32(&args->in[1], 0, n, space);
    const float *bias = spmd__read_f32(&args->in[2], 0, n, space + n);
    for (int64_t r = 0; r < rows; r++) {
        float *row = spmd__write_f32(y, r * n, space + 2 * n);
        spmd__widen(x->dtype, spmd__element(x->data, x->dtype, r * n), n, row);
        mean[r] = spmd__row_sum(row, n) / (float)n;
        center(row, mean[r], n);
        scale[r] = 1.0f / sqrtf(spmd__row_dot(row, row, n) / (float)n + epsilon);
        scale_and_shift(row, scale[r], gain, bias, n);
        spmd__wrote_f32(y, r * n, n, row);
    }
    return SPMD_OK;
}

static spmd_status layer_norm_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                   spmd_tensor *gin)
{
    (void)need; /* one pass makes all three */
    const spmd_tensor in[5] = {call->in[0], call->in[1], call->out[1], call->out[2], ct[0]};
    return spmd__layer_norm_grad(ctx, in, gin);
}

static void layer_norm_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *x = &call->in[0];
    cost->flops = 7.0 * (double)spmd_count(x);
    cost->bytes = 2.0 * (double)spmd__tensor_bytes(x);
}

static void layer_norm_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 1);
    labels->in[1][0] = labels->in[2][0] = SPMD_WHOLE; /* gain and bias have no rows */
}

static const spmd_op layer_norm_op = {
    .name = "layer_norm",
    .shape = layer_norm_shape,
    .grad = layer_norm_grad,
    .host = layer_norm_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__layer_norm_cuda),
    .cost = layer_norm_cost,
    .rule = layer_norm_rule,
    .residual = 1 << 1 | 1 << 2,
};

spmd_status spmd_layer_norm(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *gain, const spmd_tensor *bias,
                            double epsilon, spmd_tensor *out)
{
    SPMD_CHECK(epsilon >= 0, SPMD_EINVAL, "layer_norm: epsilon is %g: expected 0 or more, as 1e-5", epsilon);
    const spmd_attr attr = {.f = {epsilon}};
    const spmd_tensor in[] = {*x, *gain, *bias};
    spmd_tensor outs[3];
    SPMD_TRY(spmd__emit(ctx, &layer_norm_op, &attr, in, 3, outs, 3));
    *out = outs[0];
    return SPMD_OK;
}
