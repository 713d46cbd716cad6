/* Private: where shards meet on the host backend. One function carries checking, failure and order.
 *
 * The members of a group (devices that differ only along some axes) publish a signature and a pointer, wait for each
 * other, and compare. Every wait is bounded, released by a failing shard, and gives up at once when nobody can go on.
 */
#ifndef SPMD_HOST_MEET_H
#define SPMD_HOST_MEET_H

#include "spmd/op.h"

/* What must be equal on every member. Call sites are reported, never compared. */
typedef struct spmd_signature {
    const char *op;   /* name of the collective; compared as text */
    spmd_dtype dtype; /* of the first tensor */
    int64_t count;    /* elements of the first tensor */
    uint64_t hash; /* of everything else: attributes (reduction, dims, permutation), shapes and dtypes of all tensors */
} spmd_signature;

typedef struct spmd_group {
    int n, me;                    /* members; this shard's place among them */
    int device[SPMD_MAX_DEVICES]; /* by place: row-major over the axes in the order given */
    unsigned mask;                /* the axes, those of size 1 left out */
} spmd_group;

void spmd__group(const spmd_ctx *ctx, const spmd_axes *axes, spmd_group *out);
void spmd__group_all(const spmd_ctx *ctx, spmd_group *out); /* every shard of the mesh; place = device */

/* spmd__meet - publish, wait for all members, compare.   Collective over the group.
 *   signature   NULL: the second meeting of the same call (nothing to compare)
 *   post        what the others may read, until this shard's next meeting on the same axes; in memory that lives as
 * long as the launch (spmd__scratch), because a member that times out leaves while a late one still reads posts (may be
 * NULL) the members' posts by place A group of one returns at once. What a member wrote before the meeting is visible
 * to all after it. Errors: EMISMATCH naming both call sites, EABORTED, ETIMEOUT. */
spmd_status spmd__meet(spmd_ctx *ctx, const spmd_group *group, const spmd_signature *signature, const void *post,
                       const void **posts);

#endif
