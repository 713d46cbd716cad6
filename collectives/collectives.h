/* Collectives, with JAX's names and meaning. All are called inside a shard function by every shard along the named
 * axes.
 *
 * axes   one mesh axis ("data") or several ("x,y", the first is major); "" is the empty set: the value is returned
 * out    may alias in when shapes agree
 * State: psum, pmean, pmax, pmin, pbroadcast give an invarying value, the others a varying one (see spmd/tensor.h). An
 *        invarying operand is cast to varying first, so psum of a replicated x is N*x (warned about once).
 * groups cut the shards along the axes into parts that work each by itself (JAX's axis_index_groups): "0,1;2,3" by axis
 *        index, every index once, NULL in options: none. The result varies, groups being different. Gathered, scattered
 *        and exchanged blocks go in the order of the list, and the groups must have one size (N is then that size).
 *        Transposes keep the groups. All shards along the axes must call. Errors: EINVAL names the index or the sizes.
 * Order: reductions run in rank order: the same bits on every shard, from run to run, in a list or alone (sums of f32
 *        that NCCL makes: the same on every shard; docs/backend-cuda.md). bf16 and f16 are summed in f32 and rounded
 *        once; integers wrap; NaN wins in pmax and pmin.
 * Errors: EAXIS no such axis; ESHAPE sizes do not fit; EMISMATCH shards made different calls (both call sites named);
 *        EABORTED another shard failed; ETIMEOUT.
 * Automatic mode (spmd/auto_map.h): pmean, pmax, pmin and pcast return their operand, the others are EAXIS.
 * Memory: in place is fastest. Source: jax.lax.parallel. Bus factors as nccl-tests counts them. */
#ifndef SPMD_COLLECTIVES_H
#define SPMD_COLLECTIVES_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* spmd_psum - sum over the shards.   Collective over `axes`. Same shape and dtype (bool gives i32). A partial value
 * becomes whole. Gradient: psum of the cotangent if it is pending, then cast to varying. Bus: 2(n-1)/n. */
SPMD_API spmd_status spmd_psum(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);
/* spmd_settle - psum in explicit mode, nothing in automatic mode (spmd/auto_map.h), where a value is the whole sum
 * already.   Collective over `axes`. */
SPMD_API spmd_status spmd_settle(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);
/* n tensors in one meeting. */
SPMD_API spmd_status spmd_settle_list(spmd_ctx *ctx, const spmd_tensor *in, int n, const char *axes, spmd_tensor *out);
/* spmd_pmean - psum / N; integers and bools give f32.   Collective over `axes`. Gradient: as psum, divided by N. */
SPMD_API spmd_status spmd_pmean(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);
/* spmd_pmean_weighted - sum of weight * in over sum of weight, for n tensors in one meeting; weight is a scalar that
 * differs from shard to shard: the rows that the shard really has, so that means of batches of 7 and of 6 rows become
 * the mean over 13 (pmean would be the mean of means). bf16 and f16 are computed in f32; integers give f32. Weights
 * that add to 0 give NaN.   Collective over `axes`. Gradients: of in and of a float weight. */
SPMD_API spmd_status spmd_pmean_weighted(spmd_ctx *ctx, const spmd_tensor *in, int n, const spmd_tensor *weight,
                                         const char *axes, spmd_tensor *out);
/* spmd_pmax, spmd_pmin - elementwise; NaN wins.   Collective over `axes`. No gradient (use spmd_stop_gradient on in).
 */
SPMD_API spmd_status spmd_pmax(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);
SPMD_API spmd_status spmd_pmin(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);

/* spmd_psum_list, spmd_pmean_list - n tensors of any shapes and dtypes in one meeting; each result has the same bits as
 * a call of its own.   Collective over `axes`. */
SPMD_API spmd_status spmd_psum_list(spmd_ctx *ctx, const spmd_tensor *in, int n, const char *axes, spmd_tensor *out);
SPMD_API spmd_status spmd_pmean_list(spmd_ctx *ctx, const spmd_tensor *in, int n, const char *axes, spmd_tensor *out);

/* spmd_psum_groups, ... - the same in groups, which may differ in size; pmean divides by the size of its own group.
 * Collective over `axes`. Gradient: the same op. */
SPMD_API spmd_status spmd_psum_groups(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                                      spmd_tensor *out);
SPMD_API spmd_status spmd_pmean_groups(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                                       spmd_tensor *out);
SPMD_API spmd_status spmd_pmax_groups(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                                      spmd_tensor *out);
SPMD_API spmd_status spmd_pmin_groups(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const char *groups,
                                      spmd_tensor *out);

typedef enum spmd_to { SPMD_TO_VARYING, SPMD_TO_INVARYING } spmd_to;

typedef struct spmd_gather_opts {
    int dim;    /* -1 is the last */
    bool tiled; /* false: a new dimension of size N at `dim` of the output; true: dimension `dim` grows N times */
    spmd_to to; /* INVARYING: the type says that all shards hold the same; may then be returned as replicated */
    const char *groups;
} spmd_gather_opts;
/* spmd_all_gather - every shard gets all blocks, by axis index.   Collective over `axes`.   opts NULL: {0, false}.
 * Gradient: psum_scatter (to invarying: own slice, after a psum_scatter if pending). Bus: (n-1)/n of the output. */
SPMD_API spmd_status spmd_all_gather(spmd_ctx *ctx, const spmd_tensor *in, const char *axes,
                                     const spmd_gather_opts *opts, spmd_tensor *out);

