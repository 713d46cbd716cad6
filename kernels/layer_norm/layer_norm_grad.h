/* Private. The fused backward pass of layer_norm. */
#ifndef KERNELS_LAYER_NORM_GRAD_H
#define KERNELS_LAYER_NORM_GRAD_H

#include "spmd/op.h"

/* x [.., n], gain [n], mean and scale (1 / standard deviation) f32 [..], ct [.., n] -> dx, dgain, dbias. */
spmd_status spmd__layer_norm_grad(spmd_ctx *ctx, const spmd_tensor in[5], spmd_tensor out[3]);

#endif
