/* Groups: the shards that differ along some axes only. A shard finds each of its groups once. */
#include "spmd/ctx.h"
#include "spmd/host/meet_private.h"
#include <stdlib.h>
#include <string.h>

/* By device and mask; written and read by the device's own thread. */
struct spmd_found {
    spmd_axes axes;
    spmd_group group; /* n is 0: not asked for yet */
} __attribute__((aligned(128)));

spmd_status spmd__groups_create(spmd_mesh *mesh)
{
    size_t bytes = ((size_t)mesh->ndevices << mesh->naxes) * sizeof *mesh->groups;
    mesh->groups = aligned_alloc(128, bytes);
    SPMD_CHECK(mesh->groups, SPMD_ENOMEM, "out of memory for the mesh's groups");
    memset(mesh->groups, 0, bytes);
    return SPMD_OK;
}

void spmd__groups_free(spmd_mesh *mesh)
{
    free(mesh->groups);
}

void spmd__find_group(const spmd_ctx *ctx, const spmd_axes *axes, spmd_group *out)
{
    const spmd_mesh *mesh = ctx->mesh;
    *out = (spmd_group){.n = 1, .sorted = true};
    int stride[SPMD_MAX_AXES], base = 0;
    for (int a = mesh->naxes - 1, s = 1; a >= 0; s *= mesh->size[a], a--) {
        stride[a] = s;
        if (!(axes->mask >> a & 1))
            base += ctx->coord[a] * s;
        else if (mesh->size[a] > 1)
            out->mask |= 1u << a;
    }
    for (int k = 0; k < axes->n; k++)
        out->n *= mesh->size[axes->id[k]];
    for (int place = 0; place < out->n; place++) {
        int device = base;
        for (int k = axes->n - 1, rest = place; k >= 0; k--) {
            device += rest % mesh->size[axes->id[k]] * stride[axes->id[k]];
            rest /= mesh->size[axes->id[k]];
        }
        out->device[place] = device;
        out->sorted &= place == 0 || device > out->device[place - 1];
        if (device == ctx->id)
            out->me = place;
    }
}

const spmd_group *spmd__group(const spmd_ctx *ctx, const spmd_axes *axes)
{
    struct spmd_found *known = &ctx->mesh->groups[(ctx->id << ctx->mesh->naxes) + axes->mask];
    if (!known->group.n || memcmp(&known->axes, axes, sizeof *axes) != 0) {
        spmd__find_group(ctx, axes, &known->group);
        known->axes = *axes;
    }
    return &known->group;
}

const spmd_group *spmd__group_all(const spmd_ctx *ctx)
{
    spmd_axes all;
    spmd__mask_axes((1u << ctx->mesh->naxes) - 1, &all);
    return spmd__group(ctx, &all);
}
