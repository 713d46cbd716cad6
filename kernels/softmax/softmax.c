/* softmax along the last dimension, and its fused gradient y (ct - sum(y ct)). */
#include "spmd/clones.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"

spmd_status spmd__softmax_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__softmax_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status softmax_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    char text[96];
    SPMD_TRY(spmd__check_float("softmax", "x", &call->in[0]));
    SPMD_CHECK(call->in[0].rank >= 1, SPMD_ESHAPE, "softmax: x is %s: expected rank 1 or more, [.., n]",
               spmd__shape_text(&call->in[0], text));
    spmd__same_shape(&call->out[0], &call->in[0]);
    return SPMD_OK;
}

static spmd_status softmax_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    int64_t n = spmd__row_length(x), rows = spmd__row_count(x);
    float *buffer = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)n * sizeof *buffer);
    SPMD_CHECK(buffer, SPMD_ENOMEM, "softmax: no memory for a row of %lld: %s", (long long)n, spmd_last_error());
    for (int64_t r = 0; r < rows; r++) {
        float *row = spmd__write_f32(y, r * n, buffer);
        spmd__widen(x->dtype, spmd__element(x->data, x->dtype, r * n), n, row);
        spmd__row_exp(row, spmd__row_max(row, n), n);
        spmd__row_scale(row, 1.0f / spmd__row_sum(row, n), n);
        spmd__wrote_f32(y, r * n, n, row);
    }
    return SPMD_OK;
}

static spmd_status softmax_grad_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    return SPMD_OK;
}

SPMD_CLONES static void softmax_grad_row(const float *restrict y, const float *restrict ct, float dot,
                                         float *restrict dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (ct[i] - dot);
}

static spmd_status softmax_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *y = &args->in[0], *ct = &args->in[1], *dx = &args->out[0];
    int64_t n = spmd__row_length(y), rows = spmd__row_count(y);
    float *buffer = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(3 * n) * sizeof *buffer);
    SPMD_CHECK(buffer, SPMD_ENOMEM, "softmax_grad: no memory for rows of %lld: %s", (long long)n, spmd_last_error());
    for (int64_t r = 0; r < rows; r++) {
        const float *y_row = spmd__read_f32(y, r * n, n, buffer), *ct_row = spmd__read_f32(ct, r * n, n, buffer + n);
        float *dx_row = spmd__write_f32(dx, r * n, buffer + 2 * n);
        softmax_grad_row(y_row, ct_row, spmd__row_dot(y_row, ct_row, n), dx_row, n);
        spmd__wrote_f32(dx, r * n, n, dx_row);
    }
    return SPMD_OK;
}

static void softmax_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *x = &call->in[0];
    cost->flops = 24.0 * (double)spmd_count(x); /* an exp is 20 */
    cost->bytes = 2.0 * (double)spmd__tensor_bytes(x);
}

static void softmax_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 1);
}

static const spmd_op softmax_grad_op = {
    .name = "softmax_grad",
    .shape = softmax_grad_shape,
    .host = softmax_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__softmax_grad_cuda),
    .rule = softmax_rule,
    .linear = 2,
};

static spmd_status softmax_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                spmd_tensor *gin)
{
    const spmd_tensor in[] = {call->out[0], ct[0]};
    return need[0] ? spmd__emit(ctx, &softmax_grad_op, NULL, in, 2, &gin[0], 1) : SPMD_OK;
}

static const spmd_op softmax_op = {
    .name = "softmax",
    .shape = softmax_shape,
    .grad = softmax_grad,
    .host = softmax_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__softmax_cuda),
    .cost = softmax_cost,
    .rule = softmax_rule,
};

spmd_status spmd_softmax(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &softmax_op, NULL, x, 1, out, 1);
}
