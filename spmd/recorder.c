#include "spmd/recorder.h"
#include "spmd/ctx.h"

void spmd__recorder_print(spmd_mesh *mesh)
{
    for (int d = 0; d < mesh->ndevices; d++) {
        spmd_recorder *r = &mesh->devices[d].recorder;
        char text[SPMD_ERROR_SIZE];
        uint64_t calls = atomic_load_explicit(&r->calls, memory_order_acquire);
        size_t used = 0;
        text[0] = 0;
        for (uint64_t n = calls > SPMD_RECORDER_CALLS ? calls - SPMD_RECORDER_CALLS : 0;
             n < calls && used < sizeof text; n++) {
            const char *op = atomic_load_explicit(&r->op[n % SPMD_RECORDER_CALLS], memory_order_relaxed);
            const char *site = atomic_load_explicit(&r->site[n % SPMD_RECORDER_CALLS], memory_order_relaxed);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s#%llu %s%s%s", used ? ", " : "",
                                     (unsigned long long)n, op, site ? " at " : "", site ? site : "");
        }
        spmd__log(mesh, NULL, "flight recorder, shard %d: %s", d, calls ? text : "no calls");
    }
}
