#include "kernels/kernels.h"
#include "spmd/rule.h"

static spmd_status stop_gradient_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    return SPMD_OK;
}

static const spmd_op stop_gradient_op = {
    .name = "stop_gradient",
    .shape = stop_gradient_shape,
    .rule = spmd__label_pointwise,
    .linear = 1,
    .view = true,
    .stops_gradient = true,
};

spmd_status spmd_stop_gradient(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd__emit(ctx, &stop_gradient_op, NULL, in, 1, out, 1);
}
