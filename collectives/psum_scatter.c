/* psum_scatter: the sum over the shards, of which every shard makes and keeps only its slice. */
#include "collectives/coll.h"
#include "spmd/linear.h"

static spmd_status scatter_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *in = &call->in[0];
    spmd_tensor *out = &call->out[0];
    unsigned mask = call->attr.axes.mask;
    bool tiled = call->attr.i[SPMD_COLL_TILED] != 0;
    int n = spmd__coll_size(ctx, &call->attr), dim;
    SPMD_TRY(spmd__dim("psum_scatter", in->rank, call->attr.i[SPMD_COLL_DIM], &dim));
    SPMD_TRY(spmd__coll_check_cut("psum_scatter", in, dim, n, tiled));
    call->attr.i[SPMD_COLL_DIM] = dim;
    spmd__same_shape(out, in);
    spmd__coll_shrink(out, dim, n, tiled);
    out->dtype = spmd__reduction_dtype(SPMD_REDUCE_SUM, in->dtype);
    out->vary = (uint8_t)(in->vary | mask);
    out->partial = (uint8_t)(in->partial & ~mask);
    return SPMD_OK;
}

static spmd_status scatter_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                spmd_tensor *gin)
{
    (void)need;
    return spmd__all_gather(ctx, ct, &call->attr, gin);
}

/* Of input `list`, which may be one of several: programs merge calls. `sorted`: the posts by device; slices go by
 * place, sums by device. */
static void scatter_one(const spmd_coll *coll, const spmd_kernel_args *args, int list, const spmd_post *sorted)
{
    const spmd_view *out = &args->out[list];
    const void *input[SPMD_MAX_DEVICES], *src[SPMD_MAX_DEVICES];
    for (int k = 0; k < coll->n; k++)
        input[k] = spmd__coll_input(coll, args, sorted[k], list);
    spmd_fold fold = {SPMD_REDUCE_SUM, args->in[list].dtype, out->dtype, 1, coll->copy == spmd__stream};
    int64_t run = spmd__coll_run(out->shape, (int)args->attr->i[SPMD_COLL_DIM], out->rank);
    int64_t count = spmd_view_count(out);
    for (int64_t done = 0; done < count; done += run) {
        int64_t first = done * coll->n + coll->me * run;
        for (int k = 0; k < coll->n; k++)
            src[k] = (const char *)input[k] + (size_t)first * spmd_dtype_size(fold.in);
        void *dst = (char *)out->data + (size_t)done * spmd_dtype_size(fold.out);
        spmd__fold(&fold, src, coll->n, &dst, 1, run);
    }
}

static spmd_status scatter_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    spmd_post room[SPMD_MAX_DEVICES];
    SPMD_TRY(spmd__coll_open(ctx, "psum_scatter", args, NULL, &coll));
    const spmd_post *sorted = spmd__coll_sorted(&coll, room);
    for (int list = 0; list < args->nin; list++)
        scatter_one(&coll, args, list, sorted);
    SPMD_TRY(spmd__coll_close(ctx, &coll));
    return SPMD_OK;
}

spmd_status spmd__psum_scatter(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out)
{
    static const spmd_op op = {.name = "psum_scatter",
                               .shape = scatter_shape,
                               .grad = scatter_grad,
                               .host = scatter_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__psum_scatter_cuda),
                               .list = true,
                               .collective = true};
    SPMD_TRY(spmd__emit(ctx, &op, attr, in, 1, out, 1));
    return SPMD_OK;
}

spmd_status spmd__linear_scatter(spmd_ctx *ctx, const spmd_tensor *in, int dim, const spmd_axes *axes, spmd_tensor *out)
{
    spmd_attr attr = {.i = {[SPMD_COLL_DIM] = 1, [SPMD_COLL_TILED] = true}, .axes = *axes};
    spmd_tensor rows, slice = *in;
    spmd__coll_shrink(&slice, dim, spmd__axes_size(spmd_ctx_mesh(ctx), axes), true);
    SPMD_TRY(spmd__coll_rows(ctx, in, dim, &rows));
    SPMD_TRY(spmd__psum_scatter(ctx, &rows, &attr, &rows));
    return spmd__linear_reshape(ctx, &rows, slice.rank, slice.shape, out);
}

spmd_status(spmd_psum_scatter)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, const spmd_scatter_opts *opts,
                               spmd_tensor *out)
{
    spmd_scatter_opts use = opts ? *opts : (spmd_scatter_opts){0};
    spmd_attr attr = {.i = {[SPMD_COLL_DIM] = use.dim, [SPMD_COLL_TILED] = use.tiled}};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    SPMD_TRY(spmd__groups_parse("psum_scatter", use.groups, spmd__coll_size(ctx, &attr), true, &attr));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    return spmd__psum_scatter(ctx, in, &attr, out);
}
