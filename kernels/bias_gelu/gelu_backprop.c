/* The backward half of bias_gelu and linear_gelu. One pass makes dz and the bias gradient: the column sums stay in L1
 * while rows stream by, where a reduction of its own would read dz once more. */
#include "kernels/bias_gelu/gelu_backprop.h"
#include "spmd/clones.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <string.h>

static spmd_status backprop_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *ct = &call->in[0];
    spmd__same_shape(&call->out[0], ct);
    spmd__same_shape(&call->out[1], ct);
    call->out[1].rank = 1;
    call->out[1].shape[0] = ct->shape[ct->rank - 1];
    return SPMD_OK;
}

SPMD_CLONES static void backprop_row(const float *restrict ct, const float *restrict slope, float *restrict dz,
                                     float *restrict sums, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        dz[i] = ct[i] * slope[i];
        sums[i] += dz[i];
    }
}

static spmd_status backprop_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[0], *slope = &args->in[1], *dz = &args->out[0], *dbias = &args->out[1];
    int64_t n = spmd__row_length(ct), rows = spmd__row_count(ct);
    float *sums = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(5 * n) * sizeof *sums);
    SPMD_CHECK(sums, SPMD_ENOMEM, "gelu_backprop: no memory for rows of %lld: %s", (long long)n, spmd_last_error());
    float *block = sums + n, *ct_row = block + n, *slope_row = ct_row + n, *dz_row = slope_row + n;
    memset(sums, 0, (size_t)(2 * n) * sizeof *sums);
    for (int64_t r = 0; r < rows; r++) {
        float *to = spmd__write_f32(dz, r * n, dz_row);
        backprop_row(spmd__read_f32(ct, r * n, n, ct_row), spmd__read_f32(slope, r * n, n, slope_row), to, block, n);
        spmd__wrote_f32(dz, r * n, n, to);
        if ((r + 1) % SPMD__SUM_BLOCK == 0 || r + 1 == rows)
            spmd__add_block(sums, block, n);
    }
    spmd__narrow(dbias->dtype, sums, n, dbias->data);
    return SPMD_OK;
}

static void backprop_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *ct = &call->in[0];
    cost->flops = 2.0 * (double)spmd_count(ct);
    cost->bytes = 3.0 * (double)spmd_count(ct) * (double)spmd_dtype_size(ct->dtype);
}

/* Rows that are cut make the column sums partial. */
static void backprop_rule(const spmd_call *call, spmd_labels *labels)
{
    int rank = call->in[0].rank;
    for (int8_t d = 0; d < rank; d++)
        labels->in[0][d] = labels->in[1][d] = labels->out[0][d] = d;
    labels->out[1][0] = (int8_t)(rank - 1);
}

static const spmd_op gelu_backprop_op = {
    .name = "gelu_backprop",
    .shape = backprop_shape,
    .host = backprop_host,
    .cost = backprop_cost,
    .rule = backprop_rule,
    .linear = 1,
};

spmd_status spmd__gelu_backprop(spmd_ctx *ctx, const spmd_tensor *ct, const spmd_tensor *slope, spmd_tensor *dz,
                                spmd_tensor *dbias)
{
    const spmd_tensor in[] = {*ct, *slope};
    spmd_tensor out[2];
    SPMD_TRY(spmd__emit(ctx, &gelu_backprop_op, NULL, in, 2, out, 2));
    *dz = out[0];
    *dbias = out[1];
    return SPMD_OK;
}
