/* residual_gelu: keep x + mix gelu(x w + bias), a residual block. Its pointwise half is one pass over the product,
 * where linear_gelu, two scalings and an addition are four; the derivative is kept with the factor `mix` in it. */
#include "kernels/bias_gelu/gelu_backprop.h"
#include "kernels/gelu_math.h"
#include "kernels/kernels.h"
#include "kernels/linear/affine.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/clones.h"
#include "spmd/rule.h"

spmd_status spmd__residual_gelu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { KEEP, MIX }; /* in attr.f */

static spmd_status residual_gelu_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *w = &call->in[1];
    SPMD_TRY(spmd__affine_shape("residual_gelu", call, &call->out[0]));
    SPMD_CHECK(w->shape[0] == w->shape[1], SPMD_ESHAPE,
               "residual_gelu: w is %s: expected a square one, since x is added to the result",
               spmd__shape_text(w, (char[96]){0}));
    spmd__same_shape(&call->out[1], &call->out[0]);
    return SPMD_OK;
}

static spmd_status residual_gelu_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                      spmd_tensor *gin)
{
    spmd_tensor dz;
    SPMD_TRY(spmd__residual_backprop(ctx, &ct[0], &call->out[1], call->attr.f[KEEP], &dz, &gin[0], &gin[2]));
    spmd_donate(&gin[0]); /* the product adds to it */
    return spmd__affine_grad(ctx, call, &dz, need, gin);
}

/* y holds x w and becomes the result. */
SPMD_CLONES static void residual_row(float *restrict y, const float *restrict x, const float *restrict bias,
                                     float *restrict slope, float keep, float mix, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float value, derivative;
        spmd__gelu2(y[i] + bias[i], &value, &derivative);
        y[i] = x[i] * keep + value * mix;
        slope[i] = derivative * mix;
    }
}

/* The product in f32: in y already, or for 16-bit floats in the workspace, so that y is rounded once. */
static spmd_status residual_gelu_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0], *slope = &args->out[1];
    int64_t n = spmd__row_length(y), rows = spmd__row_count(y), nz = y->dtype == SPMD_F32 ? 0 : rows * n;
    float keep = (float)args->attr->f[KEEP], mix = (float)args->attr->f[MIX];
    float *space = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(nz + 3 * n) * sizeof *space);
    SPMD_CHECK(space, SPMD_ENOMEM, "residual_gelu: no memory for %lld rows of %lld: %s", (long long)rows, (long long)n,
               spmd_last_error());
    const float *bias = spmd__read_f32(&args->in[2], 0, n, space);
    float *slope_buffer = space + n, *x_buffer = space + 2 * n, *z = nz ? space + 3 * n : y->data;
    SPMD_TRY(spmd__affine_product(ctx, args, NULL, SPMD_F32, z));
    for (int64_t r = 0; r < rows; r++) {
        float *slope_row = spmd__write_f32(slope, r * n, slope_buffer);
        residual_row(z + r * n, spmd__read_f32(x, r * n, n, x_buffer), bias, slope_row, keep, mix, n);
        spmd__wrote_f32(y, r * n, n, z + r * n);
        spmd__wrote_f32(slope, r * n, n, slope_row);
    }
    return SPMD_OK;
}

/* Rows only: x is an operand of the product, which wants its last dimension whole, and of the sum. */
static void residual_gelu_rule(const spmd_call *call, spmd_labels *labels)
{
    for (int8_t d = 0; d < call->in[0].rank - 1; d++)
        labels->in[0][d] = labels->out[0][d] = labels->out[1][d] = d;
}

static const spmd_op residual_gelu_op = {
    .name = "residual_gelu",
    .shape = residual_gelu_shape,
    .grad = residual_gelu_grad,
    .host = residual_gelu_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__residual_gelu_cuda),
    .cost = spmd__affine_cost,
    .rule = residual_gelu_rule,
    .residual = 1 << 1,
    .sums = 1 << 1, /* of x there is a sum already, in the gradient itself */
};

spmd_status spmd_residual_gelu(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w, const spmd_tensor *bias,
                               double keep, double mix, spmd_tensor *out)
{
    const spmd_attr attr = {.f = {keep, mix}};
    const spmd_tensor in[] = {*x, *w, *bias};
    spmd_tensor outs[2]; /* the value, and mix times gelu's derivative for the backward pass */
    SPMD_TRY(spmd__emit(ctx, &residual_gelu_op, &attr, in, 3, outs, 2));
    *out = outs[0];
    return SPMD_OK;
}
