/* Private: where shards meet, on every backend. Every meeting carries checking, failure and order.
 *
 * The members of a group (devices that differ only along some axes) publish a signature and a pointer, wait for each
 * other, and compare. Every wait is bounded, released by a failing shard, and gives up at once when nobody can go on.
 */
#ifndef SPMD_HOST_MEET_H
#define SPMD_HOST_MEET_H

#include "spmd/op.h"

/* What a report needs to say how two calls of one collective differ. */
typedef struct spmd_told {
    spmd_attr attr;
    int nin, rank;
    int64_t shape[SPMD_MAX_RANK]; /* of the first tensor */
} spmd_told;

enum { SPMD_DIFFERENCE = 640 };
typedef void spmd_difference_fn(const spmd_mesh *mesh, const char *op, const spmd_told *a, const spmd_told *b,
                                char text[SPMD_DIFFERENCE]);

/* What must be equal on every member: `op` and `hash`; the rest is for the report. Call sites are reported as well. */
typedef struct spmd_signature {
    const char *op;   /* name of the collective; compared as text */
    spmd_dtype dtype; /* of the first tensor */
    int64_t count;    /* elements of the first tensor */
    uint64_t hash;    /* of everything: attributes (reduction, dims, permutation), shapes and dtypes of all tensors */
    size_t mail;      /* bytes of a post that is a copy; else 0 */
    const spmd_kernel_args *args;   /* (optional) the call, and */
    spmd_difference_fn *difference; /* who can tell it from another one with the same op, dtype and count */
} spmd_signature;

typedef struct spmd_group {
    int n, me;                    /* members; this shard's place among them */
    int device[SPMD_MAX_DEVICES]; /* by place: row-major over the axes in the order given */
    bool sorted;                  /* places are in the order of device numbers */
    unsigned mask;                /* the axes, those of size 1 left out */
} spmd_group;

/* spmd__group - this shard's group; it stays until this thread asks for the same axes in another order. */
const spmd_group *spmd__group(const spmd_ctx *ctx, const spmd_axes *axes);
const spmd_group *spmd__group_all(const spmd_ctx *ctx); /* every shard of the mesh; place = device */
void spmd__find_group(const spmd_ctx *ctx, const spmd_axes *axes, spmd_group *out); /* for any thread */

/* What the others may read, until this shard's next meeting on the same axes; in memory that lives as long as the
 * launch (spmd__scratch), because a member that times out leaves while a late one still reads. */
typedef struct spmd_post {
    const void *data;
    void *out; /* and may write to */
} spmd_post;

/* spmd__meet - publish, wait for all members, compare.   Collective over the group.
 *   signature   NULL: the second meeting of the same call (nothing to compare)
 *   posts       the members' posts by place (may be NULL)
 * A group of one returns at once. What a member wrote before the meeting is visible to all after it.
 * Errors: EMISMATCH naming both call sites, EABORTED, ETIMEOUT. */
spmd_status spmd__meet(spmd_ctx *ctx, const spmd_group *group, const spmd_signature *signature, spmd_post post,
                       spmd_post *posts);

/* spmd__mail_box - SPMD_MAIL_BYTES bytes, 64-byte aligned, of this shard's next meeting with the group: for a post that
 * is a copy. Only the others may read it, in the same meeting: the next writer may be one of them. Nobody needs to wait
 * for its readers: this shard gets the same box again two meetings later, and by then every member has come to the
 * meeting in between. Local. */
enum { SPMD_MAIL_BYTES = 8192 };
void *spmd__mail_box(const spmd_ctx *ctx, const spmd_group *group);

#endif
