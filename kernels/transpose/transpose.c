/* transpose: dimensions in another order. */
#include "kernels/kernels.h"
#include "kernels/transpose/transpose_host.h"
#include "spmd/rule.h"

static spmd_status transpose_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor *out = &call->out[0];
    unsigned seen = 0;
    char text[96];
    (void)ctx;
    out->dtype = x->dtype;
    out->rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        int64_t from = call->attr.i[d];
        SPMD_CHECK(from >= 0 && from < x->rank && !(seen >> from & 1), SPMD_ESHAPE,
                   "transpose: order[%d] of %s is %lld, expected every one of 0..%d once", d, spmd__shape_text(x, text),
                   (long long)from, x->rank - 1);
        seen |= 1u << from;
        out->shape[d] = x->shape[from];
    }
    return SPMD_OK;
}

static spmd_status transpose_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    int back[SPMD_MAX_RANK];
    for (int d = 0; d < ct->rank; d++)
        back[call->attr.i[d]] = d;
    return need[0] ? spmd_transpose(ctx, ct, back, &gin[0]) : SPMD_OK;
}

static void transpose_rule(const spmd_call *call, spmd_labels *labels)
{
    for (int8_t d = 0; d < call->out[0].rank; d++)
        labels->in[0][call->attr.i[d]] = labels->out[0][d] = d;
}

static const spmd_op transpose_op = {
    .name = "transpose",
    .shape = transpose_shape,
    .grad = transpose_grad,
    .host = spmd__transpose_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__transpose_cuda),
    .rule = transpose_rule,
    .linear = 1,
};

spmd_status spmd_transpose(spmd_ctx *ctx, const spmd_tensor *x, const int *order, spmd_tensor *out)
{
    spmd_attr attr = {0};
    for (int d = 0; d < x->rank; d++)
        attr.i[d] = order ? order[d] : x->rank - 1 - d;
    return spmd__emit(ctx, &transpose_op, &attr, x, 1, out, 1);
}
