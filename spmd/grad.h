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

/* A part of a loss function, in the form of a shard function: fill every `out`. */
typedef spmd_status spmd_checkpoint_fn(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user);

/* spmd_checkpoint - out = fn(in), whose inner values are not kept for the gradient but made once more in the backward
 * pass (jax.checkpoint): memory for time.   Collective where `fn` is, and once more in the backward pass (counted as
 * implied there).
 *   in    nin tensors; others may be used, too (through `user`), and get their gradients all the same
 *   out   nout tensors; may alias `in`. Random numbers are the same ones
 * fn runs once: its calls are repeated, not fn, so `user` need not outlive the call. Same gradients, bit by bit, as
 * without. Nests, and gradients through it nest. Outside a loss function it is just fn(in). The memory is saved in
 * programs (spmd/jit.h); without a jit, a launch's memory is freed when it ends.
 * Errors: what fn returns; ESTALE an output was not set; EINVAL. */
SPMD_API spmd_status spmd_checkpoint(spmd_ctx *ctx, spmd_checkpoint_fn *fn, void *user, const spmd_tensor *in, int nin,
                                     spmd_tensor *out, int nout);

#ifdef __cplusplus
}
#endif
#endif
