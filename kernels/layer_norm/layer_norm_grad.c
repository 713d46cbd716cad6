/* With h = (x - mean) scale and g = ct gain:
 *   dx = scale (g - mean(g) - h mean(g h)),   dgain = sum over rows of ct h,   dbias = sum over rows of ct. */
#include "kernels/layer_norm/layer_norm_grad.h"
#include "spmd/clones.h"
#include "kernels/row_math.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__layer_norm_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { X, GAIN, MEAN, SCALE, CT };

static spmd_status layer_norm_grad_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[X]);
    spmd__same_shape(&call->out[1], &call->in[GAIN]);
    spmd__same_shape(&call->out[2], &call->in[GAIN]);
    return SPMD_OK;
}

SPMD_CLONES static void prepare_row(const float *restrict x, const float *restrict ct, const float *restrict gain,
                                    float mean, float scale, float *restrict h, float *restrict g,
                                    float *restrict gain_sums, float *restrict bias_sums, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        h[i] = (x[i] - mean) * scale;
        g[i] = ct[i] * gain[i];
        gain_sums[i] += ct[i] * h[i];
        bias_sums[i] += ct[i];
    }
}

SPMD_CLONES static void finish_row(const float *restrict h, const float *restrict g, float mean_g, float mean_gh,
                                   float scale, float *restrict dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * (g[i] - mean_g - h[i] * mean_gh);
}

static spmd_status layer_norm_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[X], *ct = &args->in[CT], *dx = &args->out[0], *dgain = &args->out[1];
    const float *mean = args->in[MEAN].data, *scale = args->in[SCALE].data;
    int64_t n = spmd__row_length(x), rows = spmd__row_count(x);
    float *sums = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(10 * n) * sizeof *sums); /* of gain, of bias */
    SPMD_CHECK(sums, SPMD_ENOMEM, "layer_norm_grad: no memory for rows of %lld: %s", (long long)n, spmd_last_error());
    float *block = sums + 2 * n, *h = block + 2 * n, *g = h + n, *buffers = g + n;
    const float *gain = spmd__read_f32(&args->in[GAIN], 0, n, buffers);
    memset(sums, 0, (size_t)(4 * n) * sizeof *sums);
    for (int64_t r = 0; r < rows; r++) {
        const float *x_row = spmd__read_f32(x, r * n, n, buffers + n);
        const float *ct_row = spmd__read_f32(ct, r * n, n, buffers + 2 * n);
        float *dx_row = spmd__write_f32(dx, r * n, buffers + 3 * n);
        prepare_row(x_row, ct_row, gain, mean[r], scale[r], h, g, block, block + n, n);
        finish_row(h, g, spmd__row_sum(g, n) / (float)n, spmd__row_dot(g, h, n) / (float)n, scale[r], dx_row, n);
        spmd__wrote_f32(dx, r * n, n, dx_row);
        if ((r + 1) % SPMD__SUM_BLOCK == 0 || r + 1 == rows)
            spmd__add_block(sums, block, 2 * n);
    }
    spmd__narrow(dgain->dtype, sums, n, dgain->data);
    spmd__narrow(dgain->dtype, sums + n, n, args->out[2].data);
    return SPMD_OK;
}

static void layer_norm_grad_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *x = &call->in[X];
    cost->flops = 15.0 * (double)spmd_count(x);
    cost->bytes = 3.0 * (double)spmd__tensor_bytes(x);
}

/* Rows that are cut make dgain and dbias partial. */
static void layer_norm_grad_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 1);
    labels->in[GAIN][0] = labels->out[1][0] = labels->out[2][0] = SPMD_WHOLE;
}

static const spmd_op layer_norm_grad_op = {
    .name = "layer_norm_grad",
    .shape = layer_norm_grad_shape,
    .host = layer_norm_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__layer_norm_grad_cuda),
    .cost = layer_norm_grad_cost,
    .rule = layer_norm_grad_rule,
    .linear = 1 << CT,
};

spmd_status spmd__layer_norm_grad(spmd_ctx *ctx, const spmd_tensor in[5], spmd_tensor out[3])
{
    return spmd__emit(ctx, &layer_norm_grad_op, NULL, in, 5, out, 3);
}
