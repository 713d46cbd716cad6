/* all_to_all: slice k of one dimension goes to shard k; what arrives is joined by source along another. */
#include "collectives/coll.h"
#include "spmd/linear.h"

enum { SPLIT, CONCAT, TILED }; /* attr.i */

static spmd_status exchange_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *in = &call->in[0];
    spmd_tensor *out = &call->out[0];
    bool tiled = call->attr.i[TILED] != 0;
    int n = spmd__coll_size(ctx, &call->attr), split, concat;
    SPMD_TRY(spmd__coll_whole(ctx, "all_to_all", in, call->attr.axes.mask));
    SPMD_TRY(spmd__dim("all_to_all (.split)", in->rank, call->attr.i[SPLIT], &split));
    SPMD_TRY(spmd__dim("all_to_all (.concat)", in->rank, call->attr.i[CONCAT], &concat)); /* the ranks are equal */
    SPMD_TRY(spmd__coll_check_cut("all_to_all", in, split, n, tiled));
    call->attr.i[SPLIT] = split;
    call->attr.i[CONCAT] = concat;
    spmd__same_shape(out, in);
    spmd__coll_shrink(out, split, n, tiled);
    spmd__coll_grow(out, concat, n, tiled);
    out->vary = in->vary | call->attr.axes.mask;
    out->partial = in->partial;
    return SPMD_OK;
}

static spmd_status exchange(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out);

static spmd_status exchange_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                 spmd_tensor *gin)
{
    (void)need;
    spmd_attr attr = call->attr;
    attr.i[SPLIT] = call->attr.i[CONCAT];
    attr.i[CONCAT] = call->attr.i[SPLIT];
    return exchange(ctx, ct, &attr, gin);
}

/* A run is the part of a piece behind the dimension; tiled, the dimension itself belongs to it. */
void spmd__all_to_all_runs(const spmd_kernel_args *args, int n, int64_t *from, int64_t *to)
{
    const spmd_view *in = &args->in[0], *out = &args->out[0];
    int tiled = args->attr->i[TILED] != 0;
    *from = spmd__coll_run(in->shape, (int)args->attr->i[SPLIT] + !tiled, in->rank) / (tiled ? n : 1);
    *to = spmd__coll_run(out->shape, (int)args->attr->i[CONCAT] + !tiled, out->rank) / (tiled ? n : 1);
}

static spmd_status exchange_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = &args->in[0], *out = &args->out[0];
    spmd_coll coll;
    SPMD_TRY(spmd__coll_open(ctx, "all_to_all", args, NULL, &coll));
    int n = coll.n;
    int64_t from, to, count = spmd__block_count(in->rank, in->shape) / n;
    spmd__all_to_all_runs(args, n, &from, &to);
    for (int step = 0, k = coll.me; step < n; step++, k = k + 1 < n ? k + 1 : 0) /* everybody starts with another one */
        spmd__copy_piece(coll.copy, out->data, (spmd_pieces){to, n, k}, spmd__coll_input(&coll, args, coll.posts[k], 0),
                         (spmd_pieces){from, n, coll.me}, count, spmd__dtype_size(in->dtype));
    SPMD_TRY(spmd__coll_close(ctx, &coll));
    return SPMD_OK;
}

static spmd_status exchange(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out)
{
    static const spmd_op op = {.name = "all_to_all",
                               .shape = exchange_shape,
                               .grad = exchange_grad,
                               .host = exchange_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__all_to_all_cuda),
                               .collective = true};
    SPMD_TRY(spmd__emit(ctx, &op, attr, in, 1, out, 1));
    return SPMD_OK;
}

spmd_status spmd__linear_exchange(spmd_ctx *ctx, const spmd_tensor *in, int split, int concat, const spmd_axes *axes,
                                  spmd_tensor *out)
{
    spmd_attr attr = {.i = {[SPLIT] = split, [CONCAT] = concat, [TILED] = true}, .axes = *axes};
    return exchange(ctx, in, &attr, out);
}

spmd_status(spmd_all_to_all)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, const spmd_exchange_opts *opts,
                             spmd_tensor *out)
{
    spmd_exchange_opts use = opts ? *opts : (spmd_exchange_opts){0};
    spmd_attr attr = {.i = {[SPLIT] = use.split, [CONCAT] = use.concat, [TILED] = use.tiled}};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    SPMD_TRY(spmd__groups_parse("all_to_all", use.groups, spmd__coll_size(ctx, &attr), true, &attr));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    return exchange(ctx, in, &attr, out);
}
