/* pbroadcast: every shard gets the source's block. Its transpose settles the cotangent and keeps it at the source; that
 * is the private op keep_at, a local op that is its own transpose. */
#include "collectives/coll.h"
#include "spmd/linear.h"
#include <string.h>

spmd_status spmd__keep_at_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

/* attr.i[0]: the source's axis index */

static spmd_status broadcast_shape(spmd_ctx *ctx, spmd_call *call)
{
    SPMD_TRY(spmd__coll_whole(ctx, "pbroadcast", &call->in[0], call->attr.axes.mask));
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].vary = (uint8_t)(call->in[0].vary & ~call->attr.axes.mask);
    call->out[0].partial = call->in[0].partial;
    return SPMD_OK;
}

static spmd_status broadcast_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    spmd_coll coll;
    SPMD_TRY(spmd__coll_open(ctx, "pbroadcast", args, NULL, &coll));
    coll.copy(args->out[0].data, spmd__coll_input(&coll, args, coll.posts[args->attr->i[0]], 0),
              spmd__view_bytes(&args->in[0]));
    SPMD_TRY(spmd__coll_close(ctx, &coll));
    return SPMD_OK;
}

static spmd_status keep_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].vary |= call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status keep_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    size_t bytes = spmd__view_bytes(&args->in[0]);
    if (bytes && spmd__axes_index(ctx, &args->attr->axes) == args->attr->i[0])
        memcpy(args->out[0].data, args->in[0].data, bytes);
    else if (bytes)
        memset(args->out[0].data, 0, bytes);
    return SPMD_OK;
}

static spmd_status keep_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    (void)need;
    SPMD_TRY(spmd__emit(ctx, call->op, &call->attr, ct, 1, gin, 1));
    return SPMD_OK;
}

static spmd_status broadcast_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    static const spmd_op keep_at = {.name = "keep_at",
                                    .shape = keep_shape,
                                    .grad = keep_grad,
                                    .host = keep_host,
                                    .cuda = SPMD_CUDA_KERNEL(spmd__keep_at_cuda),
                                    .linear = 1};
    (void)need;
    unsigned pending = ct->vary & call->attr.axes.mask;
    spmd_tensor settled = *ct;
    if (pending)
        SPMD_TRY(spmd__linear_psum(ctx, ct, 1, pending, &settled));
    SPMD_TRY(spmd__emit(ctx, &keep_at, &call->attr, &settled, 1, gin, 1));
    return SPMD_OK;
}

spmd_status(spmd_pbroadcast)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, int source, spmd_tensor *out)
{
    static const spmd_op op = {.name = "pbroadcast",
                               .shape = broadcast_shape,
                               .grad = broadcast_grad,
                               .host = broadcast_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__pbroadcast_cuda),
                               .collective = true};
    spmd_attr attr = {.i = {source}};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &attr.axes));
    if (attr.axes.n == 0) {
        *out = *in;
        return SPMD_OK;
    }
    int n = spmd__axes_size(spmd_ctx_mesh(ctx), &attr.axes);
    SPMD_CHECK(source >= 0 && source < n, SPMD_EINVAL, "pbroadcast over '%s': source %d; expected 0 to %d", text,
               source, n - 1);
    SPMD_TRY(spmd__emit(ctx, &op, &attr, in, 1, out, 1));
    return SPMD_OK;
}
