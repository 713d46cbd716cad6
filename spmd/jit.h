/* spmd_jit: record the shard function once, then replay it.
 *
 * With job.jit set, the first launch for a set of input shapes, dtypes and specs RECORDS: the function runs, but no op
 * does; the calls become a program, which is then scheduled (dead ops dropped, reductions grouped into one meeting) and
 * planned (every value has a fixed place; arrays that are both input and output are updated in place). Every launch
 * REPLAYS it: no C code of the user's, no tape, no allocation. Eager and replayed steps give the same bits.
 *
 * While recording there are no values: spmd_local is ERECORDING, and C code cannot branch on data. What changes from
 * step to step must be an input array (learning rate, step number, seed); a C constant is baked in, and
 * job.verify_recording finds the ones that changed. Definitions and user pointers of spmd_custom must outlive the jit.
 * A launch that fails after its shards have agreed to update arrays in place leaves those undefined; the text then says
 * so. */
#ifndef SPMD_JIT_H
#define SPMD_JIT_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* spmd_jit_create - an empty set of programs of one shard function.   Host thread. Destroy it before the mesh. */
SPMD_API spmd_status spmd_jit_create(spmd_mesh *mesh, spmd_jit **out);
SPMD_API void spmd_jit_destroy(spmd_jit *jit); /* NULL is allowed; not during a launch. Host thread. */

/* Recorded so far: more than one is a recompile. NULL: 0.   Local. */
SPMD_API int spmd_jit_programs(const spmd_jit *jit);

/* One program, as shard 0 holds it. Bytes are per launch and shard. */
typedef struct spmd_program_info {
    int recorded, ops;        /* calls before and after scheduling */
    int collectives, grouped; /* meetings of a launch; reductions that were merged into another's */
    int beside;               /* collectives that run beside local ops, on a second stream (backend cuda) */
    int64_t collective_bytes; /* payload */
    int64_t collectives_by_axes[1 << SPMD_MAX_AXES], bytes_by_axes[1 << SPMD_MAX_AXES];
    int copies, in_place; /* outputs copied at the end; outputs written where they belong */
    int64_t values_bytes; /* all values added up */
    int64_t memory_bytes; /* what the plan needs for them */
    double flops, bytes;  /* by the ops' cost formulas */
    int64_t record_us;    /* recording, scheduling, planning */
} spmd_program_info;
SPMD_API spmd_status spmd_jit_info(const spmd_jit *jit, int k, spmd_program_info *out); /* Errors: EINVAL. Local. */
/* The program as text, one call a line: `%7 f32[256,128]{V:data} = linear_gelu %3 %4 %5   model.c:31`. Local. */
SPMD_API spmd_status spmd_jit_print(const spmd_jit *jit, int k, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
