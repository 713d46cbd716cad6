/* Private: what differs between backends, one struct each. */
#ifndef SPMD_BACKEND_H
#define SPMD_BACKEND_H

#include "spmd/op.h"

typedef struct spmd_device spmd_device;
struct spmd_program;

/* Memory that the host cannot touch. Functions with a device work from any thread and are done when they return. */
typedef struct spmd_remote {
    void *(*alloc)(spmd_device *device, size_t bytes); /* 256-byte aligned; NULL with the error text set */
    void (*free)(void *memory);
    spmd_status (*put)(spmd_device *device, void *to, const void *from, size_t bytes);
    spmd_status (*get)(spmd_device *device, void *to, const void *from, size_t bytes);
    spmd_status (*copy)(spmd_ctx *ctx, void *to, const void *from, size_t bytes); /* on the shard's stream */
} spmd_remote;

typedef struct spmd_backend {
    const char *name;
    const spmd_remote *remote; /* NULL: devices use the host's memory */
    /* (optional) NULL: nothing to prepare. Called by the host thread before the device threads start; release after
     * they ended, whatever prepare returned. */
    spmd_status (*prepare)(spmd_mesh *mesh);
    void (*release)(spmd_mesh *mesh);
    /* (optional) NULL: nothing to prepare. open is called by the device's thread when it starts, close after it ended.
     */
    spmd_status (*open)(spmd_device *device);
    void (*close)(spmd_device *device);
    /* (optional) NULL: nothing. Called by the host thread when all devices are open, and after a launch that failed. */
    spmd_status (*connect)(spmd_mesh *mesh);
    /* (optional) NULL: nothing. Called by the device's thread before each shard function. */
    void (*begin)(spmd_ctx *ctx);
    /* Puts an op's kernel on the shard's stream; `args` lives until run returns, or (late) until the launch ends. */
    spmd_status (*run)(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args);
    /* (optional) NULL: one call after the other. Replays a program, see spmd__program_replay. */
    spmd_status (*replay)(struct spmd_program *program, spmd_ctx *ctx, spmd_status (*before_commit)(spmd_ctx *));
    /* (optional) NULL: the stream is always done. Waits for the stream; returns its first failure. */
    spmd_status (*sync)(spmd_ctx *ctx);
    bool beside;  /* collectives of a program run beside the local ops behind them, until their results are wanted */
    bool late;    /* kernels are called after run has returned, and may fail then */
    bool hostile; /* fresh memory is filled with 0xFF: NaN, -1 */
} spmd_backend;

#ifdef SPMD_HAVE_CUDA
#define SPMD_BACKEND_CUDA(BACKEND) BACKEND(spmd__backend_cuda)
#else
#define SPMD_BACKEND_CUDA(BACKEND)
#endif

/* BACKEND(variable) in the order that spmd info lists them */
#define SPMD_BACKEND_LIST(BACKEND)     \
    BACKEND(spmd__backend_host)        \
    BACKEND(spmd__backend_host_strict) \
    SPMD_BACKEND_CUDA(BACKEND)

#define SPMD_BACKEND_DECLARE(variable) extern const spmd_backend variable;
SPMD_BACKEND_LIST(SPMD_BACKEND_DECLARE)
#undef SPMD_BACKEND_DECLARE

/* Calls the op's kernel, and times it if the job has a profile. */
typedef spmd_status spmd_kernel(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__run_timed(spmd_ctx *ctx, const spmd_op *op, spmd_kernel *kernel, const spmd_kernel_args *args);

/* The op's host kernel on a remote device's values: copied to the host and back. */
spmd_status spmd__run_on_copies(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args);

/* Waits for the shard's stream. */
spmd_status spmd__sync(spmd_ctx *ctx);

#endif
