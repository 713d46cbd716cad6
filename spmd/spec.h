/* How a global array is cut into blocks: JAX's PartitionSpec, as a value.
 *
 * One entry per dimension: nothing (whole), one mesh axis, or several (the first is major). Dimensions without an entry
 * are whole; a mesh axis may appear once. Axes that a spec does not name hold copies of the block.
 *   SPMD_P("data", NULL)      rows cut over "data"
 *   SPMD_P("x,y")             dimension 0 cut over x (major) and y
 *   SPMD_REPLICATED           a copy on every device */
#ifndef SPMD_SPEC_H
#define SPMD_SPEC_H

#include "spmd/mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPMD_MAX_RANK = 6, SPMD_MAX_ENTRY = 64 };

typedef struct spmd_spec {
    int entries;                              /* number of entries; -1: malformed (reported when the spec is used) */
    char axes[SPMD_MAX_RANK][SPMD_MAX_ENTRY]; /* "", "data" or "x,y" */
} spmd_spec;

SPMD_API spmd_spec spmd_spec_make(int entries, const char *const *axes); /* axes[d] may be NULL. Local. */
#define SPMD_P(...)                                                                    \
    spmd_spec_make((int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), \
                   (const char *const[]){__VA_ARGS__})
#define SPMD_REPLICATED ((spmd_spec){0})

/* "data,-" or "(x,y),-" or "-" ("" is SPMD_REPLICATED). Errors: ESPEC shows the place. Local. */
SPMD_API spmd_status spmd_spec_parse(const char *text, spmd_spec *out);
/* Writes `P("data", NULL)` form: P(data,-), P((x,y)), P(). Returns the length that was wanted, as snprintf. Local. */
SPMD_API int spmd_spec_format(const spmd_spec *spec, char *text, size_t size);
/* Checks `spec` for an array of this shape: known axes, each once, not longer than the rank, every dimension divisible.
 * Errors: EAXIS, ESPEC, ESHAPE; all bad dimensions are listed. Local. */
SPMD_API spmd_status spmd_spec_check(const spmd_spec *spec, const spmd_mesh *mesh, int rank, const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
