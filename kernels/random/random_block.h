/* Private. Where a shard's block of random numbers lies in the global array. */
#ifndef KERNELS_RANDOM_BLOCK_H
#define KERNELS_RANDOM_BLOCK_H

#include "kernels/random/philox.h"
#include "spmd/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd__random_block {
    uint64_t stream;
    int rank;
    int64_t shape[SPMD_MAX_RANK], origin[SPMD_MAX_RANK], global[SPMD_MAX_RANK];
} spmd__random_block;
spmd__random_block spmd__random_block_of(spmd_ctx *ctx, const spmd_kernel_args *args);

/* The global index of the block's element `at`. */
SPMD__ANYWHERE static inline int64_t spmd__random_index(const spmd__random_block *block, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int d = block->rank - 1; d >= 0; d--) {
        index += (block->origin[d] + at % block->shape[d]) * stride;
        at /= block->shape[d];
        stride *= block->global[d];
    }
    return index;
}

#ifdef __cplusplus
}
#endif
#endif
