/* spmd_shard_map: run one function on every device of a mesh.
 *
 * Each device's thread calls `fn` with the local blocks of the inputs; only the collectives that the function calls
 * move data between shards. If a shard returns an error, shards that wait for it return EABORTED, spmd_shard_map
 * returns the first shard's status and text, no output array is changed, and the mesh can be used again. */
#ifndef SPMD_SHARD_MAP_H
#define SPMD_SHARD_MAP_H

#include "spmd/array.h"
#include "spmd/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The per-shard function. `in` are the blocks, in the job's order; fill every `out`. All shards must issue the same ops
 * in the same order. Return an error to stop the launch (SPMD_CHECK, or any status). */
typedef spmd_status spmd_shard_fn(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user);

/* What one launch did, on shard 0, except where it says otherwise. Bytes are payload, not padding. */
typedef struct spmd_stats {
    int64_t ops;                                                                        /* ops run */
    int64_t collectives, bytes;                                                         /* over all axes */
    int64_t collectives_by_axes[1 << SPMD_MAX_AXES], bytes_by_axes[1 << SPMD_MAX_AXES]; /* index: mask of axes */
    int64_t implied;     /* collectives among them that transposition added */
    int64_t warnings;    /* all shards */
    int64_t arena_bytes; /* memory the launch used, largest shard */
    bool streams_differ; /* shards issued different ops */
} spmd_stats;

typedef struct spmd_jit spmd_jit;         /* spmd/jit.h */
typedef struct spmd_profile spmd_profile; /* spmd/profile.h */

typedef struct spmd_job {
    spmd_mesh *mesh;
    spmd_shard_fn *fn;
    void *user;
    int nin, nout;
    spmd_array *const *in;
    const spmd_spec *in_specs; /* NULL: the arrays' own. Given, they must equal the arrays' (an assertion) */
    /* Optional, entries too: what input k shall hold, as spmd_shard_update copies it; each device copies its own block
     * when the launch begins. In place whatever becomes of the launch, once it has begun. */
    const void *const *in_host;
    spmd_array **out;           /* NULL entries are created; others must fit and are overwritten; may be inputs too */
    const spmd_spec *out_specs; /* an axis that a spec does not name is a claim that all shards along it are equal */
    bool verify_replication;    /* also compare the bytes of outputs claimed as replicated */
    spmd_jit *jit;              /* record once, then replay (spmd/jit.h); NULL: eager */
    bool verify_recording;      /* with jit: record again and name what changed */
    spmd_profile *profile;      /* optional: times every op (spmd/profile.h) */
    spmd_stats *stats;          /* optional */
} spmd_job;

/* spmd_shard_map - run the job; returns when every shard has returned.   Host thread; not inside a shard function.
 * Errors: what a shard returned, else EINVAL, ESPEC, ESHAPE (all bad arguments are listed), EREPLICATION (an output
 * that claims replication varies or is partial), EMISMATCH, ETIMEOUT, EBUSY, EMESHLOST, EFORK, ENOMEM. */
SPMD_API spmd_status spmd_shard_map(const spmd_job *job);

/* Inside a shard function. Local. */
SPMD_API const spmd_mesh *spmd_ctx_mesh(const spmd_ctx *ctx);
SPMD_API int spmd_ctx_device(const spmd_ctx *ctx); /* this shard's number, 0 .. devices-1 */
/* Remembers the caller's place for messages about the next collective; returns ctx. The collectives' macros call it. */
SPMD_API spmd_ctx *spmd_ctx_at(spmd_ctx *ctx, const char *site);
#define SPMD_STRING_(x) #x
#define SPMD_STRING(x) SPMD_STRING_(x)
#define SPMD_AT(ctx) spmd_ctx_at(ctx, __FILE__ ":" SPMD_STRING(__LINE__))

#ifdef __cplusplus
}
#endif
#endif
