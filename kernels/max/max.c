/* max over dimensions: NaN wins; the maximum of nothing is -inf. */
#include "kernels/kernels.h"
#include "kernels/reduce.h"
#include "spmd/linear.h"

spmd_status spmd__max_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status max_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__reduce_host(args, (unsigned)args->attr->i[0], &spmd__fold_max, 1);
}

/* Every maximum takes ct / (number of maxima); they are counted in f32, where bf16 would stop at 256. */
static spmd_status max_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor largest, count, share, zero;
    int dims[SPMD_MAX_RANK], n = 0;
    if (!need[0])
        return SPMD_OK;
    for (int d = 0; d < x->rank; d++)
        if (call->attr.i[0] >> d & 1)
            dims[n++] = d;
    SPMD_TRY(spmd__unreduce(ctx, call, &call->out[0], &largest));
    SPMD_TRY(spmd_equal(ctx, x, &largest, &largest));
    SPMD_TRY(spmd_cast(ctx, &largest, SPMD_F32, &count));
    SPMD_TRY(spmd_sum(ctx, &count, dims, n, call->attr.i[1], &count));
    SPMD_TRY(spmd_cast(ctx, ct, SPMD_F32, &share));
    SPMD_TRY(spmd_div(ctx, &share, &count, &share));
    SPMD_TRY(spmd_cast(ctx, &share, x->dtype, &share));
    SPMD_TRY(spmd__unreduce(ctx, call, &share, &share));
    SPMD_TRY(spmd__linear_fill(ctx, &share, 0, &zero));
    return spmd_where(ctx, &largest, &share, &zero, &gin[0]);
}

/* Maxima of blocks do not add up to the maximum: what is reduced stays whole. */
static void max_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__reduce_rule(call, labels);
    for (int d = 0; d < call->in[0].rank; d++)
        if (call->attr.i[0] >> d & 1)
            labels->in[0][d] = SPMD_WHOLE;
}

static const spmd_op max_op = {
    .name = "max",
    .shape = spmd__reduce_shape,
    .grad = max_grad,
    .host = max_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__max_cuda),
    .cost = spmd__reduce_cost,
    .rule = max_rule,
};

spmd_status spmd_max(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep, spmd_tensor *out)
{
    return spmd__emit_reduction(ctx, &max_op, x, dims, n, keep, out);
}
