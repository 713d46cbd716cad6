/* pcast, pcast_partial: change what is known about a value, not the value. Both are views with a number of their own,
 * so that the tape keeps the operand's state. Their transpose is the identity: a cotangent of an invarying value may
 * vary (it is pending, see spmd/grad.h), and the tape settles it where that is best. */
#include "collectives/coll.h"
#include "spmd/linear.h"

static spmd_status vary_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].vary |= call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status partial_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].partial |= call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status cast_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    (void)ctx;
    (void)call;
    (void)need;
    gin[0] = ct[0];
    return SPMD_OK;
}

static const spmd_op pcast = {.name = "pcast", .shape = vary_shape, .grad = cast_grad, .linear = 1, .view = true};
static const spmd_op pcast_partial = {
    .name = "pcast_partial", .shape = partial_shape, .grad = cast_grad, .linear = 1, .view = true};

spmd_status spmd__linear_pcast(spmd_ctx *ctx, const spmd_tensor *in, unsigned mask, spmd_tensor *out)
{
    spmd_attr attr = {0};
    spmd__mask_axes(mask & ~in->vary, &attr.axes);
    if (attr.axes.n == 0 || spmd__is_automatic(ctx)) {
        *out = *in;
        return SPMD_OK;
    }
    SPMD_TRY(spmd__emit(ctx, &pcast, &attr, in, 1, out, 1));
    return SPMD_OK;
}

spmd_status spmd_pcast(spmd_ctx *ctx, const spmd_tensor *in, const char *text, spmd_tensor *out)
{
    spmd_axes axes;
    char type[128], names[128];
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &axes));
    if (in->vary & axes.mask)
        spmd_tensor_format(ctx, in, type, sizeof type);
    SPMD_CHECK(!(in->vary & axes.mask), SPMD_EINVAL, "pcast of %s: it varies over '%s' already; name only the others",
               type, spmd__mask_text(spmd_ctx_mesh(ctx), in->vary & axes.mask, names));
    return spmd__linear_pcast(ctx, in, axes.mask, out);
}

spmd_status spmd_pcast_partial(spmd_ctx *ctx, const spmd_tensor *in, const char *text, spmd_tensor *out)
{
    spmd_attr attr = {0};
    char type[128], names[128];
    SPMD_CHECK(!spmd__is_automatic(ctx), SPMD_EAXIS,
               "pcast_partial has no meaning on global values: the automatic mode keeps partial sums by itself");
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    unsigned settled = attr.axes.mask & ~in->vary, again = attr.axes.mask & in->partial;
    if (settled || again)
        spmd_tensor_format(ctx, in, type, sizeof type);
    SPMD_CHECK(!settled, SPMD_EINVAL,
               "pcast_partial of %s: it does not vary over '%s', so its sum is not known; pcast it to varying first",
               type, spmd__mask_text(spmd_ctx_mesh(ctx), settled, names));
    SPMD_CHECK(!again, SPMD_EINVAL, "pcast_partial of %s: it is partial over '%s' already; name only the others", type,
               spmd__mask_text(spmd_ctx_mesh(ctx), again, names));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    SPMD_TRY(spmd__emit(ctx, &pcast_partial, &attr, in, 1, out, 1));
    return SPMD_OK;
}
