/* psum, pmean, pmax and pmin: what they have in common. One op reduces n tensors in one meeting.
 *
 * The gradient of a sum is the op itself, over the axes on which the cotangent is still pending (so often over none),
 * then a free cast: with no axes left a mean is just the division, which needs no other op. */
#include "collectives/coll.h"
#include "spmd/known.h"
#include "spmd/linear.h"

const char *spmd__reduction_name(spmd_reduction kind)
{
    static const char *const names[] = {"psum", "pmean", "pmax", "pmin"};
    return names[kind];
}

spmd_dtype spmd__reduction_dtype(spmd_reduction kind, spmd_dtype dtype)
{
    if (kind == SPMD_REDUCE_MEAN)
        return spmd_dtype_is_float(dtype) ? dtype : SPMD_F32;
    return kind == SPMD_REDUCE_SUM && dtype == SPMD_BOOL ? SPMD_I32 : dtype;
}

spmd_status spmd__reduction_shape(spmd_ctx *ctx, spmd_call *call)
{
    spmd_reduction kind = (spmd_reduction)call->attr.i[0];
    bool groups = call->attr.i[SPMD_COLL_GROUPS] != 0;
    uint8_t mask = call->attr.axes.mask, kept = (uint8_t)~mask;
    for (int k = 0; k < call->nin; k++) {
        const spmd_tensor *in = &call->in[k];
        if (kind == SPMD_REDUCE_MAX || kind == SPMD_REDUCE_MIN)
            SPMD_TRY(spmd__coll_whole(ctx, spmd__reduction_name(kind), in, ~0u));
        if (groups) /* a sum over a part is not the sum */
            SPMD_TRY(spmd__coll_whole(ctx, spmd__reduction_name(kind), in, mask));
        spmd__same_shape(&call->out[k], in);
        call->out[k].dtype = spmd__reduction_dtype(kind, in->dtype);
        call->out[k].vary = groups ? in->vary | mask : in->vary & kept; /* groups differ */
        call->out[k].partial = in->partial & kept;
    }
    return SPMD_OK;
}

spmd_status spmd__reduction_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd__all_reduce(ctx, spmd__reduction_name((spmd_reduction)args->attr->i[0]), args);
}

/* The gradients of those inputs whose cotangent is pending over exactly the axes of `pending`, in one meeting. */
static spmd_status grad_pending(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                unsigned pending, spmd_tensor *gin)
{
    unsigned mask = call->attr.axes.mask;
    spmd_tensor *list = spmd__scratch(ctx, (size_t)call->nin * sizeof *list);
    if (!list)
        return SPMD_ENOMEM;
    int n = 0;
    for (int k = 0; k < call->nin; k++)
        if (need[k] && (ct[k].vary & mask) == pending)
            list[n++] = ct[k];
    spmd_attr attr = call->attr;
    spmd__mask_axes(pending, &attr.axes);
    if (n && (pending || attr.i[0] == SPMD_REDUCE_MEAN))
        SPMD_TRY(spmd__emit(ctx, call->op, &attr, list, n, list, n));
    for (int k = 0, i = 0; k < call->nin; k++)
        if (need[k] && (ct[k].vary & mask) == pending)
            SPMD_TRY(spmd__linear_pcast(ctx, &list[i++], mask, &gin[k]));
    return SPMD_OK;
}

spmd_status spmd__reduction_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                 spmd_tensor *gin)
{
    unsigned mask = call->attr.axes.mask, pending[1 << SPMD_MAX_AXES] = {0};
    if (call->attr.i[SPMD_COLL_GROUPS]) /* the output varies, and so does its cotangent: the op is its own transpose */
        return spmd__emit(ctx, call->op, &call->attr, ct, call->nin, gin, call->nin);
    for (int k = 0; k < call->nin; k++)
        pending[ct[k].vary & mask] |= need[k];
    for (unsigned set = 0; set <= mask; set++)
        if (pending[set])
            SPMD_TRY(grad_pending(ctx, call, ct, need, set, gin));
    return SPMD_OK;
}

