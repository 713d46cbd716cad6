/* Private: what differs between backends, one struct each. */
#ifndef SPMD_BACKEND_H
#define SPMD_BACKEND_H

#include "spmd/op.h"

typedef struct spmd_device spmd_device;

typedef struct spmd_backend {
    const char *name;
    /* (optional) NULL: nothing to prepare. open is called by the device's thread when it starts, close after it ended.
     */
    spmd_status (*open)(spmd_device *device);
    void (*close)(spmd_device *device);
    /* (optional) NULL: nothing. Called by the device's thread before each shard function. */
    void (*begin)(spmd_ctx *ctx);
    /* Puts an op's kernel on the shard's stream; `args` lives until the launch ends. */
    spmd_status (*run)(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args);
    /* (optional) NULL: the stream is always done. Waits for the stream; returns its first failure. */
    spmd_status (*sync)(spmd_ctx *ctx);
    bool hostile; /* fresh memory is filled with 0xFF: NaN, -1 */
} spmd_backend;

/* BACKEND(variable, name) in the order that spmd_info lists them */
#define SPMD_BACKEND_LIST(BACKEND) \
    BACKEND(spmd__backend_host)    \
    BACKEND(spmd__backend_host_strict)

#define SPMD_BACKEND_DECLARE(variable) extern const spmd_backend variable;
SPMD_BACKEND_LIST(SPMD_BACKEND_DECLARE)
#undef SPMD_BACKEND_DECLARE

/* Calls the host kernel, and times it if the job has a profile. */
spmd_status spmd__run_timed(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args);

/* Waits for the shard's stream. */
spmd_status spmd__sync(spmd_ctx *ctx);

#endif
