/* Private: what differs between backends, one struct each. */
#ifndef SPMD_BACKEND_H
#define SPMD_BACKEND_H

#include "spmd/op.h"

typedef struct spmd_backend {
    const char *name;
    /* Runs an op's kernel on the shard's stream. */
    spmd_status (*run)(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args);
} spmd_backend;

extern const spmd_backend spmd__backend_host;

#endif