/* Most often a mistake: a loss that was averaged before, or gradients of an averaged loss. */
static void warn_reduced(spmd_ctx *ctx, spmd_reduction kind, const spmd_tensor *in, unsigned mask)
{
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    int size = spmd__mask_size(mesh, mask);
    char shape[96], axes[128];
    if (size == 1)
        return;
    spmd__shape_text(in, shape);
    spmd__mask_text(mesh, mask, axes);
    if (kind == SPMD_REDUCE_SUM)
        spmd__warn(ctx, spmd__site(ctx),
                   "%s: psum over '%s' of %s, which is already the same on every shard there: the result is %d "
                   "times the input; drop the psum if the value was reduced before",
                   spmd__site(ctx), axes, shape, size);
    if (kind == SPMD_REDUCE_MEAN)
        spmd__warn(ctx, spmd__site(ctx),
                   "%s: pmean over '%s' of %s, which is already the same on every shard there: the result is the "
                   "input; drop the pmean",
                   spmd__site(ctx), axes, shape);
}

static spmd_status reduce(spmd_ctx *ctx, const spmd_op *op, spmd_reduction kind, const spmd_tensor *in, int n,
                          const char *text, spmd_tensor *out)
{
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    spmd_axes axes;
    SPMD_CHECK(n >= 0, SPMD_EINVAL, "%s of a list of %d tensors; expected 0 or more", op->name, n);
    SPMD_TRY(spmd__axes_parse(mesh, text, &axes));
    /* In automatic mode values are the same everywhere, and so are their mean and their largest. */
    bool identity = spmd__is_automatic(ctx) && kind != SPMD_REDUCE_SUM;
    if (axes.n == 0 || n == 0 || identity) {
        for (int k = 0; k < n; k++) {
            SPMD_CHECK(!identity || spmd__reduction_dtype(kind, in[k].dtype) == in[k].dtype, SPMD_EDTYPE,
                       "%s of %s in automatic mode: cast it to f32 first", op->name, spmd_dtype_name(in[k].dtype));
            out[k] = in[k];
        }
        return SPMD_OK;
    }
    spmd_attr attr = {.i = {kind}, .f = {kind == SPMD_REDUCE_MEAN ? spmd__axes_size(mesh, &axes) : 1}};
    spmd__mask_axes(axes.mask, &attr.axes);
    bool reduced = false;
    for (int k = 0; k < n; k++)
        if (spmd__mask_size(mesh, in[k].vary & axes.mask) == 1) {
            warn_reduced(ctx, kind, &in[k], axes.mask);
            reduced = true;
        }
    SPMD_TRY(spmd__emit(ctx, op, &attr, in, n, out, n));
    if (n == 1 && !reduced) /* else every place of such a call has its warning */
        spmd__remember_text(ctx, op, text);
    return SPMD_OK;
}

spmd_status spmd__reduce(spmd_ctx *ctx, const spmd_op *op, spmd_reduction kind, const spmd_tensor *in, int n,
                         const char *text, spmd_tensor *out)
{
    spmd_known *known = n == 1 ? spmd__known_text(ctx, op, text, in) : NULL;
    return known ? spmd__emit_known(ctx, known, in, out) : reduce(ctx, op, kind, in, n, text, out);
}

spmd_status spmd__reduce_groups(spmd_ctx *ctx, const spmd_op *op, spmd_reduction kind, const spmd_tensor *in,
                                const char *text, const char *groups, spmd_tensor *out)
{
    spmd_attr attr = {.i = {kind}};
    SPMD_CHECK(groups, SPMD_EINVAL, "%s: groups is NULL; expected e.g. \"0,1;2,3\", or use spmd_%s", op->name,
               op->name);
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    SPMD_TRY(spmd__groups_parse(op->name, groups, spmd__coll_size(ctx, &attr), false, &attr));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    SPMD_TRY(spmd__emit(ctx, op, &attr, in, 1, out, 1));
    return SPMD_OK;
}
