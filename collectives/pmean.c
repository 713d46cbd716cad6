/* pmean: the mean over the shards, of one tensor or of a list in one meeting. The sum is divided, not multiplied by
 * 1/N, so that a mean that can be exact is exact. */
#include "collectives/coll.h"

static const spmd_op pmean = {
    .name = "pmean",
    .shape = spmd__reduction_shape,
    .grad = spmd__reduction_grad,
    .host = spmd__reduction_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__reduction_cuda),
    .in_place = true,
    .list = true,
    .collective = true,
};

spmd_status(spmd_pmean)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out)
{
    return spmd__reduce(ctx, &pmean, SPMD_REDUCE_MEAN, in, 1, axes, out);
}

spmd_status(spmd_pmean_list)(spmd_ctx *ctx, const spmd_tensor *in, int n, const char *axes, spmd_tensor *out)
{
    return spmd__reduce(ctx, &pmean, SPMD_REDUCE_MEAN, in, n, axes, out);
}

spmd_status(spmd_pmean_groups)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                               spmd_tensor *out)
{
    return spmd__reduce_groups(ctx, &pmean, SPMD_REDUCE_MEAN, in, axes, groups, out);
}
