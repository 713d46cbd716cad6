/* Gradients inside a shard function.
 *
 * Let A be the mesh axes over which the loss varies when the loss function returns it. The gradient of a parameter is
 * d(sum over A of the losses) / d(this shard's copy): a LOCAL loss gives LOCAL gradients, to be averaged by hand with
 * spmd_pmean; a pmean'd (or psum'd) loss gives the global gradient, the same on every shard, nothing left to do.
 * A parameter that itself varies over an axis of A (sharded) gets the gradient of the SUM over that axis:
 * spmd_mean_grads does the right thing for both kinds. */
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

/* spmd_mean_grads - gradients of the mean loss over `axes`, whatever the parameters' state: pmean (one meeting for all)
 * where a parameter is invarying, times 1/size where it varies. In place on `grads`.   Collective over `axes`. */
SPMD_API spmd_status spmd_mean_grads(spmd_ctx *ctx, const spmd_tensor *params, spmd_tensor *grads, int n,
                                     const char *axes);

/* spmd_global_norm - sqrt of the sum of all squares, f32 scalar, invarying: squares of a sharded tensor are summed over
 * exactly the axes on which it varies. Pass reduced gradients.   Collective over those axes. */
SPMD_API spmd_status spmd_global_norm(spmd_ctx *ctx, const spmd_tensor *tensors, int n, spmd_tensor *out);

/* spmd_stop_gradient - the same value, through which no gradient flows.   Local. */
SPMD_API spmd_status spmd_stop_gradient(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
