/* Memory of devices, wherever it is: on the host's backends all of this is the C library's. */
#include "spmd/ctx.h"
#include <string.h>

void *spmd__block_alloc(spmd_device *device, size_t bytes)
{
    const spmd_remote *remote = device->mesh->backend->remote;
    if (!remote)
        return spmd__alloc(device->mesh, bytes);
    if (spmd__permitted(device->mesh, SPMD_ALLOCATION, bytes))
        return remote->alloc(device, bytes);
    SPMD_FAIL(SPMD_ENOMEM, "out of memory: %zu bytes wanted on device %d, refused by the mesh's fault hook", bytes,
              device->id);
    return NULL;
}

void spmd__block_free(spmd_mesh *mesh, void *block)
{
    if (mesh->backend->remote && block)
        mesh->backend->remote->free(block);
    else
        spmd__free(block);
}

spmd_status spmd__block_put(spmd_device *device, void *to, const void *host, size_t bytes)
{
    if (device->mesh->backend->remote)
        return device->mesh->backend->remote->put(device, to, host, bytes);
    memcpy(to, host, bytes);
    return SPMD_OK;
}

spmd_status spmd__block_get(spmd_device *device, void *host, const void *from, size_t bytes)
{
    if (device->mesh->backend->remote)
        return device->mesh->backend->remote->get(device, host, from, bytes);
    memcpy(host, from, bytes);
    return SPMD_OK;
}

spmd_status spmd__block_copy(spmd_ctx *ctx, void *to, const void *from, size_t bytes)
{
    if (ctx->mesh->backend->remote)
        return ctx->mesh->backend->remote->copy(ctx, to, from, bytes);
    memcpy(to, from, bytes);
    return SPMD_OK;
}

/* Views of host memory for all inputs and outputs, the inputs filled. */
static spmd_status copy_views(spmd_ctx *ctx, const spmd_kernel_args *args, spmd_view *views)
{
    for (int k = 0; k < args->nin + args->nout; k++) {
        const spmd_view *from = k < args->nin ? &args->in[k] : &args->out[k - args->nin];
        views[k] = *from;
        views[k].data = spmd__arena_get(ctx->arena, spmd__view_bytes(from));
        if (!views[k].data)
            return SPMD_ENOMEM;
        if (k < args->nin)
            SPMD_TRY(spmd__block_get(ctx->device, views[k].data, from->data, spmd__view_bytes(from)));
    }
    return SPMD_OK;
}

static spmd_status run_on_copies(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    spmd_view *views = spmd__arena_get(ctx->arena, (size_t)(args->nin + args->nout) * sizeof *views);
    if (!views)
        return SPMD_ENOMEM;
    SPMD_TRY(copy_views(ctx, args, views));
    spmd_kernel_args copies = *args;
    copies.in = views;
    copies.out = views + args->nin;
    SPMD_TRY(op->host(ctx, &copies));
    for (int k = 0; k < args->nout; k++)
        SPMD_TRY(spmd__block_put(ctx->device, args->out[k].data, copies.out[k].data, spmd__view_bytes(&args->out[k])));
    return SPMD_OK;
}

spmd_status spmd__run_on_copies(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    SPMD_CHECK(op->host && !op->collective, SPMD_EUNSUPPORTED, "%s has no kernel for backend %s", op->name,
               ctx->mesh->backend->name);
    spmd__log(ctx->mesh, op->name, "%s has no kernel for backend %s: its values go to the host and back, which is slow",
              op->name, ctx->mesh->backend->name);
    SPMD_TRY(spmd__sync(ctx));
    spmd_arena *before = ctx->arena;
    ctx->arena = &ctx->device->arena;
    spmd_mark mark = spmd__arena_mark(ctx->arena);
    spmd_status status = run_on_copies(ctx, op, args);
    spmd__arena_release(ctx->arena, mark);
    ctx->arena = before;
    return status;
}
