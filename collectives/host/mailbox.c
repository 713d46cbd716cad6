/* Mailboxes: copies of small inputs, which the others may still read while their owner goes on. They save the second
 * meeting of a collective, and with more devices than cores a meeting is most of its time.
 *
 * A device has two boxes for every set of axes and uses them in turn. Before it fills one again it has been through the
 * next meeting on the same axes, which the others only reach when they have read the first. */
#include "collectives/coll.h"

typedef struct mailboxes {
    char *boxes[1 << SPMD_MAX_AXES]; /* by mask of axes, on first use: two boxes */
    bool second[1 << SPMD_MAX_AXES];
} mailboxes;

static void *create(spmd_ctx *ctx)
{
    mailboxes *all = spmd__alloc(spmd__ctx_mesh(ctx), sizeof *all);
    if (all)
        *all = (mailboxes){0};
    return all;
}

static void destroy(void *memory)
{
    mailboxes *all = memory;
    for (int mask = 0; mask < 1 << SPMD_MAX_AXES; mask++)
        spmd__free(all->boxes[mask]);
    spmd__free(all);
}

void *spmd__mailbox(spmd_ctx *ctx, unsigned mask)
{
    static const char key;
    mailboxes *all = spmd__device_slot(ctx, &key, create, destroy);
    if (!all)
        return NULL;
    if (!all->boxes[mask])
        all->boxes[mask] = spmd__alloc(spmd__ctx_mesh(ctx), 2 * (size_t)SPMD_MAILBOX_BYTES);
    if (!all->boxes[mask])
        return NULL;
    all->second[mask] = !all->second[mask];
    return all->boxes[mask] + (all->second[mask] ? SPMD_MAILBOX_BYTES : 0);
}
