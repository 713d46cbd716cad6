/* psum: the sum over the shards, of one tensor or of a list in one meeting. */
#include "collectives/coll.h"
#include "spmd/linear.h"

static const spmd_op psum = {
    .name = "psum",
    .shape = spmd__reduction_shape,
    .grad = spmd__reduction_grad,
    .host = spmd__reduction_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__reduction_cuda),
    .in_place = true,
    .list = true,
    .collective = true,
};

spmd_status(spmd_psum)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out)
{
    return spmd__reduce(ctx, &psum, SPMD_REDUCE_SUM, in, 1, axes, out);
}

spmd_status(spmd_psum_list)(spmd_ctx *ctx, const spmd_tensor *in, int n, const char *axes, spmd_tensor *out)
{
    return spmd__reduce(ctx, &psum, SPMD_REDUCE_SUM, in, n, axes, out);
}

spmd_status spmd__linear_psum(spmd_ctx *ctx, const spmd_tensor *in, int n, unsigned mask, spmd_tensor *out)
{
    spmd_attr attr = {.i = {SPMD_REDUCE_SUM}, .f = {1}};
    spmd__mask_axes(mask, &attr.axes);
    SPMD_TRY(spmd__emit(ctx, &psum, &attr, in, n, out, n));
    return SPMD_OK;
}

spmd_status(spmd_psum_groups)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                              spmd_tensor *out)
{
    return spmd__reduce_groups(ctx, &psum, SPMD_REDUCE_SUM, in, axes, groups, out);
}
