/* full: a constant, the same on every shard; and the constant that the tape needs, shaped like another tensor. */
#include "kernels/elements.h"
#include "kernels/given_shape.h"
#include "kernels/kernels.h"
#include "spmd/linear.h"
#include "spmd/rule.h"

spmd_status spmd__full_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status full_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    SPMD_CHECK(call->attr.i[7] >= 0 && call->attr.i[7] < SPMD_DTYPE_COUNT, SPMD_EDTYPE,
               "full: dtype %lld, expected 0..%d of spmd_dtype", (long long)call->attr.i[7], SPMD_DTYPE_COUNT - 1);
    call->out[0].dtype = (spmd_dtype)call->attr.i[7];
    spmd__given_shape(&call->attr, &call->out[0]);
    return SPMD_OK;
}

static spmd_status full_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    int64_t element;
    (void)ctx;
    spmd__encode(out->dtype, args->attr->f[0], &element);
    spmd__splat(&element, spmd_dtype_size(out->dtype), spmd_view_count(out), out->data);
    return SPMD_OK;
}

static const spmd_op full_op = {
    .name = "full", .shape = full_shape, .host = full_host, .cuda = SPMD_CUDA_KERNEL(spmd__full_cuda)};

spmd_status spmd_full(spmd_ctx *ctx, double value, spmd_dtype dtype, int rank, const int64_t *shape, spmd_tensor *out)
{
    spmd_attr attr = {0};
    SPMD_TRY(spmd__give_shape("full", rank, shape, &attr));
    attr.i[7] = dtype;
    attr.f[0] = value;
    return spmd__emit(ctx, &full_op, &attr, NULL, 0, out, 1);
}

static spmd_status fill_like_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    return SPMD_OK;
}

static const spmd_op fill_like_op = {
    .name = "fill_like",
    .shape = fill_like_shape,
    .host = full_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__full_cuda),
    .rule = spmd__label_pointwise,
    .like = 1,
};

spmd_status spmd__linear_fill(spmd_ctx *ctx, const spmd_tensor *like, double value, spmd_tensor *out)
{
    spmd_attr attr = {0};
    attr.f[0] = value;
    return spmd__emit(ctx, &fill_like_op, &attr, like, 1, out, 1);
}
