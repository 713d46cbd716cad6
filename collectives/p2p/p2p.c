/* Opening and closing a collective over peer memory. */
#include "collectives/p2p/p2p.h"
#include "spmd/cuda/cuda_private.h"

void *spmd__p2p_post(spmd_ctx *ctx, size_t bytes)
{
    return spmd__arena_get(&ctx->device->arena, bytes);
}

static spmd_status signal_team(spmd_ctx *ctx, unsigned mask, spmd_cuda_signal signal)
{
    spmd_cuda_device *mine = spmd__cuda_of(ctx->device);
    SPMD_CUDA_TRY(cudaEventRecord(mine->events[signal][mask], mine->stream));
    return SPMD_OK;
}

/* The stream goes on when all of the team have signalled. They had recorded their events when we met. */
static spmd_status await_team(spmd_ctx *ctx, const spmd_coll *coll, spmd_cuda_signal signal)
{
    spmd_cuda_device *mine = spmd__cuda_of(ctx->device);
    for (int k = 0; k < coll->n; k++) {
        const spmd_cuda_device *peer = spmd__cuda_of(&ctx->mesh->devices[coll->device[k]]);
        if (peer != mine)
            SPMD_CUDA_TRY(cudaStreamWaitEvent(mine->stream, peer->events[signal][coll->all->mask], 0));
    }
    return SPMD_OK;
}

static spmd_status check_reach(spmd_ctx *ctx, const char *op, const spmd_coll *coll)
{
    for (int k = 0; k < coll->n; k++)
        SPMD_CHECK(spmd__cuda_of(ctx->device)->reach >> coll->device[k] & 1, SPMD_EUNSUPPORTED,
                   "%s: GPU %d cannot access the memory of GPU %d, which this collective needs: choose GPUs with peer "
                   "access (spmd info shows them; CUDA_VISIBLE_DEVICES)",
                   op, spmd__cuda_of(ctx->device)->gpu, spmd__cuda_of(&ctx->mesh->devices[coll->device[k]])->gpu);
    return SPMD_OK;
}

static spmd_status open_streams(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const spmd_post *post,
                                spmd_coll *coll)
{
    const spmd_group *group = spmd__group(ctx, &args->attr->axes);
    if (group->n > 1)
        SPMD_TRY(signal_team(ctx, group->mask, SPMD_CUDA_READY));
    SPMD_TRY(spmd__coll_open(ctx, op, args, post, coll));
    return await_team(ctx, coll, SPMD_CUDA_READY);
}

spmd_status spmd__p2p_open_post(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const spmd_post *post,
                                spmd_coll *coll)
{
    SPMD_TRY(open_streams(ctx, op, args, post, coll));
    return check_reach(ctx, op, coll);
}

/* The team's inputs in memory of our own; then nobody needs ours any more. For GPUs that cannot reach each other. */
static spmd_status fetch_inputs(spmd_ctx *ctx, const spmd_kernel_args *args, spmd_coll *coll)
{
    const spmd_cuda_device *mine = spmd__cuda_of(ctx->device);
    size_t n = (size_t)args->nin;
    const void **table = spmd__p2p_post(ctx, (size_t)coll->n * n * sizeof *table);
    if (!table)
        return SPMD_ENOMEM;
    for (int p = 0; p < coll->n; p++, table += n) {
        const spmd_cuda_device *peer = spmd__cuda_of(&ctx->mesh->devices[coll->device[p]]);
        for (size_t k = 0; k < n; k++) {
            const void *from = spmd__p2p_input(coll->posts[p], (int)k);
            size_t bytes = spmd__view_bytes(&args->in[k]);
            void *copy = spmd__scratch(ctx, bytes);
            if (!copy)
                return SPMD_ENOMEM;
            table[k] = copy;
            if (bytes)
                SPMD_CUDA_TRY(cudaMemcpyPeerAsync(copy, mine->gpu, from, peer->gpu, bytes, mine->stream));
        }
        coll->posts[p] = (spmd_post){table, NULL};
    }
    SPMD_TRY(spmd__p2p_close(ctx, coll));
    coll->mailed = true;
    return SPMD_OK;
}

spmd_status spmd__p2p_open(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, spmd_coll *coll)
{
    void **table = spmd__p2p_post(ctx, (size_t)(args->nin + args->nout) * sizeof *table);
    if (!table)
        return SPMD_ENOMEM;
    for (int k = 0; k < args->nin; k++)
        table[k] = args->in[k].data;
    for (int k = 0; k < args->nout; k++)
        table[args->nin + k] = args->out[k].data;
    SPMD_TRY(open_streams(ctx, op, args, &(spmd_post){table, table + args->nin}, coll));
    bool copies = ((const spmd_cuda_mesh *)ctx->mesh->backend_state)->copies && coll->all->n > 1;
    return copies ? fetch_inputs(ctx, args, coll) : SPMD_OK;
}

spmd_status spmd__p2p_close(spmd_ctx *ctx, const spmd_coll *coll)
{
    if (coll->all->n == 1 || coll->mailed)
        return SPMD_OK;
    SPMD_TRY(signal_team(ctx, coll->all->mask, SPMD_CUDA_DONE));
    SPMD_TRY(spmd__coll_close(ctx, coll));
    return await_team(ctx, coll, SPMD_CUDA_DONE);
}
