/* Private: the flight recorder. Every shard keeps its last calls; a launch that times out prints them to the log. */
#ifndef SPMD_RECORDER_H
#define SPMD_RECORDER_H

#include <stdatomic.h>
#include <stdint.h>

enum { SPMD_RECORDER_CALLS = 16 };

/* Written by the shard, read by whoever reports: hence the atomics, relaxed, which cost nothing. */
typedef struct spmd_recorder {
    _Atomic uint64_t calls;                          /* so far in this launch */
    _Atomic(const char *) op[SPMD_RECORDER_CALLS];   /* by number of the call modulo the size */
    _Atomic(const char *) site[SPMD_RECORDER_CALLS]; /* of collectives; NULL: another op */
} spmd_recorder;

static inline void spmd__record(spmd_recorder *r, const char *op, const char *site)
{
    uint64_t n = atomic_load_explicit(&r->calls, memory_order_relaxed), k = n % SPMD_RECORDER_CALLS;
    atomic_store_explicit(&r->op[k], op, memory_order_relaxed);
    atomic_store_explicit(&r->site[k], site, memory_order_relaxed);
    atomic_store_explicit(&r->calls, n + 1, memory_order_release);
}

struct spmd_mesh;
void spmd__recorder_print(struct spmd_mesh *mesh); /* one line a shard to the mesh's log */

#endif
