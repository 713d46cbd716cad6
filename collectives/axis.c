/* Where a shard is: its index along mesh axes, and how many there are. The index is found in the kernel, not in the
 * attributes, which must be the same on every shard. */
#include "collectives/coll.h"

spmd_status spmd__axis_index_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status index_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    call->out[0].dtype = SPMD_I32;
    call->out[0].rank = 0;
    call->out[0].vary = call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status index_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    *(int32_t *)args->out[0].data = spmd__axes_index(ctx, &args->attr->axes);
    return SPMD_OK;
}

spmd_status spmd_axis_index(spmd_ctx *ctx, const char *axes, spmd_tensor *out)
{
    static const spmd_op op = {.name = "axis_index",
                               .shape = index_shape,
                               .host = index_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__axis_index_cuda),
                               .collective = true};
    spmd_attr attr = {0};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), axes, &attr.axes));
    SPMD_TRY(spmd__emit(ctx, &op, &attr, NULL, 0, out, 1));
    return SPMD_OK;
}

spmd_status spmd_axis_size(spmd_ctx *ctx, const char *text, int *out)
{
    spmd_axes axes;
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &axes));
    *out = spmd__axes_size(spmd_ctx_mesh(ctx), &axes);
    return SPMD_OK;
}
