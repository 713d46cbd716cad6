/* ppermute: a block goes from each pair's source to its destination; who is no destination gets zeros. */
#include "collectives/coll.h"
#include <string.h>

/* attr.table[destination] = source or -1; beyond the group's size: 0 */

static spmd_status permute_shape(spmd_ctx *ctx, spmd_call *call)
{
    SPMD_TRY(spmd__coll_whole(ctx, "ppermute", &call->in[0], call->attr.axes.mask));
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].vary = call->in[0].vary | call->attr.axes.mask;
    call->out[0].partial = call->in[0].partial;
    return SPMD_OK;
}

static spmd_status permute(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out);

static spmd_status permute_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                spmd_tensor *gin)
{
    (void)need;
    int n = spmd__axes_size(spmd_ctx_mesh(ctx), &call->attr.axes);
    spmd_attr inverse = call->attr;
    memset(inverse.table, -1, (size_t)n);
    for (int k = 0; k < n; k++)
        if (call->attr.table[k] >= 0)
            inverse.table[call->attr.table[k]] = (int8_t)k;
    return permute(ctx, ct, &inverse, gin);
}

static spmd_status permute_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    SPMD_TRY(spmd__coll_open(ctx, "ppermute", args, NULL, &coll));
    size_t bytes = spmd__view_bytes(&args->in[0]);
    int source = args->attr->table[coll.me];
    if (source >= 0)
        coll.copy(args->out[0].data, spmd__coll_input(&coll, args, coll.posts[source], 0), bytes);
    else if (bytes)
        memset(args->out[0].data, 0, bytes);
    SPMD_TRY(spmd__coll_close(ctx, &coll));
    return SPMD_OK;
}

static spmd_status permute(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out)
{
    static const spmd_op op = {.name = "ppermute",
                               .shape = permute_shape,
                               .grad = permute_grad,
                               .host = permute_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__ppermute_cuda),
                               .collective = true};
    SPMD_TRY(spmd__emit(ctx, &op, attr, in, 1, out, 1));
    return SPMD_OK;
}

static spmd_status fill_table(const int (*pairs)[2], int npairs, int n, int8_t *table)
{
    bool sends[SPMD_MAX_DEVICES] = {false};
    memset(table, -1, (size_t)n);
    for (int k = 0; k < npairs; k++) {
        int from = pairs[k][0], to = pairs[k][1];
        SPMD_CHECK(from >= 0 && from < n && to >= 0 && to < n, SPMD_EINVAL,
                   "ppermute: pair %d is {%d, %d}; expected axis indices 0 to %d", k, from, to, n - 1);
        SPMD_CHECK(!sends[from], SPMD_EINVAL,
                   "ppermute: pair %d is {%d, %d}, but %d is a source already; a shard may send once, use all_gather",
                   k, from, to, from);
        SPMD_CHECK(table[to] < 0, SPMD_EINVAL,
                   "ppermute: pair %d is {%d, %d}, but %d receives from %d already; a shard may receive once", k, from,
                   to, to, table[to]);
        sends[from] = true;
        table[to] = (int8_t)from;
    }
    return SPMD_OK;
}

spmd_status(spmd_ppermute)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, const int (*pairs)[2], int n,
                           spmd_tensor *out)
{
    spmd_attr attr = {0};
    SPMD_CHECK(n >= 0 && (pairs || n == 0), SPMD_EINVAL, "ppermute: %d pairs at address %p; expected 0 or more", n,
               (const void *)pairs);
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    SPMD_TRY(fill_table(pairs, n, spmd__axes_size(spmd_ctx_mesh(ctx), &attr.axes), attr.table));
    return permute(ctx, in, &attr, out);
}

spmd_status(spmd_pshuffle)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, const int *perm, int n,
                           spmd_tensor *out)
{
    spmd_attr attr = {0};
    bool sends[SPMD_MAX_DEVICES] = {false};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    int size = spmd__axes_size(spmd_ctx_mesh(ctx), &attr.axes);
    SPMD_CHECK(perm && n == size, SPMD_EINVAL, "pshuffle over '%s': %d indices at address %p; expected %d, one a shard",
               text, n, (const void *)perm, size);
    for (int k = 0; k < n; k++) {
        SPMD_CHECK(perm[k] >= 0 && perm[k] < n, SPMD_EINVAL, "pshuffle: index %d is %d; expected 0 to %d", k, perm[k],
                   n - 1);
        SPMD_CHECK(!sends[perm[k]], SPMD_EINVAL,
                   "pshuffle: index %d is %d, which stands before; expected a permutation of 0 to %d", k, perm[k],
                   n - 1);
        sends[perm[k]] = true;
        attr.table[k] = (int8_t)perm[k];
    }
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    return permute(ctx, in, &attr, out);
}
