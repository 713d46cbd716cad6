/* For tests of calls that differ: one collective over the axes of a mesh x=2,y=2, as all shards make it or as an odd
 * one does. */
#ifndef TESTS_MISMATCH_CALLS_H
#define TESTS_MISMATCH_CALLS_H

#include "spmd/testing.h"

/* The contexts that calls are made with: their sites are what the messages must name. */
static const char *const usual = "usual.c:1", *const odd = "odd.c:2", *const last = "last.c:3";

typedef enum collective {
    PSUM,
    PMEAN,
    PMAX,
    PMIN,
    LIST,
    GATHER,
    SCATTER,
    EXCHANGE,
    PERMUTE,
    SHUFFLE,
    BROADCAST,
    RAGGED
} collective;
enum { OPS = RAGGED + 1 };

/* What is different; each a bit, since a call is described by the set of its differences. */
typedef enum kind {
    DTYPE = 1,
    COUNT = 2,
    SHAPE = 4,
    OPTIONS = 8, /* dimension and tiling; pairs; permutation; source; number of tensors */
    AXES_ORDER = 16,
    GROUPS = 32,
    AXES = 64,
    OTHER_OP = 128, /* among them another reduction */
    SKIPPED = 256,
    RETURNED = 512,
    SWAPPED = 1024,
} kind;

/* Tensors of [4, 4, 3] over 4 shards; then one of another dtype, count, shape. */
static const int64_t shapes[4][3] = {{4, 4, 3}, {4, 4, 3}, {4, 2, 3}, {4, 3, 4}};

static inline const spmd_tensor *input(const spmd_tensor *in, unsigned how)
{
    return &in[how & DTYPE ? 1 : how & COUNT ? 2 : how & SHAPE ? 3 : 0];
}

static inline spmd_status reduce(spmd_ctx *ctx, collective op, const spmd_tensor *t, unsigned how, const char *axes,
                                 spmd_tensor *out)
{
    static spmd_status (*const plain[])(spmd_ctx *, const spmd_tensor *, const char *,
                                        spmd_tensor *) = {spmd_psum, spmd_pmean, spmd_pmax, spmd_pmin};
    static spmd_status (*const grouped[])(spmd_ctx *, const spmd_tensor *, const char *, const char *,
                                          spmd_tensor *) = {spmd_psum_groups, spmd_pmean_groups, spmd_pmax_groups,
                                                            spmd_pmin_groups};
    return how & GROUPS ? grouped[op](ctx, t, axes, "0,1;2,3", out) : plain[op](ctx, t, axes, out);
}

static inline spmd_status ragged(spmd_ctx *ctx, const spmd_tensor *t, const char *axes, spmd_tensor *out)
{
    spmd_tensor zeros;
    int n;
    SPMD_TRY(spmd_axis_size(ctx, axes, &n));
    SPMD_TRY(spmd_full(ctx, 0, SPMD_I32, SPMD_SHAPE(n), &zeros)); /* nothing is sent */
    return (spmd_ragged_all_to_all)(ctx, t, t, &zeros, &zeros, &zeros, &zeros, axes, out);
}

static inline spmd_status call(spmd_ctx *ctx, collective op, const spmd_tensor *in, unsigned how, const char *site)
{
    const char *axes = how & AXES ? "x" : how & AXES_ORDER ? "y,x" : "x,y";
    const char *groups = how & GROUPS ? "0,1;2,3" : NULL;
    const spmd_tensor *t = input(in, how);
    bool other = how & OPTIONS;
    spmd_tensor out[2];
    if (how & OTHER_OP)
        op = (op + 1) % OPS;
    spmd_ctx_at(ctx, site);
    switch (op) {
    case LIST:
        return (spmd_psum_list)(ctx, (const spmd_tensor[]){*t, in[0]}, other ? 1 : 2, axes, out);
    case GATHER:
        return (spmd_all_gather)(ctx, t, axes, &(spmd_gather_opts){.dim = other, .groups = groups}, out);
    case SCATTER:
        return (spmd_psum_scatter)(ctx, t, axes, &(spmd_scatter_opts){0, groups || !other, groups}, out);
    case EXCHANGE:
        return (spmd_all_to_all)(ctx, t, axes, &(spmd_exchange_opts){0, 0, groups || !other, groups}, out);
    case PERMUTE:
        return (spmd_ppermute)(ctx, t, axes, (const int[][2]){{other, 1}}, 1, out);
    case SHUFFLE:
        return (spmd_pshuffle)(ctx, t, axes, other ? (const int[]){1, 0, 2, 3} : (const int[]){0, 1, 2, 3},
                               how & AXES ? 2 : 4, out);
    case BROADCAST:
        return (spmd_pbroadcast)(ctx, t, axes, other, out);
    case RAGGED:
        return ragged(ctx, t, axes, out);
    default:
        return reduce(ctx, op, t, how, axes, out);
    }
}

#endif
