/* Collectives that only move blocks, over peer memory: every shard fetches what it needs. */
#include "collectives/nccl/nccl_coll.h"
#include "collectives/p2p/p2p.h"
#include "spmd/cuda/cuda_ctx.h"

spmd_status spmd__all_gather_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    spmd_p2p_copies copies = {0};
    bool done = false;
    SPMD_TRY(spmd__nccl_gather(ctx, args, &done));
    if (done)
        return SPMD_OK;
    SPMD_TRY(spmd__p2p_open(ctx, "all_gather", args, &coll));
    for (int k = 0; k < args->nin; k++) {
        const spmd_view *in = &args->in[k];
        int64_t run = spmd__coll_run(in->shape, (int)args->attr->i[SPMD_COLL_DIM], in->rank);
        for (int i = 0; i < coll.n; i++) { /* everybody starts with another block */
            int p = (coll.me + i) % coll.n;
            SPMD_TRY(spmd__p2p_copy_piece(ctx, &copies, args->out[k].data, (spmd_pieces){run, coll.n, p},
                                          spmd__p2p_input(coll.posts[p], k), (spmd_pieces){run, 1, 0},
                                          spmd_view_count(in), spmd_dtype_size(in->dtype)));
        }
    }
    SPMD_TRY(spmd__p2p_copy_flush(ctx, &copies));
    return spmd__p2p_close(ctx, &coll);
}

spmd_status spmd__all_to_all_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = &args->in[0], *out = &args->out[0];
    spmd_coll coll;
    spmd_p2p_copies copies = {0};
    SPMD_TRY(spmd__p2p_open(ctx, "all_to_all", args, &coll));
    int64_t from, to, count = spmd_view_count(in) / coll.n;
    spmd__all_to_all_runs(args, coll.n, &from, &to);
    for (int i = 0; i < coll.n; i++) {
        int p = (coll.me + i) % coll.n;
        SPMD_TRY(spmd__p2p_copy_piece(ctx, &copies, out->data, (spmd_pieces){to, coll.n, p},
                                      spmd__p2p_input(coll.posts[p], 0), (spmd_pieces){from, coll.n, coll.me}, count,
                                      spmd_dtype_size(in->dtype)));
    }
    SPMD_TRY(spmd__p2p_copy_flush(ctx, &copies));
    return spmd__p2p_close(ctx, &coll);
}

/* The whole of a peer's input; no peer: zeros. */
static spmd_status fetch(spmd_ctx *ctx, const spmd_kernel_args *args, const void *from)
{
    spmd_p2p_copies copies = {0};
    const spmd_pieces whole = {0, 1, 0};
    const spmd_view *out = &args->out[0];
    int64_t count = spmd_view_count(out);
    size_t size = spmd_dtype_size(out->dtype);
    if (!from && count)
        return spmd__cuda_check(cudaMemsetAsync(out->data, 0, (size_t)count * size, spmd__cuda_stream(ctx)),
                                "clearing a block");
    SPMD_TRY(spmd__p2p_copy_piece(ctx, &copies, out->data, whole, from, whole, count, size));
    return spmd__p2p_copy_flush(ctx, &copies);
}

spmd_status spmd__ppermute_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    SPMD_TRY(spmd__p2p_open(ctx, "ppermute", args, &coll));
    int source = args->attr->table[coll.me];
    SPMD_TRY(fetch(ctx, args, source >= 0 ? spmd__p2p_input(coll.posts[source], 0) : NULL));
    return spmd__p2p_close(ctx, &coll);
}

spmd_status spmd__pbroadcast_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    SPMD_TRY(spmd__p2p_open(ctx, "pbroadcast", args, &coll));
    SPMD_TRY(fetch(ctx, args, spmd__p2p_input(coll.posts[args->attr->i[0]], 0)));
    return spmd__p2p_close(ctx, &coll);
}
