/* The op behind spmd_custom: one descriptor for all user kernels; the definition travels in the attributes. */
#include "spmd/backend.h"
#ifdef SPMD_HAVE_CUDA
#include "spmd/cuda/cuda_ctx.h"
#endif
#include "spmd/rule.h"

static const spmd_custom_op *definition(const spmd_attr *attr)
{
    return attr->definition;
}

static spmd_status custom_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_custom_op *d = definition(&call->attr);
    SPMD_TRY(d->shape(call->in, call->nin, call->out, call->nout, d->user));
    for (int k = 0; k < call->nout; k++) {
        SPMD_CHECK(spmd_dtype_size(call->out[k].dtype) && call->out[k].rank >= 0 && call->out[k].rank <= SPMD_MAX_RANK,
                   SPMD_ESHAPE, "custom op '%s': its shape function set dtype %d and rank %d for output %d", d->name,
                   (int)call->out[k].dtype, call->out[k].rank, k);
        for (int i = 0; i < call->out[k].rank; i++)
            SPMD_CHECK(call->out[k].shape[i] >= 0, SPMD_ESHAPE,
                       "custom op '%s': its shape function set size %lld for dimension %d of output %d", d->name,
                       (long long)call->out[k].shape[i], i, k);
        call->out[k].vary |= call->attr.axes.mask;
    }
    return d->rule ? spmd__check_label(d->name, call, d->rule) : SPMD_OK;
}

static void custom_rule(const spmd_call *call, spmd_labels *labels)
{
    if (definition(&call->attr)->rule)
        spmd__label(call, labels, definition(&call->attr)->rule);
}

static spmd_status custom_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    const spmd_custom_op *d = definition(args->attr);
    SPMD_CHECK(d->host, SPMD_EUNSUPPORTED, "custom op '%s' has no kernel for backend host (.host is NULL)", d->name);
    return d->host(args->in, args->nin, args->out, args->nout, d->user);
}

#ifdef SPMD_HAVE_CUDA
static const spmd_op custom_op;

static spmd_status custom_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_custom_op *d = definition(args->attr);
    if (!d->cuda)
        return spmd__run_on_copies(ctx, &custom_op, args);
    return d->cuda(args->in, args->nin, args->out, args->nout, spmd__cuda_stream(ctx), d->user);
}
#endif

static spmd_status custom_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    const spmd_custom_op *d = definition(&call->attr);
    SPMD_CHECK(d->grad, SPMD_EGRAD,
               "custom op '%s' has no gradient, but a parameter depends on it: set .grad, or use "
               "spmd_stop_gradient on its inputs",
               d->name);
    return d->grad(ctx, call->in, call->nin, call->out, call->nout, ct, need, gin, d->user);
}

static const spmd_op custom_op = {.name = "custom",
                                  .shape = custom_shape,
                                  .host = custom_host,
                                  .cuda = SPMD_CUDA_KERNEL(custom_cuda),
                                  .grad = custom_grad,
                                  .rule = custom_rule};

spmd_status spmd_custom(spmd_ctx *ctx, const spmd_custom_op *op, const spmd_tensor *in, int nin, spmd_tensor *out,
                        int nout)
{
    SPMD_CHECK(op && op->name && op->shape, SPMD_EINVAL, "spmd_custom: op, op->name and op->shape must not be NULL");
    SPMD_CHECK(nin >= 0 && nout > 0, SPMD_EINVAL, "custom op '%s': nin %d must be >= 0 and nout %d > 0", op->name, nin,
               nout);
    spmd_attr attr = {.definition = op};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), op->varies ? op->varies : "", &attr.axes));
    return spmd__emit(ctx, &custom_op, &attr, in, nin, out, nout);
}
