/* Private. The fused ops' common halves: gelu of a row with its derivative, and the backward pass from that. */
#ifndef KERNELS_GELU_BACKPROP_H
#define KERNELS_GELU_BACKPROP_H

#include "spmd/op.h"

/* In place: y holds z, then gelu(z + bias); slope becomes the derivative there. */
void spmd__bias_gelu_row(float *restrict y, const float *restrict bias, float *restrict slope, int64_t n);

/* dz = ct * slope, and dbias = its sum over rows in the same pass. ct, slope [.., n]. No gradient. */
spmd_status spmd__gelu_backprop(spmd_ctx *ctx, const spmd_tensor *ct, const spmd_tensor *slope, spmd_tensor *dz,
                                spmd_tensor *dbias);
/* The same, and kept = keep * ct on the way. */
spmd_status spmd__residual_backprop(spmd_ctx *ctx, const spmd_tensor *ct, const spmd_tensor *slope, double keep,
                                    spmd_tensor *dz, spmd_tensor *kept, spmd_tensor *dbias);

#endif
