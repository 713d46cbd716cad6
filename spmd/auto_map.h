/* spmd_auto_map: the same shard function, run with global shapes.
 *
 * The function computes as if it ran on one device: tensors have the arrays' global shapes, and every op chooses how
 * its operands are cut from how they arrive (it follows the data, gathers only if nothing else is right, and leaves
 * sums over shards open as long as it can). What must move is moved by collectives that the library inserts. pmean,
 * pmax and pmin return their operand, since every value is the same everywhere; psum, all_gather and the others have no
 * meaning there (EAXIS). A function that uses spmd_settle instead of psum runs unchanged in both modes. */
#ifndef SPMD_AUTO_MAP_H
#define SPMD_AUTO_MAP_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* spmd_auto_map - run the job in automatic mode.   Host thread; not inside a shard function.
 *   job   as for spmd_shard_map; out_specs say how the results are cut, whatever cut they come in
 * Gradients come out cut like their parameters, losses whole. Custom kernels get whole inputs on every device, unless
 * they have a rule (spmd/custom.h). Errors: as spmd_shard_map; EAXIS a collective was called, or a custom op `varies`;
 * ESHAPE an output's spec does not divide it; EUNSUPPORTED spmd_local. */
SPMD_API spmd_status spmd_auto_map(const spmd_job *job);

/* spmd_constrain - says how a value is to be cut from here on (JAX: with_sharding_constraint).   In automatic mode
 * collective; in explicit mode the identity. Gradient: the cotangent, cut as it comes.
 * Errors: EAXIS, ESPEC; ESHAPE a dimension is not divisible. */
SPMD_API spmd_status spmd_constrain(spmd_ctx *ctx, const spmd_tensor *in, spmd_spec spec, spmd_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
