/* All-reduce on the host. Large: every shard folds its share of the elements over all shards' inputs, in rank order,
 * and writes the result to all shards' outputs. Two meetings, every byte read and written once; an element is read and
 * written by one thread only, so outputs may be inputs. Small: by mail. An element's bits depend on neither
 * the way, the shares nor the list. */
#include "collectives/coll.h"

/* Elements of a segment in one cache line of whichever side has the smaller elements, as a power of two: no two shards
 * write into one line. */
static int per_line(const spmd_kernel_args *args, int segment)
{
    enum { LINE = 6 }; /* 64 bytes */
    size_t a = spmd__dtype_size(args->in[segment].dtype), b = spmd__dtype_size(args->out[segment].dtype);
    return LINE - __builtin_ctzll(a < b ? a : b);
}

static int64_t lines(const spmd_kernel_args *args, int segment)
{
    int per = per_line(args, segment);
    return (spmd__block_count(args->in[segment].rank, args->in[segment].shape) + (1 << per) - 1) >> per;
}

static spmd_fold fold_of(const spmd_kernel_args *args, const spmd_coll *coll, int segment)
{
    spmd_fold fold = {(spmd_reduction)args->attr->i[0], args->in[segment].dtype, args->out[segment].dtype, 1,
                      coll->copy == spmd__stream};
    if (fold.kind == SPMD_REDUCE_MEAN)
        fold.divisor = (float)(args->attr->f[0] > 0 ? args->attr->f[0] : coll->n);
    return fold;
}

/* Elements [from, to) of a segment; posts: by device. */
static void fold_range(const spmd_kernel_args *args, int segment, int64_t from, int64_t to, const spmd_coll *coll,
                       const spmd_post *posts)
{
    spmd_fold fold = fold_of(args, coll, segment);
    int n = coll->n;
    int64_t in_size = (int64_t)spmd__dtype_size(fold.in), out_size = (int64_t)spmd__dtype_size(fold.out);
    const void *src[SPMD_MAX_DEVICES];
    void *dst[SPMD_MAX_DEVICES];
    for (int k = 0; k < n; k++) {
        src[k] = (const char *)spmd__coll_input(coll, args, posts[k], segment) + from * in_size;
        dst[k] = (char *)spmd__coll_output(args, posts[k], segment) + from * out_size;
    }
    spmd__fold(&fold, src, n, dst, n, to - from);
}

/* Chunk by chunk; where the last call ended, this one begins: a part of that is still in this core's cache. */
static void fold_segment(const spmd_kernel_args *args, int segment, int64_t from, int64_t to, const spmd_coll *coll,
                         const spmd_post *posts)
{
    enum { CHUNK = 1 << 14 };
    int64_t chunks = (to - from + CHUNK - 1) / CHUNK;
    for (int64_t k = 0; k < chunks; k++) {
        int64_t begin = from + (coll->backwards ? chunks - 1 - k : k) * CHUNK;
        fold_range(args, segment, begin, begin + CHUNK < to ? begin + CHUNK : to, coll, posts);
    }
}

/* The shares are equal counts of lines of all segments one after the other. */
static void fold_share(const spmd_kernel_args *args, const spmd_coll *coll, const spmd_post *sorted)
{
    int64_t total = 0;
    for (int segment = 0; segment < args->nin; segment++)
        total += lines(args, segment);
    int64_t first = total * coll->me / coll->n, last = total * (coll->me + 1) / coll->n;
    int64_t begin = coll->backwards ? total : 0; /* of the segment */
    for (int k = 0; k < args->nin; k++) {
        int segment = coll->backwards ? args->nin - 1 - k : k, per = per_line(args, segment);
        int64_t here = lines(args, segment), count = spmd__block_count(args->in[segment].rank, args->in[segment].shape);
        begin -= coll->backwards ? here : 0;
        int64_t from = (first > begin ? first - begin : 0) << per;
        int64_t to = last < begin + here ? (last - begin) * (1 << per) : count;
        if (from < to)
            fold_segment(args, segment, from, to, coll, sorted);
        begin += coll->backwards ? 0 : here;
    }
}

/* Everything, into this shard's outputs: the inputs came by mail. */
static void fold_all(const spmd_kernel_args *args, const spmd_coll *coll, const spmd_post *sorted)
{
    const void *src[SPMD_MAX_DEVICES];
    for (int segment = 0; segment < args->nin; segment++) {
        spmd_fold fold = fold_of(args, coll, segment);
        for (int k = 0; k < coll->n; k++)
            src[k] = spmd__coll_input(coll, args, sorted[k], segment);
        spmd__fold(&fold, src, coll->n, &args->out[segment].data, 1,
                   spmd__block_count(args->in[segment].rank, args->in[segment].shape));
    }
}

spmd_status spmd__all_reduce(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args)
{
    spmd_coll coll;
    spmd_post room[SPMD_MAX_DEVICES];
    SPMD_TRY(spmd__coll_open(ctx, op, args, NULL, &coll));
    const spmd_post *sorted = spmd__coll_sorted(&coll, room);
    if (coll.mailed)
        fold_all(args, &coll, sorted);
    else
        fold_share(args, &coll, sorted);
    SPMD_TRY(spmd__coll_close(ctx, &coll));
    return SPMD_OK;
}
