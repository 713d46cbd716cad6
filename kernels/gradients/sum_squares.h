/* Private. The sum of a tensor's squares, as an f32 scalar, in one pass and without the squares in memory. */
#ifndef KERNELS_SUM_SQUARES_H
#define KERNELS_SUM_SQUARES_H

#include "spmd/op.h"

spmd_status spmd__sum_squares(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);

#endif
