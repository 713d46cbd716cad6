/* slice_own, pad_own (private): this shard's slice of a value, and the reverse, zeros around it. They are the transpose
 * of an all_gather to invarying whose cotangent is settled, and each other's. All is local: what a shard's own copy
 * contributes is pad_own, and who wants the sum over the copies makes it. The slice is found in the kernels, not in the
 * attributes, which must be the same everywhere. */
#include "collectives/coll.h"
#include "spmd/linear.h"
#include <string.h>

spmd_status spmd__slice_own_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__pad_own_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status slice_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    spmd__same_shape(&call->out[0], &call->in[0]);
    spmd__coll_shrink(&call->out[0], (int)call->attr.i[SPMD_COLL_DIM], spmd__axes_size(mesh, &call->attr.axes),
                      call->attr.i[SPMD_COLL_TILED] != 0);
    call->out[0].vary |= call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status pad_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    spmd__same_shape(&call->out[0], &call->in[0]);
    spmd__coll_grow(&call->out[0], (int)call->attr.i[SPMD_COLL_DIM], spmd__axes_size(mesh, &call->attr.axes),
                    call->attr.i[SPMD_COLL_TILED] != 0);
    call->out[0].vary |= call->attr.axes.mask;
    return SPMD_OK;
}

/* Where the slice lies in the whole. */
static spmd_pieces own(spmd_ctx *ctx, const spmd_attr *attr, const spmd_view *slice)
{
    return (spmd_pieces){spmd__coll_run(slice->shape, (int)attr->i[SPMD_COLL_DIM], slice->rank),
                         spmd__axes_size(spmd_ctx_mesh(ctx), &attr->axes), spmd__axes_index(ctx, &attr->axes)};
}

static spmd_status slice_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = &args->in[0], *out = &args->out[0];
    spmd_pieces place = own(ctx, args->attr, out);
    spmd__copy_piece(spmd__copy, out->data, (spmd_pieces){place.run, 1, 0}, in->data, place, spmd_view_count(out),
                     spmd_dtype_size(out->dtype));
    return SPMD_OK;
}

static spmd_status pad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = &args->in[0], *out = &args->out[0];
    spmd_pieces place = own(ctx, args->attr, in);
    size_t size = spmd_dtype_size(out->dtype);
    if (spmd_view_count(out))
        memset(out->data, 0, (size_t)spmd_view_count(out) * size);
    spmd__copy_piece(spmd__copy, out->data, place, in->data, (spmd_pieces){place.run, 1, 0}, spmd_view_count(in), size);
    return SPMD_OK;
}

static spmd_status slice_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin);
static spmd_status pad_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin);

static const spmd_op slice_own = {.name = "slice_own",
                                  .shape = slice_shape,
                                  .grad = slice_grad,
                                  .host = slice_host,
                                  .cuda = SPMD_CUDA_KERNEL(spmd__slice_own_cuda),
                                  .linear = 1};
static const spmd_op pad_own = {.name = "pad_own",
                                .shape = pad_shape,
                                .grad = pad_grad,
                                .host = pad_host,
                                .cuda = SPMD_CUDA_KERNEL(spmd__pad_own_cuda),
                                .linear = 1};

static spmd_status slice_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin)
{
    (void)need;
    SPMD_TRY(spmd__emit(ctx, &pad_own, &call->attr, ct, 1, gin, 1));
    return SPMD_OK;
}

static spmd_status pad_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                            spmd_tensor *gin)
{
    (void)need;
    SPMD_TRY(spmd__emit(ctx, &slice_own, &call->attr, ct, 1, gin, 1));
    return SPMD_OK;
}

spmd_status spmd__slice_own(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out)
{
    SPMD_TRY(spmd__emit(ctx, &slice_own, attr, in, 1, out, 1));
    return SPMD_OK;
}

spmd_status spmd__linear_slice(spmd_ctx *ctx, const spmd_tensor *in, int dim, const spmd_axes *axes, spmd_tensor *out)
{
    spmd_attr attr = {.i = {[SPMD_COLL_DIM] = dim, [SPMD_COLL_TILED] = true}, .axes = *axes};
    return spmd__slice_own(ctx, in, &attr, out);
}
