/* argmax: index of the first maximum along a dimension; the first NaN, if there is one. */
#include "kernels/kernels.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"

spmd_status spmd__argmax_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status argmax_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor *out = &call->out[0];
    int dim = (int)call->attr.i[0];
    char text[96];
    (void)ctx;
    SPMD_TRY(spmd__check_float("argmax", "x", x));
    out->dtype = SPMD_I32;
    out->rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != dim)
            out->shape[out->rank++] = x->shape[d];
    SPMD_CHECK(x->shape[dim] > 0 || spmd_count(out) == 0, SPMD_ESHAPE,
               "argmax: dimension %d of %s is empty, at least one element expected", dim, spmd__shape_text(x, text));
    return SPMD_OK;
}

/* The first maximum of n elements, `step` apart. */
static int32_t first_maximum(const float *x, int64_t n, int64_t step)
{
    float best = x[0];
    int32_t index = 0;
    for (int64_t i = 1; i < n && best == best; i++)
        if (x[i * step] > best || x[i * step] != x[i * step]) {
            best = x[i * step];
            index = (int32_t)i;
        }
    return index;
}

/* A piece: the dimension and those inside it. */
static spmd_status argmax_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0];
    int dim = (int)args->attr->i[0];
    int64_t inner = x->strides[dim], n = x->shape[dim], piece = n * inner, count = spmd_view_count(x);
    int32_t *y = args->out[0].data;
    float *buffer = spmd__workspace(ctx, SPMD__SPACE_KERNEL, x->dtype == SPMD_F32 ? 0 : (size_t)piece * sizeof *buffer);
    SPMD_CHECK(buffer, SPMD_ENOMEM, "argmax: no memory for %lld elements: %s", (long long)piece, spmd_last_error());
    for (int64_t at = 0; at < count; at += piece) {
        const float *from = spmd__read_f32(x, at, piece, buffer);
        for (int64_t i = 0; i < inner; i++)
            *y++ = first_maximum(from + i, n, inner);
    }
    return SPMD_OK;
}

static void argmax_rule(const spmd_call *call, spmd_labels *labels)
{
    int8_t kept = 0;
    for (int d = 0; d < call->in[0].rank; d++)
        if (d != (int)call->attr.i[0]) {
            labels->in[0][d] = labels->out[0][kept] = kept;
            kept++;
        }
}

static const spmd_op argmax_op = {
    .name = "argmax",
    .shape = argmax_shape,
    .host = argmax_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__argmax_cuda),
    .rule = argmax_rule,
    .stops_gradient = true,
};

spmd_status spmd_argmax(spmd_ctx *ctx, const spmd_tensor *x, int dim, spmd_tensor *out)
{
    spmd_attr attr = {0};
    int d;
    SPMD_TRY(spmd__dim("argmax", x->rank, dim, &d));
    attr.i[0] = d;
    return spmd__emit(ctx, &argmax_op, &attr, x, 1, out, 1);
}
