/* Private: collectives by NCCL. A transfer is: meet (the signatures' check, and the barrier that NCCL needs before
 * ranks of one process enqueue), then the call; its end needs no meeting. */
#ifndef COLLECTIVES_NCCL_COLL_H
#define COLLECTIVES_NCCL_COLL_H

#include "collectives/coll.h"

/* How much goes which way; the same answer on every shard that makes the same call. */
bool spmd__use_nccl(const spmd_ctx *ctx, const spmd_kernel_args *args);

/* Each returns false in *done if NCCL cannot do the call with our meaning (bf16 sums, NaN of maxima, strided blocks,
 * groups); then nothing has happened. */
spmd_status spmd__nccl_reduce(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, bool *done);
spmd_status spmd__nccl_gather(spmd_ctx *ctx, const spmd_kernel_args *args, bool *done);
spmd_status spmd__nccl_scatter(spmd_ctx *ctx, const spmd_kernel_args *args, bool *done);

#endif
