/* Gradients inside a shard function.
 *
 * Let A be the mesh axes over which the loss varies when the loss function returns it. The gradient of a parameter is
 * d(sum over A of the losses) / d(this shard's copy): a LOCAL loss gives LOCAL gradients, to be averaged by hand with
 * spmd_pmean; a pmean'd (or psum'd) loss gives the global gradient, the same on every shard, nothing left to do.
 * A parameter that itself varies over an axis of A (sharded) gets the gradient of the SUM over that axis:
 * spmd_mean_grads (kernels/kernels.h) does the right thing for both kinds.
 * In automatic mode (spmd/auto_map.h) loss and gradients are those of one device; gradients lie as their parameters. */
#ifndef SPMD_GRAD_H
#define SPMD_GRAD_H

#include "spmd/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The loss: a scalar (rank 0) floating tensor made from `params`; the batch and auxiliary outputs travel in `user`. */
typedef spmd_status spmd_loss_fn(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss);

/* spmd_value_and_grad - loss and its gradient for every parameter.   Collective where `fn` or a transpose is.
 *   grads[k]   shape and dtype of params[k]; zeros if the loss does not depend on it; may alias params
 * Nests: gradients made of ops can be differentiated again.
 * Errors: EGRAD (an op has no gradient; loss not a scalar, partial or not floating; a parameter twice, not floating),
 * and what `fn` returns. */
SPMD_API spmd_status spmd_value_and_grad(spmd_ctx *ctx, spmd_loss_fn *fn, void *user, const spmd_tensor *params, int n,
                                         spmd_tensor *loss, spmd_tensor *grads);
/* spmd_grad - the same without the loss. */
SPMD_API spmd_status spmd_grad(spmd_ctx *ctx, spmd_loss_fn *fn, void *user, const spmd_tensor *params, int n,
                               spmd_tensor *grads);

#ifdef __cplusplus
}
#endif
#endif
