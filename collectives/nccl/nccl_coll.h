/* Private: collectives by NCCL. A transfer is: meet (the signatures' check, and the barrier that NCCL needs before
 * ranks of one process enqueue), then the call; its end needs no meeting. */
#ifndef COLLECTIVES_NCCL_COLL_H
#define COLLECTIVES_NCCL_COLL_H

#include "collectives/coll.h"

/* Each returns false in *done if peer memory is to do the call: where that is faster or asked for, and where NCCL has
 * another meaning (bf16 sums, NaN of maxima, strided blocks, groups). Then nothing has happened. */
spmd_status spmd__nccl_reduce(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, bool *done);
spmd_status spmd__nccl_gather(spmd_ctx *ctx, const spmd_kernel_args *args, bool *done);
spmd_status spmd__nccl_scatter(spmd_ctx *ctx, const spmd_kernel_args *args, bool *done);

#endif
