/* Private. Memory that a device keeps for its kernels: it grows to the largest need and stays until the mesh ends, so
 * that a repeated step allocates nothing. (spmd__scratch instead lives as long as the launch: 100 layers would hold
 * 100 buffers.) */
#ifndef KERNELS_WORKSPACE_H
#define KERNELS_WORKSPACE_H

#include "spmd/op.h"

typedef enum spmd__space {
    SPMD__SPACE_KERNEL, /* for the op that runs */
    SPMD__SPACE_WIDE,   /* for a matmul inside it: operands and result as f32 */
    SPMD__SPACE_PANEL,  /* for a matmul inside it: a piece of an operand */
    SPMD__SPACE_MATMUL, /* for the matrix library under it */
    SPMD__SPACES
} spmd__space;

/* At least `bytes`, 64-byte aligned, contents undefined; valid until the same space is asked for again on this device.
 * NULL, with the error text set, if out of memory. */
void *spmd__workspace(spmd_ctx *ctx, spmd__space space, size_t bytes);

#endif
