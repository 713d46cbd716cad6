/* sum_to: the transpose of broadcasting, emitted by gradients: sums x to a shape that broadcasts to x's. */
#include "kernels/given_shape.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include "kernels/reduce.h"

spmd_status spmd__sum_to_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status sum_to_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    call->out[0].dtype = call->in[0].dtype;
    spmd__given_shape(&call->attr, &call->out[0]);
    return SPMD_OK;
}

unsigned spmd__sum_to_mask(const spmd_view *x, const spmd_view *y)
{
    int added = x->rank - y->rank;
    unsigned mask = 0;
    for (int d = 0; d < x->rank; d++)
        if (d < added || y->shape[d - added] != x->shape[d])
            mask |= 1u << d;
    return mask;
}

static spmd_status sum_to_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    return spmd__reduce_host(args, spmd__sum_to_mask(&args->in[0], &args->out[0]), &spmd__fold_sum, 1);
}

static spmd_status sum_to_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    return need[0] ? spmd_broadcast_to(ctx, ct, call->in[0].rank, call->in[0].shape, &gin[0]) : SPMD_OK;
}

/* A dimension that is summed and cut makes the result partial. */
static void sum_to_rule(const spmd_call *call, spmd_labels *labels)
{
    const spmd_tensor *x = &call->in[0], *y = &call->out[0];
    int added = x->rank - y->rank;
    for (int8_t d = 0; d < x->rank; d++) {
        labels->in[0][d] = d;
        if (d >= added && y->shape[d - added] == x->shape[d])
            labels->out[0][d - added] = d;
    }
}

static const spmd_op sum_to_op = {
    .name = "sum_to",
    .shape = sum_to_shape,
    .grad = sum_to_grad,
    .host = sum_to_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__sum_to_cuda),
    .cost = spmd__reduce_cost,
    .rule = sum_to_rule,
    .linear = 1,
};

spmd_status spmd__sum_to(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *like, spmd_tensor *out)
{
    spmd_attr attr = {0};
    if (spmd__shape_equal(x, like)) {
        *out = *x;
        return SPMD_OK;
    }
    SPMD_TRY(spmd__give_shape("sum_to", like->rank, like->shape, &attr));
    return spmd__emit(ctx, &sum_to_op, &attr, x, 1, out, 1);
}
