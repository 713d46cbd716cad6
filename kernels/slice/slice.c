/* slice: x[..., start:start+size, ...] along one dimension. The gradient puts the cotangent back between zeros: an op
 * of its own, whose gradient is slice again. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "kernels/slice/slice_pieces.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__slice_back_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__slice_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { DIM, START, SIZE }; /* in attr.i; SIZE: of the result along DIM */

static spmd_status slice_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    int64_t start = call->attr.i[START], size = call->attr.i[SIZE], dim = call->attr.i[DIM];
    char text[96];
    (void)ctx;
    SPMD_CHECK(start >= 0 && size >= 0 && start <= x->shape[dim] && size <= x->shape[dim] - start, SPMD_ESHAPE,
               "slice: %lld elements from %lld of dimension %lld, but x is %s: they must lie within 0..%lld",
               (long long)size, (long long)start, (long long)dim, spmd__shape_text(x, text), (long long)x->shape[dim]);
    spmd__same_shape(&call->out[0], x);
    call->out[0].shape[dim] = size;
    return SPMD_OK;
}

static spmd_status slice_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    int dim = (int)args->attr->i[DIM];
    int64_t outer, inner;
    (void)ctx;
    spmd__slice_pieces(x, dim, &outer, &inner);
    size_t step = (size_t)inner * spmd_dtype_size(x->dtype), from = (size_t)x->shape[dim] * step,
           to = (size_t)y->shape[dim] * step;
    spmd__copy_rows(y->data, to, (const char *)x->data + (size_t)args->attr->i[START] * step, from, to, outer);
    return SPMD_OK;
}

static spmd_status slice_back_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].shape[call->attr.i[DIM]] = call->attr.i[SIZE];
    return SPMD_OK;
}

static spmd_status slice_back_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[0], *g = &args->out[0];
    int dim = (int)args->attr->i[DIM];
    int64_t outer, inner, zero = 0;
    size_t size = spmd_dtype_size(g->dtype);
    (void)ctx;
    spmd__slice_pieces(g, dim, &outer, &inner);
    size_t step = (size_t)inner * size, from = (size_t)ct->shape[dim] * step, to = (size_t)g->shape[dim] * step;
    spmd__splat(&zero, size, spmd_view_count(g), g->data);
    spmd__copy_rows((char *)g->data + (size_t)args->attr->i[START] * step, to, ct->data, from, from, outer);
    return SPMD_OK;
}

static spmd_status slice_back_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                   spmd_tensor *gin)
{
    int dim = (int)call->attr.i[DIM];
    return need[0] ? spmd_slice(ctx, ct, dim, call->attr.i[START], call->in[0].shape[dim], &gin[0]) : SPMD_OK;
}

/* Of slice and of slice_back. */
static void slice_rule(const spmd_call *call, spmd_labels *labels)
{
    for (int8_t d = 0; d < call->in[0].rank; d++)
        if (d != (int)call->attr.i[DIM])
            labels->in[0][d] = labels->out[0][d] = d;
}

static const spmd_op slice_back_op = {
    .name = "slice_back",
    .shape = slice_back_shape,
    .grad = slice_back_grad,
    .host = slice_back_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__slice_back_cuda),
    .rule = slice_rule,
    .linear = 1,
};

static spmd_status slice_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin)
{
    spmd_attr attr = call->attr;
    attr.i[SIZE] = call->in[0].shape[attr.i[DIM]];
    return need[0] ? spmd__emit(ctx, &slice_back_op, &attr, ct, 1, &gin[0], 1) : SPMD_OK;
}

static const spmd_op slice_op = {
    .name = "slice",
    .shape = slice_shape,
    .grad = slice_grad,
    .host = slice_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__slice_cuda),
    .rule = slice_rule,
    .linear = 1,
};

spmd_status spmd_slice(spmd_ctx *ctx, const spmd_tensor *x, int dim, int64_t start, int64_t size, spmd_tensor *out)
{
    spmd_attr attr = {0};
    int d;
    SPMD_TRY(spmd__dim("slice", x->rank, dim, &d));
    attr.i[DIM] = d;
    attr.i[START] = start;
    attr.i[SIZE] = size;
    return spmd__emit(ctx, &slice_op, &attr, x, 1, out, 1);
}
