/* all_gather: every shard gets all blocks, in the order of the axis indices.
 *
 * Gathered to varying, its transpose is psum_scatter. Gathered to invarying, the cotangent is either still pending (the
 * same transpose) or settled, the same on every shard: then a shard just takes its own slice. */
#include "collectives/coll.h"
#include "spmd/linear.h"

static spmd_status gather_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *in = &call->in[0];
    spmd_tensor *out = &call->out[0];
    unsigned mask = call->attr.axes.mask;
    bool tiled = call->attr.i[SPMD_COLL_TILED] != 0;
    int dim;
    char text[96];
    SPMD_TRY(spmd__coll_whole(ctx, "all_gather", in, mask));
    SPMD_CHECK(tiled || in->rank < SPMD_MAX_RANK, SPMD_ESHAPE,
               "all_gather of %s: the result would have rank %d, at most %d is allowed; use .tiled = true",
               spmd__shape_text(in, text), in->rank + 1, SPMD_MAX_RANK);
    SPMD_TRY(spmd__dim("all_gather", in->rank + !tiled, call->attr.i[SPMD_COLL_DIM], &dim));
    call->attr.i[SPMD_COLL_DIM] = dim;
    spmd__same_shape(out, in);
    spmd__coll_grow(out, dim, spmd__coll_size(ctx, &call->attr), tiled);
    out->vary = (uint8_t)(call->attr.i[SPMD_COLL_TO] == SPMD_TO_INVARYING ? in->vary & ~mask : in->vary | mask);
    out->partial = in->partial;
    return SPMD_OK;
}

static spmd_status gather_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    (void)need;
    unsigned mask = call->attr.axes.mask, pending = ct->vary & mask;
    spmd_attr attr = call->attr;
    attr.i[SPMD_COLL_TO] = 0;
    if (!spmd__coll_moves(ctx, mask & ~pending))
        return spmd__psum_scatter(ctx, ct, &attr, gin);
    spmd_tensor settled = *ct;
    if (pending)
        SPMD_TRY(spmd__linear_psum(ctx, ct, 1, pending, &settled));
    return spmd__slice_own(ctx, &settled, &attr, gin);
}

/* Of input `list`, which may be one of several: programs merge calls. */
static void gather_one(const spmd_coll *coll, const spmd_kernel_args *args, int list)
{
    const spmd_view *in = &args->in[list];
    int64_t run = spmd__coll_run(in->shape, (int)args->attr->i[SPMD_COLL_DIM], in->rank);
    int64_t count = spmd__block_count(in->rank, in->shape);
    size_t size = spmd__dtype_size(in->dtype);
    int n = coll->n;
    for (int i = 0, k = coll->me; i < n; i++, k = k + 1 < n ? k + 1 : 0) /* everybody starts with another one */
        spmd__copy_piece(coll->copy, args->out[list].data, (spmd_pieces){run, n, k},
                         spmd__coll_input(coll, args, coll->posts[k], list), (spmd_pieces){run, 1, 0}, count, size);
}

static spmd_status gather_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    SPMD_TRY(spmd__coll_open(ctx, "all_gather", args, NULL, &coll));
    for (int list = 0; list < args->nin; list++)
        gather_one(&coll, args, list);
    SPMD_TRY(spmd__coll_close(ctx, &coll));
    return SPMD_OK;
}

spmd_status spmd__all_gather(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out)
{
    static const spmd_op op = {.name = "all_gather",
                               .shape = gather_shape,
                               .grad = gather_grad,
                               .host = gather_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__all_gather_cuda),
                               .list = true,
                               .collective = true};
    SPMD_TRY(spmd__emit(ctx, &op, attr, in, 1, out, 1));
    return SPMD_OK;
}

spmd_status spmd__linear_gather(spmd_ctx *ctx, const spmd_tensor *in, int dim, const spmd_axes *axes, spmd_tensor *out)
{
    spmd_attr attr = {.i = {[SPMD_COLL_DIM] = 1, [SPMD_COLL_TILED] = true, [SPMD_COLL_TO] = SPMD_TO_INVARYING},
                      .axes = *axes};
    spmd_tensor rows, whole = *in;
    spmd__coll_grow(&whole, dim, spmd__axes_size(spmd_ctx_mesh(ctx), axes), true);
    SPMD_TRY(spmd__coll_rows(ctx, in, dim, &rows));
    SPMD_TRY(spmd__all_gather(ctx, &rows, &attr, &rows));
    return spmd__linear_reshape(ctx, &rows, whole.rank, whole.shape, out);
}

spmd_status(spmd_all_gather)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, const spmd_gather_opts *opts,
                             spmd_tensor *out)
{
    spmd_gather_opts use = opts ? *opts : (spmd_gather_opts){0};
    spmd_attr attr = {.i = {[SPMD_COLL_DIM] = use.dim, [SPMD_COLL_TILED] = use.tiled, [SPMD_COLL_TO] = use.to}};
    SPMD_CHECK(use.to == SPMD_TO_VARYING || use.to == SPMD_TO_INVARYING, SPMD_EINVAL,
               "all_gather: .to is %d; expected SPMD_TO_VARYING or SPMD_TO_INVARYING", (int)use.to);
    SPMD_CHECK(!use.groups || use.to == SPMD_TO_VARYING, SPMD_EINVAL,
               "all_gather in groups \"%s\" to invarying: other groups hold other values; use SPMD_TO_VARYING",
               use.groups);
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    SPMD_TRY(spmd__groups_parse("all_gather", use.groups, spmd__coll_size(ctx, &attr), true, &attr));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    return spmd__all_gather(ctx, in, &attr, out);
}
