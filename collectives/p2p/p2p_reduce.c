/* Reductions over peer memory, in rank order: every element's bits are those of the host backend, whatever the way.
 *
 * One-shot: every shard folds all elements into its own outputs; fewer, smaller writes over the links. Two-shot: every
 * shard folds its share and writes it to all outputs; each byte crosses the links once, and outputs may be inputs. */
#include "collectives/nccl/nccl_coll.h"
#include "collectives/p2p/p2p.h"

enum { ONE_SHOT = 256 << 10, PER_SHARE = 16 }; /* bytes; elements: shares keep 16-byte alignment for every dtype */

static bool one_shot(const spmd_kernel_args *args)
{
    int64_t bytes = 0;
    for (int k = 0; k < args->nin; k++) {
        bytes += (int64_t)spmd__view_bytes(&args->in[k]);
        for (int j = 0; j < args->nout; j++)
            if (args->in[k].data == args->out[j].data)
                return false;
    }
    return bytes <= ONE_SHOT;
}

static int64_t bytes_of(spmd_dtype dtype, int64_t n)
{
    return n * (int64_t)spmd_dtype_size(dtype);
}

/* Elements [from, to) of tensor k. */
static spmd_status fold_range(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_post *posts, bool all_outputs,
                              int k, int64_t from, int64_t to, spmd_p2p_folds *folds)
{
    const spmd_view *in = &args->in[k], *out = &args->out[k];
    const void *src[SPMD_MAX_DEVICES];
    void *dst[SPMD_MAX_DEVICES];
    dst[0] = (char *)out->data + bytes_of(out->dtype, from);
    for (int p = 0; p < folds->nsrc; p++) {
        src[p] = (const char *)spmd__p2p_input(posts[p], k) + bytes_of(in->dtype, from);
        if (all_outputs)
            dst[p] = (char *)spmd__p2p_output(posts[p], k) + bytes_of(out->dtype, from);
    }
    return spmd__p2p_fold(ctx, folds, in->dtype, out->dtype, src, dst, to - from, to - from);
}

spmd_status spmd__reduction_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const char *op = spmd__reduction_name((spmd_reduction)args->attr->i[0]);
    spmd_coll coll;
    spmd_post room[SPMD_MAX_DEVICES];
    bool done = false;
    SPMD_TRY(spmd__nccl_reduce(ctx, op, args, &done));
    if (done)
        return SPMD_OK;
    SPMD_TRY(spmd__p2p_open(ctx, op, args, &coll));
    const spmd_post *sorted = spmd__coll_sorted(&coll, room);
    bool alone = one_shot(args) || coll.n == 1 || coll.mailed; /* mailed: outputs cannot be reached */
    double divisor = args->attr->f[0] > 0 ? args->attr->f[0] : coll.n;
    spmd_p2p_folds folds = {.kind = (int)args->attr->i[0], .divisor = (float)divisor, .nsrc = coll.n, .pieces = 1};
    folds.ndst = alone ? 1 : coll.n;
    for (int k = 0; k < args->nin; k++) {
        int64_t count = spmd_view_count(&args->in[k]), units = (count + PER_SHARE - 1) / PER_SHARE;
        int64_t from = alone ? 0 : units * coll.me / coll.n * PER_SHARE;
        int64_t to = alone ? count : units * (coll.me + 1) / coll.n * PER_SHARE;
        to = to < count ? to : count;
        if (from < to)
            SPMD_TRY(fold_range(ctx, args, sorted, !alone, k, from, to, &folds));
    }
    SPMD_TRY(spmd__p2p_fold_flush(ctx, &folds));
    return spmd__p2p_close(ctx, &coll);
}

spmd_status spmd__psum_scatter_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    spmd_post room[SPMD_MAX_DEVICES];
    const void *src[SPMD_MAX_DEVICES];
    bool done = false;
    SPMD_TRY(spmd__nccl_scatter(ctx, args, &done));
    if (done)
        return SPMD_OK;
    SPMD_TRY(spmd__p2p_open(ctx, "psum_scatter", args, &coll));
    const spmd_post *sorted = spmd__coll_sorted(&coll, room);
    spmd_p2p_folds folds = {.kind = SPMD_REDUCE_SUM, .divisor = 1, .nsrc = coll.n, .ndst = 1};
    folds.pieces = coll.n;
    folds.piece = coll.me;
    for (int k = 0; k < args->nin; k++) {
        const spmd_view *out = &args->out[k];
        for (int p = 0; p < coll.n; p++)
            src[p] = spmd__p2p_input(sorted[p], k);
        int64_t run = spmd__coll_run(out->shape, (int)args->attr->i[SPMD_COLL_DIM], out->rank);
        SPMD_TRY(
            spmd__p2p_fold(ctx, &folds, args->in[k].dtype, out->dtype, src, &out->data, spmd_view_count(out), run));
    }
    SPMD_TRY(spmd__p2p_fold_flush(ctx, &folds));
    return spmd__p2p_close(ctx, &coll);
}
