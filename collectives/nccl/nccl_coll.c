/* The collectives that NCCL does with our meaning: sums of f32 and of integers, and moves of whole blocks. What it does
 * not do: it adds bf16 in bf16, drops NaN in max and min, and knows contiguous blocks only. Its order of summation is
 * its own, so that sums may differ from peer memory's in the last bits; all shards get the same ones. */
#include "collectives/nccl/nccl_coll.h"
#include "spmd/cuda/cuda_comms.h"

/* Up to so many bytes of a call peer memory is faster; expected from published measurements over NVLink, and to be
 * found again with bench_collectives under SPMD_CUDA_TRANSPORT=p2p and =nccl. */
enum { LEAST = 2 << 20 };

/* The communicator of the call's group; NULL: there is none, or peer memory is faster or asked for. The answer is the
 * same on every shard that makes the same call. */
static ncclComm_t comm_of(const spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_group **group)
{
    const spmd_cuda_mesh *state = ctx->mesh->backend_state;
    int64_t bytes = 0;
    for (int k = 0; k < args->nin; k++)
        bytes += (int64_t)spmd__view_bytes(&args->in[k]);
    bool wanted = state->transport == SPMD_CUDA_NCCL || (state->transport == SPMD_CUDA_AUTO && bytes >= LEAST);
    if (!wanted || args->attr->i[SPMD_COLL_GROUPS])
        return NULL;
    *group = spmd__group(ctx, &args->attr->axes);
    return spmd__cuda_of(ctx->device)->comm[(*group)->mask];
}

static spmd_status open(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args)
{
    spmd_coll coll;
    spmd_cuda_device *cuda = spmd__cuda_of(ctx->device);
    cuda->nccl_calls++;
    if (cuda->capturing) /* what the program calls was compared before, and nothing starts now */
        return SPMD_OK;
    SPMD_TRY(spmd__coll_open(ctx, op, args, &(spmd_post){0}, &coll)); /* nobody reads the post */
    cuda->collective = true;
    return SPMD_OK;
}

static bool accepted(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

/* The end of a group of calls, of which the last returned `result`. */
static spmd_status close_group(spmd_ctx *ctx, ncclComm_t comm, ncclResult_t result, const char *what)
{
    spmd_status ended = spmd__nccl_enqueued(ctx, comm, ncclGroupEnd(), what); /* those before one that failed, too */
    SPMD_TRY(spmd__nccl_check(result, what));
    return ended;
}

static bool type_of(spmd_dtype dtype, ncclDataType_t *out)
{
    *out = dtype == SPMD_F32 ? ncclFloat32 : dtype == SPMD_I32 ? ncclInt32 : ncclInt64;
    return dtype == SPMD_F32 || dtype == SPMD_I32 || dtype == SPMD_I64;
}

static bool reduction_of(const spmd_kernel_args *args, int n, ncclRedOp_t *out)
{
    spmd_reduction kind = (spmd_reduction)args->attr->i[0];
    static const ncclRedOp_t ops[] = {ncclSum, ncclAvg, ncclMax, ncclMin};
    *out = ops[kind];
    for (int k = 0; k < args->nin; k++) {
        ncclDataType_t type;
        bool is_float = spmd_dtype_is_float(args->in[k].dtype);
        if (!type_of(args->in[k].dtype, &type) || args->in[k].dtype != args->out[k].dtype ||
            (is_float && (kind == SPMD_REDUCE_MAX || kind == SPMD_REDUCE_MIN)))
            return false;
    }
    /* ncclAvg scales every summand and adds then: the same bits only where 1/n is exact */
    return kind != SPMD_REDUCE_MEAN || (!(n & (n - 1)) && (args->attr->f[0] <= 0 || (int)args->attr->f[0] == n));
}

spmd_status spmd__nccl_reduce(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, bool *done)
{
    const spmd_group *group = NULL;
    ncclComm_t comm = comm_of(ctx, args, &group);
    ncclRedOp_t reduction;
    ncclDataType_t type;
    *done = comm && reduction_of(args, group->n, &reduction);
    if (!*done)
        return SPMD_OK;
    SPMD_TRY(open(ctx, op, args));
    SPMD_NCCL_TRY(ncclGroupStart());
    ncclResult_t result = ncclSuccess;
    for (int k = 0; k < args->nin && accepted(result); k++) {
        type_of(args->in[k].dtype, &type);
        result = ncclAllReduce(args->in[k].data, args->out[k].data, (size_t)spmd_view_count(&args->in[k]), type,
                               reduction, comm, spmd__cuda_stream(ctx));
    }
    return close_group(ctx, comm, result, "ncclAllReduce");
}

static int64_t outer_of(const spmd_view *v, const spmd_kernel_args *args)
{
    return spmd__coll_run(v->shape, 0, (int)args->attr->i[SPMD_COLL_DIM]);
}

spmd_status spmd__nccl_gather(spmd_ctx *ctx, const spmd_kernel_args *args, bool *done)
{
    const spmd_group *group = NULL;
    ncclComm_t comm = comm_of(ctx, args, &group);
    *done = comm && group->sorted;
    for (int k = 0; k < args->nin; k++)
        *done &= outer_of(&args->in[k], args) == 1;
    if (!*done)
        return SPMD_OK;
    SPMD_TRY(open(ctx, "all_gather", args));
    SPMD_NCCL_TRY(ncclGroupStart());
    ncclResult_t result = ncclSuccess;
    for (int k = 0; k < args->nin && accepted(result); k++)
        result = ncclAllGather(args->in[k].data, args->out[k].data, spmd__view_bytes(&args->in[k]), ncclUint8, comm,
                               spmd__cuda_stream(ctx));
    return close_group(ctx, comm, result, "ncclAllGather");
}

spmd_status spmd__nccl_scatter(spmd_ctx *ctx, const spmd_kernel_args *args, bool *done)
{
    const spmd_group *group = NULL;
    ncclComm_t comm = comm_of(ctx, args, &group);
    ncclDataType_t type;
    *done = comm && group->sorted;
    for (int k = 0; k < args->nin; k++)
        *done &= outer_of(&args->out[k], args) == 1 && type_of(args->in[k].dtype, &type) &&
                 args->in[k].dtype == args->out[k].dtype;
    if (!*done)
        return SPMD_OK;
    SPMD_TRY(open(ctx, "psum_scatter", args));
    SPMD_NCCL_TRY(ncclGroupStart());
    ncclResult_t result = ncclSuccess;
    for (int k = 0; k < args->nin && accepted(result); k++) {
        type_of(args->in[k].dtype, &type);
        result = ncclReduceScatter(args->in[k].data, args->out[k].data, (size_t)spmd_view_count(&args->out[k]), type,
                                   ncclSum, comm, spmd__cuda_stream(ctx));
    }
    return close_group(ctx, comm, result, "ncclReduceScatter");
}
