/* Backend "cuda": a device is a GPU (or a share of one), driven by the device's thread. run() puts work on the stream
 * and returns; the host waits at the end of the shard function, and where it reads a value. */
#include "spmd/cuda/cuda_comms.h"
#include "spmd/cuda/cuda_range.h"

cudaStream_t spmd__cuda_stream(spmd_ctx *ctx)
{
    return spmd__cuda_of(ctx->device)->stream;
}

cublasLtHandle_t spmd__cublaslt(spmd_ctx *ctx)
{
    return spmd__cuda_of(ctx->device)->blas;
}

int spmd__cuda_processors(const spmd_ctx *ctx)
{
    return spmd__cuda_of(ctx->device)->processors;
}

spmd_cuda_note *spmd__cuda_note(spmd_ctx *ctx)
{
    return spmd__cuda_of(ctx->device)->note;
}

spmd_status spmd__cuda_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return SPMD_OK;
    (void)cudaGetLastError(); /* told here: later calls must not find it again */
    return SPMD_FAIL(error == cudaErrorMemoryAllocation ? SPMD_ENOMEM : SPMD_ECUDA, "%s: %s: %s", what,
                     cudaGetErrorName(error), cudaGetErrorString(error));
}

spmd_status spmd__cublas_check(cublasStatus_t status, const char *what)
{
    SPMD_CHECK(status == CUBLAS_STATUS_SUCCESS, status == CUBLAS_STATUS_ALLOC_FAILED ? SPMD_ENOMEM : SPMD_ECUDA,
               "%s: cuBLAS status %d", what, (int)status);
    return SPMD_OK;
}

/* Scratch memory is the device's while the kernel's function runs; the stream keeps later kernels from using it too
 * early. */
static spmd_status call_kernel(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    if (!op->cuda)
        return spmd__run_on_copies(ctx, op, args);
    spmd_arena *host = ctx->arena;
    spmd_mark mark = spmd__arena_mark(ctx->data);
    ctx->arena = ctx->data;
    spmd_status status = op->cuda(ctx, args);
    ctx->arena = host;
    spmd__arena_release(ctx->data, mark);
    return status;
}

/* A profile wants each op's own time, so nothing overlaps then. */
static spmd_status timed_kernel(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    SPMD_TRY(call_kernel(ctx, spmd__cuda_of(ctx->device)->timed, args));
    return spmd__cuda_wait(ctx);
}

static spmd_status run_op(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    if (!ctx->mesh->job.profile)
        return call_kernel(ctx, op, args);
    SPMD_TRY(spmd__cuda_wait(ctx));
    spmd__cuda_of(ctx->device)->timed = op;
    return spmd__run_timed(ctx, op, timed_kernel, args);
}

static spmd_status cuda_run(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    const spmd_custom_op *custom = args->attr->definition;
    spmd__range_begin(custom ? custom->name : op->name);
    spmd_status status = run_op(ctx, op, args);
    spmd__range_end();
    return status;
}

const spmd_backend spmd__backend_cuda = {.name = "cuda",
                                         .remote = &spmd__cuda_memory,
                                         .prepare = spmd__cuda_prepare,
                                         .release = spmd__cuda_release,
                                         .open = spmd__cuda_open,
                                         .close = spmd__cuda_close,
                                         .connect = spmd__cuda_connect,
                                         .run = cuda_run,
                                         .replay = spmd__cuda_replay,
                                         .sync = spmd__cuda_wait,
                                         .beside = true};
