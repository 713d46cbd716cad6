/* reshape: the same memory under another shape. */
#include "kernels/given_shape.h"
#include "kernels/kernels.h"
#include "spmd/linear.h"
#include "spmd/rule.h"

static spmd_status reshape_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor *out = &call->out[0];
    char from[96], to[96];
    (void)ctx;
    out->dtype = x->dtype;
    spmd__given_shape(&call->attr, out);
    SPMD_CHECK(spmd_count(x) == spmd_count(out), SPMD_ESHAPE, "reshape: %s has %lld elements, %s would have %lld",
               spmd__shape_text(x, from), (long long)spmd_count(x), spmd__shape_text(out, to),
               (long long)spmd_count(out));
    return SPMD_OK;
}

static spmd_status reshape_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                spmd_tensor *gin)
{
    return need[0] ? spmd_reshape(ctx, ct, call->in[0].rank, call->in[0].shape, &gin[0]) : SPMD_OK;
}

/* One letter for every group of neighbouring dimensions that is as large on both sides ([6,4] to [2,3,4]: 6 and 2,3,
 * then 4 and 4): its first dimension on either side, if they are cut alike, begins the same pieces of memory. */
static void reshape_rule(const spmd_call *call, spmd_labels *labels)
{
    const spmd_tensor *x = &call->in[0], *y = &call->out[0];
    int i = 0, j = 0;
    if (spmd_count(x) == 0)
        return;
    for (int8_t letter = 0;; letter++) {
        while (i < x->rank && x->shape[i] == 1)
            i++;
        while (j < y->rank && y->shape[j] == 1)
            j++;
        if (i == x->rank)
            return;
        labels->in[0][i] = labels->out[0][j] = letter;
        int64_t from = x->shape[i++], to = y->shape[j++];
        while (from != to)
            if (from < to)
                from *= x->shape[i++];
            else
                to *= y->shape[j++];
    }
}

static const spmd_op reshape_op = {
    .name = "reshape",
    .shape = reshape_shape,
    .grad = reshape_grad,
    .rule = reshape_rule,
    .linear = 1,
    .view = true,
};

spmd_status spmd__linear_reshape(spmd_ctx *ctx, const spmd_tensor *in, int rank, const int64_t *shape, spmd_tensor *out)
{
    spmd_attr attr = {0};
    SPMD_TRY(spmd__give_shape("reshape", rank, shape, &attr));
    return spmd__emit(ctx, &reshape_op, &attr, in, 1, out, 1);
}

/* The size that stands for -1 (dimension `open`): what the others leave of x. */
static spmd_status open_size(const spmd_tensor *x, int rank, const int64_t *shape, int open, int64_t *size)
{
    int64_t others = 1, count = spmd_count(x);
    char text[96];
    for (int d = 0; d < rank; d++)
        others *= d == open ? 1 : shape[d];
    SPMD_CHECK(
        others > 0 && count % others == 0, SPMD_ESHAPE,
        "reshape: size -1 of dimension %d cannot be found: %s has %lld elements, the other sizes make %lld; give "
        "it as a number",
        open, spmd__shape_text(x, text), (long long)count, (long long)others);
    *size = count / others;
    return SPMD_OK;
}

spmd_status spmd_reshape(spmd_ctx *ctx, const spmd_tensor *x, int rank, const int64_t *shape, spmd_tensor *out)
{
    int64_t full[SPMD_MAX_RANK];
    int open = -1;
    for (int d = 0; d < rank && d < SPMD_MAX_RANK; d++) {
        full[d] = shape[d];
        SPMD_CHECK(shape[d] != -1 || open < 0, SPMD_ESHAPE, "reshape: sizes of dimensions %d and %d are -1, one may be",
                   open, d);
        if (shape[d] == -1)
            open = d;
    }
    if (open >= 0)
        SPMD_TRY(open_size(x, rank, shape, open, &full[open]));
    return spmd__linear_reshape(ctx, x, rank, full, out);
}
