/* spmd_custom: a user's own kernel as an op.
 *
 * The kernel is opaque: its outputs vary over every axis on which an input varies, and over `varies`. Its gradient, if
 * given, is written with ops (or with other custom ops), so it can be differentiated in turn. */
#ifndef SPMD_CUSTOM_H
#define SPMD_CUSTOM_H

#include "spmd/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd_custom_op {
    const char *name; /* for messages; shards compare it */
    /* Fills dtype, rank and shape of every output. */
    spmd_status (*shape)(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user);
    /* Computes the outputs; views are row-major and contiguous; outputs never overlap inputs. */
    spmd_status (*host)(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user);
    /* Optional: the same on backend cuda. Views hold device memory; put all work on `stream`, a cudaStream_t, and wait
     * for nothing. NULL: `host` computes it on copies, which is slow. */
    spmd_status (*cuda)(const spmd_view *in, int nin, const spmd_view *out, int nout, void *stream, void *user);
    /* Optional. ct[k] is the cotangent of out[k] (zeros if unused); set gin[k] for every k with need[k]. */
    spmd_status (*grad)(spmd_ctx *ctx, const spmd_tensor *in, int nin, const spmd_tensor *out, int nout,
                        const spmd_tensor *ct, const bool *need, spmd_tensor *gin, void *user);
    const char *varies; /* optional: axes on which the kernel's result differs between shards ("data") */
    /* Optional, for the automatic mode: which dimensions may be cut. A letter a dimension of every input and output,
     * "mk,kn->mn": cutting a letter cuts it everywhere, and the kernel, run on the blocks, must compute the blocks of
     * the result. A letter that no output has is one over which the kernel sums: each device then makes a summand. '-'
     * is a dimension that must stay whole. NULL: every device gets whole inputs. */
    const char *rule;
    void *user; /* handed to the three functions */
} spmd_custom_op;

/* spmd_custom - run the kernel.   Local. The definition must outlive the launch. Errors: EINVAL (a rule that does not
 * fit the operands, too), what its functions return; EGRAD when a gradient is wanted and .grad is NULL. */
SPMD_API spmd_status spmd_custom(spmd_ctx *ctx, const spmd_custom_op *op, const spmd_tensor *in, int nin,
                                 spmd_tensor *out, int nout);

#ifdef __cplusplus
}
#endif
#endif
