#include "kernels/workspace.h"
#include <string.h>

typedef struct workspace {
    void *memory[SPMD__SPACES];
    size_t bytes[SPMD__SPACES];
} workspace;

static void workspace_destroy(void *slot)
{
    workspace *w = slot;
    for (int i = 0; i < SPMD__SPACES; i++)
        spmd__free(w->memory[i]);
    spmd__free(w);
}

static void *workspace_create(spmd_ctx *ctx)
{
    workspace *w = spmd__alloc(spmd__ctx_mesh(ctx), sizeof *w);
    if (w)
        memset(w, 0, sizeof *w);
    return w;
}

void *spmd__workspace(spmd_ctx *ctx, spmd__space space, size_t bytes)
{
    static const char key;
    workspace *w = spmd__device_slot(ctx, &key, workspace_create, workspace_destroy);
    if (!w)
        return NULL;
    if (bytes > w->bytes[space] || !w->memory[space]) {
        spmd__free(w->memory[space]);
        w->memory[space] = NULL;
        w->bytes[space] = 0;
        size_t grown = bytes + bytes / 4 + 64; /* a slowly growing need must not reallocate every time */
        w->memory[space] = spmd__alloc(spmd__ctx_mesh(ctx), grown);
        w->bytes[space] = w->memory[space] ? grown : 0;
    }
    return w->memory[space];
}
