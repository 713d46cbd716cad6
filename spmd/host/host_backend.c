/* Backend "host": a device is a thread, its stream is program order, a kernel is a call. */
#include "spmd/ctx.h"

static spmd_status run(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    SPMD_CHECK(op->host, SPMD_EUNSUPPORTED, "%s has no kernel for backend host", op->name);
    return ctx->mesh->job.profile ? spmd__run_timed(ctx, op, op->host, args) : op->host(ctx, args);
}

const spmd_backend spmd__backend_host = {.name = "host", .run = run};
