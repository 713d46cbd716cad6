/* pmax, pmin: elementwise over the shards. No gradient, as in JAX: which shard it would go to is not well defined. */
#include "collectives/coll.h"

static const spmd_op pmax = {.name = "pmax",
                             .shape = spmd__reduction_shape,
                             .host = spmd__reduction_host,
                             .cuda = SPMD_CUDA_KERNEL(spmd__reduction_cuda),
                             .in_place = true,
                             .list = true,
                             .collective = true};
static const spmd_op pmin = {.name = "pmin",
                             .shape = spmd__reduction_shape,
                             .host = spmd__reduction_host,
                             .cuda = SPMD_CUDA_KERNEL(spmd__reduction_cuda),
                             .in_place = true,
                             .list = true,
                             .collective = true};

spmd_status(spmd_pmax)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out)
{
    return spmd__reduce(ctx, &pmax, SPMD_REDUCE_MAX, in, 1, axes, out);
}

spmd_status(spmd_pmin)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out)
{
    return spmd__reduce(ctx, &pmin, SPMD_REDUCE_MIN, in, 1, axes, out);
}

spmd_status(spmd_pmax_groups)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                              spmd_tensor *out)
{
    return spmd__reduce_groups(ctx, &pmax, SPMD_REDUCE_MAX, in, axes, groups, out);
}

spmd_status(spmd_pmin_groups)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                              spmd_tensor *out)
{
    return spmd__reduce_groups(ctx, &pmin, SPMD_REDUCE_MIN, in, axes, groups, out);
}
