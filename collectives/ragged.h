/* Private: the three ragged ops, apart from how rows are moved. */
#ifndef COLLECTIVES_RAGGED_H
#define COLLECTIVES_RAGGED_H

#include "collectives/coll.h"

enum { SPMD_RAGGED_INTO, SPMD_RAGGED_OPERAND, SPMD_RAGGED_TABLES, SPMD_RAGGED_INPUTS = SPMD_RAGGED_TABLES + 4 };

typedef struct spmd_ragged_moves {
    void *(*memory)(spmd_ctx *ctx, size_t bytes); /* for a post */
    spmd_status (*open)(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const spmd_post *post,
                        spmd_coll *coll);
    spmd_status (*close)(spmd_ctx *ctx, const spmd_coll *coll);
    spmd_status (*copy)(spmd_ctx *ctx, void *to, const void *from, size_t bytes); /* bytes may be 0 here and below */
    spmd_status (*clear)(spmd_ctx *ctx, void *at, size_t bytes);
    spmd_status (*add)(spmd_ctx *ctx, void *to, const void *more, spmd_dtype dtype, int64_t count);
} spmd_ragged_moves;

/* The tables among the inputs are host memory here. */
spmd_status spmd__ragged(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_ragged_moves *moves);
spmd_status spmd__ragged_keep(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_ragged_moves *moves);
spmd_status spmd__ragged_return(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_ragged_moves *moves);

/* The descriptors' kernels on backend cuda. */
spmd_status spmd__ragged_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__ragged_keep_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__ragged_return_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

#endif
