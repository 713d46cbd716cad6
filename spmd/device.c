/* What a context offers to ops: memory, the device's keepsakes, counting. */
#include "spmd/ctx.h"
#include <string.h>

const spmd_mesh *spmd_ctx_mesh(const spmd_ctx *ctx)
{
    return ctx->mesh;
}

spmd_mesh *spmd__ctx_mesh(spmd_ctx *ctx)
{
    return ctx->mesh;
}

int spmd_ctx_device(const spmd_ctx *ctx)
{
    return ctx->id;
}

spmd_ctx *spmd_ctx_at(spmd_ctx *ctx, const char *site)
{
    ctx->site = site;
    return ctx;
}

const char *spmd__site(const spmd_ctx *ctx)
{
    return ctx->site ? ctx->site : "an unknown place";
}

static void *take(const spmd_ctx *ctx, spmd_arena *arena, size_t bytes)
{
    void *memory = spmd__arena_get(arena, bytes);
    if (memory && ctx->mesh->backend->hostile)
        memset(memory, 0xFF, bytes);
    return memory;
}

void *spmd__scratch(spmd_ctx *ctx, size_t bytes)
{
    return take(ctx, ctx->arena, bytes);
}

void *spmd__data(spmd_ctx *ctx, size_t bytes)
{
    return take(ctx, ctx->data, bytes);
}

spmd_status spmd__sync(spmd_ctx *ctx)
{
    return ctx->mesh->backend->sync ? ctx->mesh->backend->sync(ctx) : SPMD_OK;
}

uint32_t spmd__launch_number(const spmd_ctx *ctx)
{
    return ctx->launch;
}

int spmd__device_threads(const spmd_ctx *ctx)
{
    int threads = ctx->mesh->cores / ctx->mesh->ndevices;
    return threads > 0 ? threads : 1;
}

void *spmd__device_slot(spmd_ctx *ctx, const void *key, void *(*create)(spmd_ctx *), void (*destroy)(void *))
{
    for (spmd_slot *s = ctx->device->slots; s; s = s->next)
        if (s->key == key)
            return s->value;
    spmd_slot *slot = spmd__alloc(ctx->mesh, sizeof *slot);
    if (!slot)
        return NULL;
    *slot = (spmd_slot){.key = key, .value = create(ctx), .destroy = destroy, .next = ctx->device->slots};
    if (!slot->value) {
        spmd__free(slot);
        return NULL;
    }
    ctx->device->slots = slot;
    return slot->value;
}

int64_t spmd__count_collective(spmd_ctx *ctx, unsigned mask, int64_t bytes)
{
    spmd_stats *s = &ctx->device->stats;
    s->bytes += bytes;
    s->collectives_by_axes[mask]++;
    s->bytes_by_axes[mask] += bytes;
    s->implied += ctx->transposing;
    return s->collectives++;
}
