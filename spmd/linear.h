/* Private: the linear ops that the tape emits by itself. Declared here, each defined in its own folder above (add, full
 * in kernels/; psum, pcast in collectives/), so that the core names none of their files. */
#ifndef SPMD_LINEAR_H
#define SPMD_LINEAR_H

#include "spmd/op.h"

/* out = a + b, equal shapes. */
spmd_status spmd__linear_add(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
/* Shape, dtype and varying state of `like`, every element `value`; reads nothing. */
spmd_status spmd__linear_fill(spmd_ctx *ctx, const spmd_tensor *like, double value, spmd_tensor *out);
/* Sum over the axes of `mask`: n tensors in one meeting. */
spmd_status spmd__linear_psum(spmd_ctx *ctx, const spmd_tensor *in, int n, unsigned mask, spmd_tensor *out);
/* Invarying to varying over the axes of `mask`; moves nothing. */
spmd_status spmd__linear_pcast(spmd_ctx *ctx, const spmd_tensor *in, unsigned mask, spmd_tensor *out);

#endif
