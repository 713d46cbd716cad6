/* linear_gelu: gelu(x w + bias) in two passes, the product and one that adds the bias and makes value and derivative.
 * (A post-op inside oneDNN's product is no faster, and would lose the pre-activation.) */
#include "kernels/bias_gelu/gelu_backprop.h"
#include "kernels/kernels.h"
#include "kernels/linear/affine.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"

spmd_status spmd__linear_gelu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status linear_gelu_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    SPMD_TRY(spmd__affine_shape("linear_gelu", call, &call->out[0]));
    spmd__same_shape(&call->out[1], &call->out[0]);
    return SPMD_OK;
}

static spmd_status linear_gelu_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                    spmd_tensor *gin)
{
    spmd_tensor dz;
    SPMD_TRY(spmd__gelu_backprop(ctx, &ct[0], &call->out[1], &dz, &gin[2]));
    return spmd__affine_grad(ctx, call, &dz, need, gin);
}

/* f32: the product lies in y already. 16-bit floats: in f32 in the workspace, so that y is rounded once. */
static spmd_status linear_gelu_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *y = &args->out[0], *slope = &args->out[1];
    int64_t n = spmd__row_length(y), rows = spmd__row_count(y), nz = y->dtype == SPMD_F32 ? 0 : rows * n;
    float *space = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(nz + 2 * n) * sizeof *space);
    SPMD_CHECK(space, SPMD_ENOMEM, "linear_gelu: no memory for %lld rows of %lld: %s", (long long)rows, (long long)n,
               spmd_last_error());
    const float *bias = spmd__read_f32(&args->in[2], 0, n, space);
    float *slope_buffer = space + n, *z = nz ? space + 2 * n : y->data;
    SPMD_TRY(spmd__affine_product(ctx, args, NULL, SPMD_F32, z));
    for (int64_t r = 0; r < rows; r++) {
        float *slope_row = spmd__write_f32(slope, r * n, slope_buffer);
        spmd__bias_gelu_row(z + r * n, bias, slope_row, n);
        spmd__wrote_f32(y, r * n, n, z + r * n);
        spmd__wrote_f32(slope, r * n, n, slope_row);
    }
    return SPMD_OK;
}

static const spmd_op linear_gelu_op = {
    .name = "linear_gelu",
    .shape = linear_gelu_shape,
    .grad = linear_gelu_grad,
    .host = linear_gelu_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__linear_gelu_cuda),
    .cost = spmd__affine_cost,
    .rule = spmd__affine_rule,
    .residual = 1 << 1,
    .sums = 3,
};

spmd_status spmd_linear_gelu(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w, const spmd_tensor *bias,
                             spmd_tensor *out)
{
    const spmd_tensor in[] = {*x, *w, *bias};
    spmd_tensor outs[2]; /* the value, and its derivative for the backward pass */
    SPMD_TRY(spmd__emit(ctx, &linear_gelu_op, NULL, in, 3, outs, 2));
    *out = outs[0];
    return SPMD_OK;
}
