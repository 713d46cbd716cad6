/* The ragged ops over peer memory. The host lays out the transfers, so it reads the tables first: the stream is waited
 * for, and such a call cannot be part of a graph. */
#include "collectives/p2p/p2p.h"
#include "collectives/ragged.h"
#include "spmd/ctx.h"
#include "spmd/cuda/cuda_ctx.h"
#include <string.h>

static spmd_status copy(spmd_ctx *ctx, void *to, const void *from, size_t bytes)
{
    spmd_p2p_copies copies = {0};
    const spmd_pieces whole = {0, 1, 0};
    SPMD_TRY(spmd__p2p_copy_piece(ctx, &copies, to, whole, from, whole, (int64_t)bytes, 1));
    return spmd__p2p_copy_flush(ctx, &copies);
}

static spmd_status clear(spmd_ctx *ctx, void *at, size_t bytes)
{
    if (bytes)
        SPMD_CUDA_TRY(cudaMemsetAsync(at, 0, bytes, spmd__cuda_stream(ctx)));
    return SPMD_OK;
}

static spmd_status add(spmd_ctx *ctx, void *to, const void *more, spmd_dtype dtype, int64_t count)
{
    spmd_p2p_folds folds = {.kind = SPMD_REDUCE_SUM, .divisor = 1, .nsrc = 2, .ndst = 1, .pieces = 1};
    SPMD_TRY(spmd__p2p_fold(ctx, &folds, dtype, dtype, (const void *[]){to, more}, &to, count, count));
    return spmd__p2p_fold_flush(ctx, &folds);
}

static const spmd_ragged_moves over_peers = {.memory = spmd__p2p_post,
                                             .open = spmd__p2p_open_post,
                                             .close = spmd__p2p_close,
                                             .copy = copy,
                                             .clear = clear,
                                             .add = add};

static spmd_status with_tables(spmd_ctx *ctx, const spmd_kernel_args *args,
                               spmd_status (*ragged)(spmd_ctx *, const spmd_kernel_args *, const spmd_ragged_moves *))
{
    spmd_view in[SPMD_RAGGED_INPUTS];
    spmd_kernel_args with = *args;
    memcpy(in, args->in, sizeof in);
    with.in = in;
    SPMD_TRY(spmd__sync(ctx));
    for (int k = SPMD_RAGGED_TABLES; k < SPMD_RAGGED_INPUTS; k++) {
        size_t bytes = spmd__view_bytes(&in[k]);
        in[k].data = spmd__p2p_post(ctx, bytes);
        if (!in[k].data)
            return SPMD_ENOMEM;
        SPMD_TRY(spmd__block_get(ctx->device, in[k].data, args->in[k].data, bytes));
    }
    return ragged(ctx, &with, &over_peers);
}

spmd_status spmd__ragged_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return with_tables(ctx, args, spmd__ragged);
}

spmd_status spmd__ragged_keep_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return with_tables(ctx, args, spmd__ragged_keep);
}

spmd_status spmd__ragged_return_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return with_tables(ctx, args, spmd__ragged_return);
}
