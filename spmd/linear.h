/* Private: the linear ops that the tape and the automatic mode emit by themselves. Declared here, each defined in its
 * own folder above (add, cast, full, reshape in kernels/; the others in collectives/): the core names none of their
 * files. */
#ifndef SPMD_LINEAR_H
#define SPMD_LINEAR_H

#include "spmd/op.h"

/* out = a + b, equal shapes. */
spmd_status spmd__linear_add(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
/* To another floating dtype. */
spmd_status spmd__linear_cast(spmd_ctx *ctx, const spmd_tensor *in, spmd_dtype dtype, spmd_tensor *out);
/* Shape, dtype and varying state of `like`, every element `value`; reads nothing. */
spmd_status spmd__linear_fill(spmd_ctx *ctx, const spmd_tensor *like, double value, spmd_tensor *out);
/* Another shape of the same elements; a view. */
spmd_status spmd__linear_reshape(spmd_ctx *ctx, const spmd_tensor *in, int rank, const int64_t *shape,
                                 spmd_tensor *out);
/* Sum over the axes of `mask`: n tensors in one meeting. */
spmd_status spmd__linear_psum(spmd_ctx *ctx, const spmd_tensor *in, int n, unsigned mask, spmd_tensor *out);
/* Invarying to varying over the axes of `mask`; moves nothing. */
spmd_status spmd__linear_pcast(spmd_ctx *ctx, const spmd_tensor *in, unsigned mask, spmd_tensor *out);

/* How the automatic mode moves a value: along dimension `dim`, over `axes` in their order; sizes divide. */
/* Every shard gets all blocks. */
spmd_status spmd__linear_gather(spmd_ctx *ctx, const spmd_tensor *in, int dim, const spmd_axes *axes, spmd_tensor *out);
/* Every shard gets its block of the sum. */
spmd_status spmd__linear_scatter(spmd_ctx *ctx, const spmd_tensor *in, int dim, const spmd_axes *axes,
                                 spmd_tensor *out);
/* Cut along `split` instead of along `concat`. */
spmd_status spmd__linear_exchange(spmd_ctx *ctx, const spmd_tensor *in, int split, int concat, const spmd_axes *axes,
                                  spmd_tensor *out);
/* Every shard takes its block of what all hold; moves nothing. */
spmd_status spmd__linear_slice(spmd_ctx *ctx, const spmd_tensor *in, int dim, const spmd_axes *axes, spmd_tensor *out);

#endif
