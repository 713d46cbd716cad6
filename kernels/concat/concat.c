/* concat: tensors one behind the other along one dimension. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "spmd/rule.h"

spmd_status spmd__concat_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { MAX_PARTS = 64 }; /* the bits of spmd_op.linear */

static spmd_status concat_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *first = &call->in[0];
    spmd_tensor *out = &call->out[0];
    int dim = (int)call->attr.i[0];
    char ft[96], kt[96];
    (void)ctx;
    spmd__same_shape(out, first);
    for (int k = 1; k < call->nin; k++) {
        const spmd_tensor *x = &call->in[k];
        SPMD_CHECK(x->dtype == first->dtype, SPMD_EDTYPE, "concat: x[%d] is %s, x[0] %s: one dtype expected", k,
                   spmd__shape_text(x, kt), spmd__shape_text(first, ft));
        bool fits = x->rank == first->rank;
        for (int d = 0; fits && d < x->rank; d++)
            fits = d == dim || x->shape[d] == first->shape[d];
        SPMD_CHECK(fits, SPMD_ESHAPE, "concat: x[%d] is %s, x[0] %s: only dimension %d may differ", k,
                   spmd__shape_text(x, kt), spmd__shape_text(first, ft), dim);
        out->shape[dim] += x->shape[dim];
    }
    return SPMD_OK;
}

static spmd_status concat_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *y = &args->out[0];
    int dim = (int)args->attr->i[0];
    int64_t outer = 1;
    size_t step = spmd_dtype_size(y->dtype);
    char *to = y->data;
    (void)ctx;
    for (int d = 0; d < dim; d++)
        outer *= y->shape[d];
    for (int d = dim + 1; d < y->rank; d++)
        step *= (size_t)y->shape[d];
    for (int k = 0; k < args->nin; k++) {
        size_t width = (size_t)args->in[k].shape[dim] * step;
        spmd__copy_rows(to, (size_t)y->shape[dim] * step, args->in[k].data, width, width, outer);
        to += width;
    }
    return SPMD_OK;
}

static spmd_status concat_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    int dim = (int)call->attr.i[0];
    int64_t start = 0;
    for (int k = 0; k < call->nin; k++) {
        int64_t size = call->in[k].shape[dim];
        if (need[k])
            SPMD_TRY(spmd_slice(ctx, ct, dim, start, size, &gin[k]));
        start += size;
    }
    return SPMD_OK;
}

static void concat_rule(const spmd_call *call, spmd_labels *labels)
{
    for (int8_t d = 0; d < call->out[0].rank; d++) {
        int8_t letter = d == (int)call->attr.i[0] ? SPMD_WHOLE : d;
        for (int k = 0; k < call->nin; k++)
            labels->in[k][d] = letter;
        labels->out[0][d] = letter;
    }
}

static const spmd_op concat_op = {
    .name = "concat",
    .shape = concat_shape,
    .grad = concat_grad,
    .host = concat_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__concat_cuda),
    .rule = concat_rule,
    .linear = UINT64_MAX,
    .joint = true,
};

spmd_status spmd_concat(spmd_ctx *ctx, const spmd_tensor *x, int n, int dim, spmd_tensor *out)
{
    spmd_attr attr = {0};
    int d;
    SPMD_CHECK(n >= 1 && n <= MAX_PARTS, SPMD_EINVAL, "concat: %d tensors, expected 1..%d", n, MAX_PARTS);
    SPMD_TRY(spmd__dim("concat", x[0].rank, dim, &d));
    attr.i[0] = d;
    return spmd__emit(ctx, &concat_op, &attr, x, n, out, 1);
}
