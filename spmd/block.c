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

void *spmd__data(spmd_ctx *ctx, size_t bytes)
{
    void *memory = spmd__arena_get(ctx->data, bytes);
    if (memory && ctx->mesh->backend->hostile)
        memset(memory, 0xFF, bytes);
    return memory;
}