typedef struct spmd_scatter_opts {
    int dim;
    bool tiled; /* false: `dim` has size N and is removed; true: shard k gets slice k of N */
    const char *groups;
} spmd_scatter_opts;
/* spmd_psum_scatter - sum, of which each shard gets its slice.   Collective over `axes`. bool gives i32.
 * Gradient: all_gather. Bus: (n-1)/n of the input. */
SPMD_API spmd_status spmd_psum_scatter(spmd_ctx *ctx, const spmd_tensor *in, const char *axes,
                                       const spmd_scatter_opts *opts, spmd_tensor *out);

typedef struct spmd_exchange_opts {
    int split,
        concat; /* split must equal N and is removed, concat is new (untiled); or is cut / grows N times (tiled) */
    bool tiled;
    const char *groups;
} spmd_exchange_opts;
/* spmd_all_to_all - slice k of `split` goes to shard k; received slices are joined by source along `concat`.
 * Collective over `axes`. Gradient: all_to_all with split and concat swapped. Bus: (n-1)/n. */
SPMD_API spmd_status spmd_all_to_all(spmd_ctx *ctx, const spmd_tensor *in, const char *axes,
                                     const spmd_exchange_opts *opts, spmd_tensor *out);

/* spmd_ragged_all_to_all - rows go to the shards in pieces of any size (JAX's lax.ragged_all_to_all).   Collective over
 * `axes` of N shards.
 *   in [rows, ...], into [rows', ...]   what is sent; what the rows are received into (donate it to work in place)
 *   input_offsets, send_sizes, output_offsets, recv_sizes   i32 or i64 [N], rows: shard j is sent the send_sizes[j]
 * rows from input_offsets[j], which go to output_offsets[j] of its `into`; recv_sizes[j] rows come from shard j out
 * `into` with what was received Errors: EINVAL names tables, shards and rows: out of bounds, sizes that differ from the
 * sender's, received rows that overlap. Gradient: rows come back to where they were sent from (and add there); received
 * rows of into get zeros. */
SPMD_API spmd_status spmd_ragged_all_to_all(spmd_ctx *ctx, const spmd_tensor *in, const spmd_tensor *into,
                                            const spmd_tensor *input_offsets, const spmd_tensor *send_sizes,
                                            const spmd_tensor *output_offsets, const spmd_tensor *recv_sizes,
                                            const char *axes, spmd_tensor *out);

/* spmd_ppermute - pairs[k] = {source, destination} by axis index; a shard that is no destination gets zeros.
 * Collective over `axes`. Errors: EINVAL names a duplicate source or destination, or an index out of range.
 * Gradient: the inverse pairs. Bus: 1. */
SPMD_API spmd_status spmd_ppermute(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const int (*pairs)[2], int n,
                                   spmd_tensor *out);

/* spmd_pshuffle - out of shard i = in of shard perm[i].   Collective over `axes`; n is their size.
 * Errors: EINVAL names what makes perm no permutation. Gradient: the inverse. */
SPMD_API spmd_status spmd_pshuffle(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, const int *perm, int n,
                                   spmd_tensor *out);

/* spmd_pbroadcast - every shard gets the block of shard `source`.   Collective over `axes`.
 * Gradient: psum to the source, zeros elsewhere. */
SPMD_API spmd_status spmd_pbroadcast(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int source,
                                     spmd_tensor *out);

/* spmd_pcast - invarying to varying; moves nothing.   Local. On a varying axis: EINVAL. Gradient: psum (when settled).
 */
SPMD_API spmd_status spmd_pcast(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);
/* spmd_pcast_partial - declares a varying value to be a partial sum; moves nothing.   Local. Gradient: free cast. */
SPMD_API spmd_status spmd_pcast_partial(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out);

/* spmd_axis_index - this shard's row-major index over the axes in the order given, i32 scalar, varying.   Local. */
SPMD_API spmd_status spmd_axis_index(spmd_ctx *ctx, const char *axes, spmd_tensor *out);
/* spmd_axis_size - number of shards along the axes.   Local. */
SPMD_API spmd_status spmd_axis_size(spmd_ctx *ctx, const char *axes, int *out);

/* The call site travels with the context, for messages. */
#ifndef __cplusplus
#define spmd_psum(ctx, ...) (spmd_psum)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_settle(ctx, ...) (spmd_settle)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_settle_list(ctx, ...) (spmd_settle_list)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmean(ctx, ...) (spmd_pmean)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmean_weighted(ctx, ...) (spmd_pmean_weighted)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmax(ctx, ...) (spmd_pmax)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmin(ctx, ...) (spmd_pmin)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_psum_list(ctx, ...) (spmd_psum_list)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmean_list(ctx, ...) (spmd_pmean_list)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_all_gather(ctx, ...) (spmd_all_gather)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_psum_scatter(ctx, ...) (spmd_psum_scatter)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_all_to_all(ctx, ...) (spmd_all_to_all)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_ppermute(ctx, ...) (spmd_ppermute)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_psum_groups(ctx, ...) (spmd_psum_groups)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmean_groups(ctx, ...) (spmd_pmean_groups)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmax_groups(ctx, ...) (spmd_pmax_groups)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pmin_groups(ctx, ...) (spmd_pmin_groups)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pshuffle(ctx, ...) (spmd_pshuffle)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_ragged_all_to_all(ctx, ...) (spmd_ragged_all_to_all)(SPMD_AT(ctx), __VA_ARGS__)
#define spmd_pbroadcast(ctx, ...) (spmd_pbroadcast)(SPMD_AT(ctx), __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif
#endif
