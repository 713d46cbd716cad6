/* spmd_tensor: what a shard function computes with. A value: copy it freely; it dies with the launch.
 *
 * `shape` is the block's shape; in automatic mode (spmd/auto_map.h) the global one, and there is no state. `vary` and
 * `partial` are the state per mesh axis (bit a = axis a of the mesh):
 *   vary      varying: shards along that axis may hold different values
 *   partial   the true value is the sum over the shards; such a value also counts as varying
 *   neither   invarying: the same value on every shard along that axis
 * The memory is reached only through spmd_local and inside kernels (spmd_custom). */
#ifndef SPMD_TENSOR_H
#define SPMD_TENSOR_H

#include "spmd/dtype.h"
#include "spmd/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd_ctx spmd_ctx;

typedef struct spmd_tensor {
    spmd_dtype dtype;
    int rank;
    int64_t shape[SPMD_MAX_RANK];
    uint8_t vary, partial;
    /* private */
    uint32_t id;     /* which value of this launch; 0: none */
    uint32_t launch; /* which launch of the mesh made it */
    uint32_t slot;   /* which memory of this launch */
    bool donated;
    void *memory;
} spmd_tensor;

/* A local view: row-major, contiguous. */
typedef struct spmd_view {
    void *data;
    spmd_dtype dtype;
    int rank;
    int64_t shape[SPMD_MAX_RANK];
    int64_t strides[SPMD_MAX_RANK]; /* in elements */
    uint32_t value;                 /* private: which value of the launch this is; 0: none */
} spmd_view;

/* rank and shape as two arguments: spmd_reshape(ctx, &x, SPMD_SHAPE(4, 8), &y). SPMD_SCALAR is rank 0. */
#define SPMD_SHAPE(...)                                                                \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }
#define SPMD_SCALAR 0, (const int64_t *)0

SPMD_API int64_t spmd_count(const spmd_tensor *tensor);  /* number of elements of the block. Local. */
SPMD_API int64_t spmd_view_count(const spmd_view *view); /* likewise. Local. */

/* spmd_local - the block's memory, to read (and to write only inside a kernel).   Local.
 * Errors: ESTALE if the tensor is not of this launch. */
SPMD_API spmd_status spmd_local(spmd_ctx *ctx, const spmd_tensor *tensor, spmd_view *out);

/* spmd_donate - offers the tensor's memory to the next op that uses it: psum and friends then work in place,
 * `spmd_psum(ctx, spmd_donate(&g), "data", &g)`. Every older copy or view of the value becomes stale, and using one is
 * ESTALE. Only an offer: a value that a gradient needs, or an input array's block, is left alone. Returns tensor.
 * Local. */
SPMD_API spmd_tensor *spmd_donate(spmd_tensor *tensor);

/* Writes the type as JAX does, e.g. `f32[4,8]{V:data}` or `{U:model}` for partial; in automatic mode the global shape
 * and what cuts it, `f32[8@data,4]` (8@x@y: cut over x, then y). Returns as snprintf. Local. */
SPMD_API int spmd_tensor_format(spmd_ctx *ctx, const spmd_tensor *tensor, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
