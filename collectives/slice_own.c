/* slice_own (private): this shard's slice of an invarying value; the transpose of an all_gather to invarying whose
 * cotangent is settled. The slice is found in the kernel, not in the attributes, which must be the same everywhere. */
#include "collectives/coll.h"

enum { DIM, TILED }; /* attr.i */

static spmd_status slice_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    spmd_tensor *out = &call->out[0];
    spmd__same_shape(out, &call->in[0]);
    spmd__coll_shrink(out, (int)call->attr.i[DIM], spmd__axes_size(mesh, &call->attr.axes), call->attr.i[TILED] != 0);
    out->vary = call->in[0].vary | call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status slice_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin)
{
    (void)need;
    spmd_gather_opts opts = {(int)call->attr.i[DIM], call->attr.i[TILED] != 0, SPMD_TO_INVARYING};
    return spmd__all_gather(ctx, ct, &call->attr.axes, &opts, gin);
}

static spmd_status slice_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_axes *axes = &args->attr->axes;
    const spmd_view *out = &args->out[0];
    int64_t run = spmd__coll_run(out->shape, (int)args->attr->i[DIM], out->rank);
    spmd_pieces slices = {run, spmd__axes_size(spmd_ctx_mesh(ctx), axes), spmd__axes_index(ctx, axes)};
    spmd__copy_piece(out->data, (spmd_pieces){run, 1, 0}, args->in[0].data, slices, spmd_view_count(out),
                     spmd_dtype_size(out->dtype));
    return SPMD_OK;
}

spmd_status spmd__slice_own(spmd_ctx *ctx, const spmd_tensor *in, const spmd_axes *axes, const spmd_scatter_opts *opts,
                            spmd_tensor *out)
{
    static const spmd_op op = {
        .name = "slice_own", .shape = slice_shape, .grad = slice_grad, .host = slice_host, .collective = true};
    spmd_attr attr = {.i = {[DIM] = opts->dim, [TILED] = opts->tiled}, .axes = *axes};
    SPMD_TRY(spmd__emit(ctx, &op, &attr, in, 1, out, 1));
    return SPMD_OK;
}
