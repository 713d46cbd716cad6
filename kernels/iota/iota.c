/* iota: 0, 1, .. n-1, the same on every shard. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "spmd/op.h"

spmd_status spmd__iota_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status iota_shape(spmd_ctx *ctx, spmd_call *call)
{
    int64_t n = call->attr.i[0], dtype = call->attr.i[1];
    (void)ctx;
    SPMD_CHECK(dtype == SPMD_F32 || dtype == SPMD_I32 || dtype == SPMD_I64, SPMD_EDTYPE,
               "iota: dtype %s, expected f32, i32 or i64", spmd_dtype_name((spmd_dtype)dtype));
    SPMD_CHECK(n >= 0, SPMD_ESHAPE, "iota: n is %lld, expected at least 0", (long long)n);
    call->out[0].dtype = (spmd_dtype)dtype;
    call->out[0].rank = 1;
    call->out[0].shape[0] = n;
    return SPMD_OK;
}

static spmd_status iota_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    (void)ctx;
    for (int64_t i = 0; i < out->shape[0]; i++)
        spmd__encode(out->dtype, (double)i, spmd__element(out->data, out->dtype, i));
    return SPMD_OK;
}

static const spmd_op iota_op = {
    .name = "iota", .shape = iota_shape, .host = iota_host, .cuda = SPMD_CUDA_KERNEL(spmd__iota_cuda)};

spmd_status spmd_iota(spmd_ctx *ctx, spmd_dtype dtype, int64_t n, spmd_tensor *out)
{
    spmd_attr attr = {0};
    attr.i[0] = n;
    attr.i[1] = dtype;
    return spmd__emit(ctx, &iota_op, &attr, NULL, 0, out, 1);
}
