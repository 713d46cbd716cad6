/* Ops: what runs on one shard's block. All are Local: they move no data between shards.
 *
 * out        may alias an input; fresh memory otherwise. Shapes are row-major, in brackets, numpy order.
 * dtypes     f32 and bf16 (computed in f32, rounded once) unless said; both operands have the same dtype
 * broadcast  numpy's rule: trailing dimensions match or are 1
 * state      a result varies over every axis on which an input varies (spmd/tensor.h)
 * Gradients exist unless said. Errors: ESHAPE and EDTYPE name the op, the value and what was expected. */
#ifndef SPMD_KERNELS_H
#define SPMD_KERNELS_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- binary, broadcasting: f32, bf16; add, sub, mul also i32 (wraps) --- */
SPMD_API spmd_status spmd_add(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
SPMD_API spmd_status spmd_sub(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
SPMD_API spmd_status spmd_mul(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
SPMD_API spmd_status spmd_div(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
/* NaN wins; equal operands share the gradient half and half (jnp.maximum). Also i32. */
SPMD_API spmd_status spmd_maximum(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
/* a == b as bool; any dtype. No gradient. */
SPMD_API spmd_status spmd_equal(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out);
/* condition (bool) ? a : b, all three broadcast; any dtype of a and b. */
SPMD_API spmd_status spmd_where(spmd_ctx *ctx, const spmd_tensor *condition, const spmd_tensor *a, const spmd_tensor *b,
                                spmd_tensor *out);

/* --- unary --- */
SPMD_API spmd_status spmd_neg(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_scale(spmd_ctx *ctx, const spmd_tensor *x, double factor, spmd_tensor *out); /* 0 gives 0 */
SPMD_API spmd_status spmd_exp(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_log(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_sqrt(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_square(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_relu(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out); /* gradient 0 at 0 */
SPMD_API spmd_status spmd_tanh(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_sigmoid(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_silu(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
SPMD_API spmd_status spmd_gelu(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out); /* tanh form, as jax.nn.gelu */
/* To another dtype; float to integer truncates and saturates, NaN gives 0. Gradient between floats only. */
SPMD_API spmd_status spmd_cast(spmd_ctx *ctx, const spmd_tensor *x, spmd_dtype dtype, spmd_tensor *out);

/* --- making and moving --- */
SPMD_API spmd_status spmd_full(spmd_ctx *ctx, double value, spmd_dtype dtype, int rank, const int64_t *shape,
                               spmd_tensor *out); /* invarying */
SPMD_API spmd_status spmd_iota(spmd_ctx *ctx, spmd_dtype dtype, int64_t n,
                               spmd_tensor *out); /* 0..n-1; f32, i32, i64 */
/* indices i32 [...] -> dtype [..., classes]; a row of zeros for an index out of range. No gradient. */
SPMD_API spmd_status spmd_one_hot(spmd_ctx *ctx, const spmd_tensor *indices, int64_t classes, spmd_dtype dtype,
                                  spmd_tensor *out);
SPMD_API spmd_status spmd_reshape(spmd_ctx *ctx, const spmd_tensor *x, int rank, const int64_t *shape,
                                  spmd_tensor *out); /* shares memory; one size may be -1; any dtype */
/* out dimension d is x's dimension order[d]; order NULL reverses all. Any dtype. */
SPMD_API spmd_status spmd_transpose(spmd_ctx *ctx, const spmd_tensor *x, const int *order, spmd_tensor *out);
/* x[..., start:start+size, ...] along dim. Any dtype. */
SPMD_API spmd_status spmd_slice(spmd_ctx *ctx, const spmd_tensor *x, int dim, int64_t start, int64_t size,
                                spmd_tensor *out);
SPMD_API spmd_status spmd_concat(spmd_ctx *ctx, const spmd_tensor *x, int n, int dim, spmd_tensor *out); /* any dtype */
/* x broadcast to `shape` (numpy's rule). Any dtype. */
SPMD_API spmd_status spmd_broadcast_to(spmd_ctx *ctx, const spmd_tensor *x, int rank, const int64_t *shape,
                                       spmd_tensor *out);

/* --- reductions over the dimensions in dims[0..n), all when dims is NULL; keep: leave size 1. Sums run in a fixed
 * order in f32. max: NaN wins, equal maxima share the gradient. --- */
SPMD_API spmd_status spmd_sum(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep, spmd_tensor *out);
SPMD_API spmd_status spmd_mean(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep,
                               spmd_tensor *out);
SPMD_API spmd_status spmd_max(spmd_ctx *ctx, const spmd_tensor *x, const int *dims, int n, bool keep, spmd_tensor *out);
/* Index of the first maximum along dim, i32; a NaN counts as the maximum. No gradient. */
SPMD_API spmd_status spmd_argmax(spmd_ctx *ctx, const spmd_tensor *x, int dim, spmd_tensor *out);

/* --- matmul: [..., m, k] x [..., k, n] -> [..., m, n]; leading dimensions equal, or b of rank 2. f32 accumulation.
 *     transpose_a: a is [..., k, m]; transpose_b: b is [..., n, k]. --- */
SPMD_API spmd_status spmd_matmul(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, bool transpose_a,
                                 bool transpose_b, spmd_tensor *out);
/* gelu(x + bias): x [..., n], bias [n]. */
SPMD_API spmd_status spmd_bias_gelu(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *bias, spmd_tensor *out);
/* x w + bias: x [..., k], w [k, n], bias [n] -> [..., n]. */
SPMD_API spmd_status spmd_linear(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w, const spmd_tensor *bias,
                                 spmd_tensor *out);
/* gelu(x w + bias), one op: the pre-activation's derivative is kept for the backward pass. */
SPMD_API spmd_status spmd_linear_gelu(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w,
                                      const spmd_tensor *bias, spmd_tensor *out);
/* keep x + mix gelu(x w + bias), a residual block of one op; w is square. */
SPMD_API spmd_status spmd_residual_gelu(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *w,
                                        const spmd_tensor *bias, double keep, double mix, spmd_tensor *out);

/* --- along the last dimension --- */
SPMD_API spmd_status spmd_softmax(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
/* (x - mean) / sqrt(var + epsilon) * gain + bias: x [..., n], gain, bias [n]. */
SPMD_API spmd_status spmd_layer_norm(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *gain,
                                     const spmd_tensor *bias, double epsilon, spmd_tensor *out);
/* -log softmax(logits)[label]: logits [..., n] (f32), labels i32 [...] -> f32 [...]. A label outside 0..n-1 is EINVAL
 * and named. Fused forward and backward (optax.softmax_cross_entropy_with_integer_labels). */
SPMD_API spmd_status spmd_softmax_cross_entropy(spmd_ctx *ctx, const spmd_tensor *logits, const spmd_tensor *labels,
                                                spmd_tensor *out);
/* table [v, n], indices i32 [...] -> [..., n]. An index outside 0..v-1 is EINVAL and named. Deterministic gradient. */
SPMD_API spmd_status spmd_embedding(spmd_ctx *ctx, const spmd_tensor *table, const spmd_tensor *indices,
                                    spmd_tensor *out);
/* softmax(q k^T / sqrt(d) + causal mask) v: q, k, v [batch, heads, time, d] -> the same. Scores never leave a tile row.
 */
SPMD_API spmd_status spmd_causal_attention(spmd_ctx *ctx, const spmd_tensor *q, const spmd_tensor *k,
                                           const spmd_tensor *v, spmd_tensor *out);

/* --- random: Philox4x32-10 keyed by (seed, stream); the counter is the element's index in the GLOBAL array that `spec`
 *     cuts, so values do not depend on the device count. shape is the block's. The result varies over the spec's axes.
 *     seed: i32 or i64 scalar tensor (an input of the step). No gradient. --- */
SPMD_API spmd_status spmd_random_uniform(spmd_ctx *ctx, const spmd_tensor *seed, int64_t stream, int rank,
                                         const int64_t *shape, spmd_spec spec, spmd_tensor *out); /* f32 in [0, 1) */
SPMD_API spmd_status spmd_random_normal(spmd_ctx *ctx, const spmd_tensor *seed, int64_t stream, int rank,
                                        const int64_t *shape, spmd_spec spec, spmd_tensor *out); /* f32, mean 0, sd 1 */

/* --- optimizer --- */
typedef struct spmd_adamw_opts {
    double b1, b2, epsilon, weight_decay; /* optax.adamw: 0.9, 0.999, 1e-8, 1e-4 */
} spmd_adamw_opts;
/* One AdamW step over n parameters, one op (Optax's formula, eps outside the root, decay times the learning rate).
 *   params, grads, mu, nu   f32, n of each, shapes equal;  rate, count: f32 scalars; count is the step's number, from 1
 *   new_params, new_mu, new_nu   n of each; may alias. No gradient. */
SPMD_API spmd_status spmd_adamw(spmd_ctx *ctx, const spmd_adamw_opts *opts, int n, const spmd_tensor *params,
                                const spmd_tensor *grads, const spmd_tensor *mu, const spmd_tensor *nu,
                                const spmd_tensor *rate, const spmd_tensor *count, spmd_tensor *new_params,
                                spmd_tensor *new_mu, spmd_tensor *new_nu);

/* --- working with gradients --- */
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
