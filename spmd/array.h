/* spmd_array: a global array, one block on every device. Data crosses between the host program and the devices only
 * here. Arrays belong to a mesh and are used by one host thread at a time, never during a launch that uses them. */
#ifndef SPMD_ARRAY_H
#define SPMD_ARRAY_H

#include "spmd/dtype.h"
#include "spmd/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd_array spmd_array;

/* spmd_shard - cut `host` (row-major, the global shape) into blocks by `spec` (JAX: device_put).   Local; host thread.
 *   host   read before the call returns; NULL: zeros
 * Errors: EINVAL, EDTYPE, EAXIS, ESPEC, ESHAPE (all bad dimensions are listed), EIO (the mesh's fault hook), ENOMEM,
 * ECUDA. The caller destroys the array. */
SPMD_API spmd_status spmd_shard(spmd_mesh *mesh, const void *host, spmd_dtype dtype, int rank, const int64_t *shape,
                                spmd_spec spec, spmd_array **out);
/* spmd_shard_update - new values for all elements, from memory of the global shape.   Local; host thread.
 * Errors: EINVAL, EIO (the mesh's fault hook); off the host also ENOMEM, ECUDA. */
SPMD_API spmd_status spmd_shard_update(spmd_array *array, const void *host);
/* spmd_unshard - the global value into `host` (global shape, row-major). Copies: the first device's is taken. Local.
 * Errors: as spmd_shard_update. */
SPMD_API spmd_status spmd_unshard(const spmd_array *array, void *host);
/* spmd_array_set - every element becomes `value`, rounded to the dtype: for per-step scalars. Local.
 * Errors: EINVAL (it does not fit an integer dtype); off the host also ENOMEM, ECUDA. */
SPMD_API spmd_status spmd_array_set(spmd_array *array, double value);
SPMD_API void spmd_array_destroy(spmd_array *array); /* NULL is allowed. Local. */

SPMD_API spmd_dtype spmd_array_dtype(const spmd_array *array);
SPMD_API int spmd_array_rank(const spmd_array *array);
SPMD_API const int64_t *spmd_array_shape(const spmd_array *array); /* the global shape */
SPMD_API int64_t spmd_array_count(const spmd_array *array);        /* elements of the global array */
SPMD_API spmd_spec spmd_array_spec(const spmd_array *array);
SPMD_API spmd_mesh *spmd_array_mesh(const spmd_array *array);

/* One line: dtype, global shape, spec, block shape, distinct blocks and copies. Local. */
SPMD_API void spmd_array_print(const spmd_array *array, FILE *file);
/* A drawing of which device holds which block (JAX: visualize_array_sharding): dimension 0 downwards, dimension 1 to
 * the right, the others are whole in the drawing; coloured when `file` is a terminal. Local. */
SPMD_API spmd_status spmd_array_print_sharding(const spmd_array *array, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
