/* The backward half of bias_gelu and linear_gelu. One pass makes dz and the bias gradient: the column sums stay in L1
 * while rows stream by, where a reduction of its own would read dz once more. */
#include "kernels/bias_gelu/gelu_backprop.h"
#include "spmd/clones.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__gelu_backprop_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { SLOPE, CT }; /* inputs in this order: dz may take the slope's memory, which is needed no more */

/* out: dz, keep * ct if asked for, dbias. */
static spmd_status backprop_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *ct = &call->in[CT];
    for (int k = 0; k < call->nout; k++)
        spmd__same_shape(&call->out[k], ct);
    spmd_tensor *dbias = &call->out[call->nout - 1];
    dbias->rank = 1;
    dbias->shape[0] = ct->shape[ct->rank - 1];
    return SPMD_OK;
}

SPMD_CLONES static void backprop_row(const float *ct, const float *slope, float *dz, float *restrict sums, int64_t n)
{
    SPMD_SAME_PLACE
    for (int64_t i = 0; i < n; i++) {
        float d = ct[i] * slope[i];
        sums[i] += d;
        dz[i] = d;
    }
}

SPMD_CLONES static void keep_row(const float *ct, float keep, float *kept, int64_t n)
{
    SPMD_SAME_PLACE
    for (int64_t i = 0; i < n; i++)
        kept[i] = ct[i] * keep;
}

static spmd_status backprop_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[CT], *slope = &args->in[SLOPE], *dz = &args->out[0];
    const spmd_view *kept = args->nout == 3 ? &args->out[1] : NULL, *dbias = &args->out[args->nout - 1];
    int64_t n = spmd__row_length(ct), rows = spmd__row_count(ct);
    float *sums = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(5 * n) * sizeof *sums);
    SPMD_CHECK(sums, SPMD_ENOMEM, "gelu_backprop: no memory for rows of %lld: %s", (long long)n, spmd_last_error());
    float *block = sums + n, *ct_buffer = block + n, *slope_buffer = ct_buffer + n, *to_buffer = slope_buffer + n;
    memset(sums, 0, (size_t)(2 * n) * sizeof *sums);
    for (int64_t r = 0; r < rows; r++) {
        const float *ct_row = spmd__read_f32(ct, r * n, n, ct_buffer);
        float *to = spmd__write_f32(dz, r * n, to_buffer);
        backprop_row(ct_row, spmd__read_f32(slope, r * n, n, slope_buffer), to, block, n);
        spmd__wrote_f32(dz, r * n, n, to);
        if (kept) {
            to = spmd__write_f32(kept, r * n, to_buffer);
            keep_row(ct_row, (float)args->attr->f[0], to, n);
            spmd__wrote_f32(kept, r * n, n, to);
        }
        if ((r + 1) % SPMD__SUM_BLOCK == 0 || r + 1 == rows)
            spmd__add_block(sums, block, n);
    }
    spmd__narrow(dbias->dtype, sums, n, dbias->data);
    return SPMD_OK;
}

static void backprop_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *ct = &call->in[CT];
    cost->flops = call->nout * (double)spmd_count(ct);
    cost->bytes = (call->nout + 1) * (double)spmd__tensor_bytes(ct);
}

/* Rows that are cut make the column sums partial. */
static void backprop_rule(const spmd_call *call, spmd_labels *labels)
{
    int rank = call->in[CT].rank, sums = call->nout - 1;
    for (int8_t d = 0; d < rank; d++) {
        labels->in[SLOPE][d] = labels->in[CT][d] = d;
        for (int k = 0; k < sums; k++)
            labels->out[k][d] = d;
    }
    labels->out[sums][0] = (int8_t)(rank - 1);
}

static const spmd_op gelu_backprop_op = {
    .name = "gelu_backprop",
    .shape = backprop_shape,
    .host = backprop_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__gelu_backprop_cuda),
    .cost = backprop_cost,
    .rule = backprop_rule,
    .linear = 1 << CT,
    .in_place = true,
};

spmd_status spmd__gelu_backprop(spmd_ctx *ctx, const spmd_tensor *ct, const spmd_tensor *slope, spmd_tensor *dz,
                                spmd_tensor *dbias)
{
    const spmd_tensor in[] = {[SLOPE] = *slope, [CT] = *ct};
    spmd_tensor out[2];
    SPMD_TRY(spmd__emit(ctx, &gelu_backprop_op, NULL, in, 2, out, 2));
    *dz = out[0];
    *dbias = out[1];
    return SPMD_OK;
}

spmd_status spmd__residual_backprop(spmd_ctx *ctx, const spmd_tensor *ct, const spmd_tensor *slope, double keep,
                                    spmd_tensor *dz, spmd_tensor *kept, spmd_tensor *dbias)
{
    const spmd_attr attr = {.f = {keep}};
    const spmd_tensor in[] = {[SLOPE] = *slope, [CT] = *ct};
    spmd_tensor out[3];
    SPMD_TRY(spmd__emit(ctx, &gelu_backprop_op, &attr, in, 2, out, 3));
    *dz = out[0];
    *kept = out[1];
    *dbias = out[2];
    return SPMD_OK;
}
