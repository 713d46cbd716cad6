/* equal: a == b as bool. Floats compare as numbers: NaN equals nothing, -0 equals 0. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

spmd_status spmd__equal_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status equal_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    SPMD_TRY(spmd__same_dtype("equal", &call->in[0], &call->in[1]));
    call->out[0].dtype = SPMD_BOOL;
    return spmd__broadcast_shape("equal", call->in, 2, &call->out[0]);
}

static void equal_f32(const spmd__runs *runs, uint8_t *y)
{
    float a_tile[SPMD__TILE], b_tile[SPMD__TILE];
    const float *a = spmd__run_f32(runs, 0, a_tile), *b = spmd__run_f32(runs, 1, b_tile);
    for (int64_t i = 0; i < runs->n; i++)
        y[i] = a[i] == b[i];
}

static void equal_int(const spmd__runs *runs, uint8_t *y)
{
    int64_t tile[SPMD__TILE], a[SPMD__TILE], b[SPMD__TILE]; /* `tile`: room for repeated elements of any size */
    spmd__widen_int(runs->in[0].dtype, spmd__run_operand(runs, 0, tile), runs->n, a);
    spmd__widen_int(runs->in[1].dtype, spmd__run_operand(runs, 1, tile), runs->n, b);
    for (int64_t i = 0; i < runs->n; i++)
        y[i] = a[i] == b[i];
}

static spmd_status equal_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    spmd__runs runs = spmd__runs_of(args);
    while (spmd__runs_next(&runs)) {
        uint8_t *y = (uint8_t *)args->out[0].data + runs.at;
        if (spmd_dtype_is_float(args->in[0].dtype))
            equal_f32(&runs, y);
        else
            equal_int(&runs, y);
    }
    return SPMD_OK;
}

static const spmd_op equal_op = {
    .name = "equal",
    .shape = equal_shape,
    .host = equal_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__equal_cuda),
    .cost = spmd__pointwise_cost,
    .rule = spmd__label_pointwise,
    .stops_gradient = true,
};

spmd_status spmd_equal(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, spmd_tensor *out)
{
    const spmd_tensor in[] = {*a, *b};
    return spmd__emit(ctx, &equal_op, NULL, in, 2, out, 1);
}
