/* Blocks and results that are made and checked inside the shard, for tests too large for the reference loops: element i
 * of shard k is i % 251 + k, as u8 (wrapping) or f32. */
#ifndef TESTS_COLLECTIVES_PATTERN_H
#define TESTS_COLLECTIVES_PATTERN_H

#include "tests/collectives/reference.h"

typedef struct pattern {
    kind kind; /* dimension 0, tiled */
    spmd_dtype dtype;
    int64_t count; /* of every block */
    int shards;
    spmd_custom_op fill, check; /* made by pattern_ops; they outlive the launch */
} pattern;

static inline int64_t pattern_want(const pattern *p, int64_t i, int me)
{
    int64_t n = p->shards, piece = p->count / n, sum = n * (n - 1) / 2;
    switch (p->kind) {
    case GATHER:
        return i % p->count % 251 + i / p->count;
    case SCATTER:
        return n * ((me * piece + i) % 251) + sum;
    case EXCHANGE:
        return (me * piece + i % piece) % 251 + i / piece;
    case PERMUTE:
        return permute_source(me, (int)n) < 0 ? 0 : i % 251 + permute_source(me, (int)n);
    case BROADCAST:
        return i % 251 + n - 1;
    case PMEAN:
        return i % 251 + sum / n;
    case PMAX:
        return i % 251 + n - 1;
    case PMIN:
        return i % 251;
    default:
        return n * (i % 251) + sum;
    }
}

static inline spmd_status pattern_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    const pattern *p = user;
    (void)in;
    (void)nin;
    (void)nout;
    out[0].dtype = p->dtype;
    out[0].rank = 1;
    out[0].shape[0] = p->count;
    return SPMD_OK;
}

static inline spmd_status pattern_fill(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    const pattern *p = user;
    int shard = *(const int32_t *)in[0].data;
    uint8_t *u = out[0].data;
    float *f = out[0].data;
    (void)nin;
    (void)nout;
    for (int i = 0; i < 251; i++)
        if (p->dtype == SPMD_U8)
            u[i] = (uint8_t)(i + shard);
        else
            f[i] = (float)(i + shard);
    size_t size = spmd_dtype_size(p->dtype), all = (size_t)p->count * size;
    for (size_t done = 251 * size; done < all; done *= 2)
        memcpy(u + done, u, done < all - done ? done : all - done);
    return SPMD_OK;
}

static inline spmd_status wrong_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)in;
    (void)nin;
    (void)nout;
    (void)user;
    out[0].dtype = SPMD_I64;
    out[0].rank = 1;
    out[0].shape[0] = 1;
    return SPMD_OK;
}

static inline spmd_status wrong_count(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    const pattern *p = user;
    int me = *(const int32_t *)in[1].data;
    const uint8_t *u = in[0].data;
    const float *f = in[0].data;
    int64_t wrong = 0, step = in[0].shape[0] > INT32_MAX ? 61 : 1; /* of very many, some in every cache line */
    (void)nin;
    (void)nout;
    for (int64_t i = 0; i < in[0].shape[0]; i += step) {
        int64_t want = pattern_want(p, i, me);
        wrong += p->dtype == SPMD_U8 ? u[i] != (uint8_t)want : f[i] != (float)want;
    }
    *(int64_t *)out[0].data = wrong;
    return SPMD_OK;
}

static inline void pattern_ops(pattern *p)
{
    p->fill = (spmd_custom_op){.name = "fill", .shape = pattern_shape, .host = pattern_fill, .user = p};
    p->check = (spmd_custom_op){.name = "check", .shape = wrong_shape, .host = wrong_count, .user = p};
}

/* This shard's block; and the number of wrong elements in a result, i64[1]. */
static inline spmd_status pattern_make(spmd_ctx *ctx, const pattern *p, spmd_tensor *out)
{
    SPMD_TRY(spmd_axis_index(ctx, "x", out));
    return spmd_custom(ctx, &p->fill, out, 1, out, 1);
}

static inline spmd_status pattern_check(spmd_ctx *ctx, const pattern *p, const spmd_tensor *result, spmd_tensor *out)
{
    spmd_tensor in[2] = {*result};
    SPMD_TRY(spmd_axis_index(ctx, "x", &in[1]));
    return spmd_custom(ctx, &p->check, in, 2, out, 1);
}

#endif
