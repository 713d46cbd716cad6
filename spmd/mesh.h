/* A mesh: named axes over devices. Every other object hangs off one.
 *
 * Devices are numbered row-major over the axes, the first axis being major: on "data=2,model=2" device 3 is
 * (data 1, model 1). On backend "host" a device is a pthread with its own memory arena, made with the mesh and asleep
 * between launches. Threads: one launch at a time per mesh; different meshes may run at once. */
#ifndef SPMD_MESH_H
#define SPMD_MESH_H

#include "spmd/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPMD_MAX_AXES = 6, SPMD_MAX_DEVICES = 64, SPMD_MAX_AXIS_NAME = 16 };

typedef struct spmd_mesh spmd_mesh;

/* spmd_mesh_create - devices for `axes`, e.g. "data=2,model=2" (1..6 axes, 1..64 devices).   Local; host thread.
 *   backend   "host" (NULL means it); "host-strict", its hostile twin for tests: fresh memory is NaN, kernels run late
 *             on a stream thread, shards start in random order; "cuda", GPUs, where built (spmd/cuda.h)
 * Environment, read here only: SPMD_PIN=0 turns pinning off,
 * SPMD_TIMEOUT_MS bounds every wait (default 300000; 0 waits for ever, for debuggers), SPMD_SEED is the seed of
 * host-strict's delays (printed). Errors: EINVAL (text, sizes, names), EUNSUPPORTED (backend), ENOMEM. The caller
 * destroys the mesh. */
SPMD_API spmd_status spmd_mesh_create(const char *axes, const char *backend, spmd_mesh **out);

/* spmd_mesh_destroy - ends the threads and frees the mesh; NULL is allowed. Arrays must be destroyed before it.
 * Returns EBUSY while a launch runs. A lost mesh (see EMESHLOST) leaves its stuck thread and that memory alone until
 * the thread returns. In a forked child it frees nothing and returns EFORK. Local; host thread. */
SPMD_API spmd_status spmd_mesh_destroy(spmd_mesh *mesh);

SPMD_API int spmd_mesh_devices(const spmd_mesh *mesh);                     /* number of devices. Local. */
SPMD_API int spmd_mesh_axes(const spmd_mesh *mesh);                        /* number of axes. Local. */
SPMD_API const char *spmd_mesh_axis_name(const spmd_mesh *mesh, int axis); /* NULL out of range. Local. */
SPMD_API int spmd_mesh_axis_size(const spmd_mesh *mesh, int axis);         /* 0 out of range. Local. */
SPMD_API const char *spmd_mesh_backend(const spmd_mesh *mesh);             /* "host". Local. */
SPMD_API int spmd_mesh_coord(const spmd_mesh *mesh, int device, int axis); /* -1 out of range. Local. */
SPMD_API const char *spmd_backend_name(int k); /* the k-th backend of this build, from 0; NULL past the last. Local. */
SPMD_API void spmd_mesh_print(const spmd_mesh *mesh, FILE *file); /* axes, devices, where they run. Local. */

/* Where warnings and notices go: one call a line, without newline, from any thread (calls do not overlap).
 * Default: "spmdkit: ..." to stderr. NULL silences. Local; not during a launch. */
typedef void spmd_log_fn(void *user, const char *line);
SPMD_API void spmd_mesh_set_log(spmd_mesh *mesh, spmd_log_fn *log, void *user);

/* What may fail, for tests and accounting: called before every memory allocation that the library makes for this mesh
 * (arenas, arrays, tapes), every copy between host and device memory, and every collective of every shard. Returning
 * false makes it fail: ENOMEM for an allocation, EIO for the others. Called from any device's thread, several at once.
 * Local. */
typedef enum spmd_operation { SPMD_ALLOCATION, SPMD_COPY, SPMD_COLLECTIVE } spmd_operation;
typedef bool spmd_fault_hook_fn(void *user, spmd_operation operation, size_t bytes);
SPMD_API void spmd_mesh_set_fault_hook(spmd_mesh *mesh, spmd_fault_hook_fn *hook, void *user);

#ifdef __cplusplus
}
#endif
#endif
