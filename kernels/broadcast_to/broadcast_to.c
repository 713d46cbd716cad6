/* broadcast_to: x repeated along new dimensions and those of size 1. */
#include "kernels/given_shape.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include <string.h>

spmd_status spmd__broadcast_to_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status broadcast_to_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor *out = &call->out[0];
    char from[96], to[96];
    (void)ctx;
    out->dtype = x->dtype;
    spmd__given_shape(&call->attr, out);
    bool fits = x->rank <= out->rank;
    for (int d = 1; fits && d <= x->rank; d++)
        fits = x->shape[x->rank - d] == 1 || x->shape[x->rank - d] == out->shape[out->rank - d];
    SPMD_CHECK(fits, SPMD_ESHAPE, "broadcast_to: %s does not broadcast to %s: trailing sizes must be equal, or 1",
               spmd__shape_text(x, from), spmd__shape_text(out, to));
    return SPMD_OK;
}

static spmd_status broadcast_to_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    size_t size = spmd_dtype_size(out->dtype);
    int64_t tile[SPMD__TILE]; /* room for elements of any size */
    (void)ctx;
    spmd__runs runs = spmd__runs_of(args);
    while (spmd__runs_next(&runs))
        memcpy(spmd__element(out->data, out->dtype, runs.at), spmd__run_operand(&runs, 0, tile), (size_t)runs.n * size);
    return SPMD_OK;
}

static spmd_status broadcast_to_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                     spmd_tensor *gin)
{
    return need[0] ? spmd__sum_to(ctx, ct, &call->in[0], &gin[0]) : SPMD_OK;
}

static const spmd_op broadcast_to_op = {
    .name = "broadcast_to",
    .shape = broadcast_to_shape,
    .grad = broadcast_to_grad,
    .host = broadcast_to_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__broadcast_to_cuda),
    .rule = spmd__label_pointwise,
    .linear = 1,
};

spmd_status spmd_broadcast_to(spmd_ctx *ctx, const spmd_tensor *x, int rank, const int64_t *shape, spmd_tensor *out)
{
    spmd_attr attr = {0};
    SPMD_TRY(spmd__give_shape("broadcast_to", rank, shape, &attr));
    return spmd__emit(ctx, &broadcast_to_op, &attr, x, 1, out, 1);
}
