/* A profile: what every op of a launch took, as a table and as a trace for chrome://tracing or ui.perfetto.dev. */
#ifndef SPMD_PROFILE_H
#define SPMD_PROFILE_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* spmd_profile_create - room for `events` ops a device; later ones are counted, not kept.   Host thread.
 * Launches with job.profile = this profile add to it; timing costs about 0.1 us an op. Destroy it before the mesh. */
SPMD_API spmd_status spmd_profile_create(spmd_mesh *mesh, int events, spmd_profile **out);
SPMD_API void spmd_profile_destroy(spmd_profile *profile); /* NULL is allowed. Host thread. */
SPMD_API void spmd_profile_clear(spmd_profile *profile);   /* Host thread, not during a launch. */

/* One kind of op, over all devices. */
typedef struct spmd_profile_row {
    const char *op;
    bool collective; /* its time holds the waiting for other shards */
    int64_t calls;
    double us, flops, bytes;
} spmd_profile_row;
/* The rows, longest first; returns how many there are, writes at most `most`. Local. */
SPMD_API int spmd_profile_rows(const spmd_profile *profile, spmd_profile_row *rows, int most);
/* The rows as a table: op, calls, us, share, GFLOP/s, GB/s. Local. */
SPMD_API void spmd_profile_print(const spmd_profile *profile, FILE *file);
/* Chrome trace JSON: one track a device, collectives on a track of their own. Errors: EIO. Local. */
SPMD_API spmd_status spmd_profile_trace(const spmd_profile *profile, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
