/* sum_squares: for global_norm, which would else cast, square and sum every gradient, three passes over all of them.
 * Tiles are summed in f32, the tiles' sums in double. */
#include "kernels/gradients/sum_squares.h"
#include "kernels/kernels.h"
#include "spmd/rule.h"
#include "kernels/row_math.h"
#include "kernels/rows.h"

spmd_status spmd__sum_squares_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status sum_squares_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    SPMD_TRY(spmd__check_float("sum_squares", "x", &call->in[0]));
    call->out[0].dtype = SPMD_F32;
    return SPMD_OK;
}

static spmd_status sum_squares_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0];
    int64_t count = spmd_view_count(x);
    float tile[SPMD__TILE];
    double sum = 0;
    (void)ctx;
    for (int64_t i = 0; i < count; i += SPMD__TILE) {
        int64_t n = count - i < SPMD__TILE ? count - i : SPMD__TILE;
        const float *from = spmd__read_f32(x, i, n, tile);
        sum += (double)spmd__row_dot(from, from, n);
    }
    *(float *)args->out[0].data = (float)sum;
    return SPMD_OK;
}

static spmd_status sum_squares_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                    spmd_tensor *gin)
{
    (void)need; /* there is one input */
    spmd_tensor twice;
    SPMD_TRY(spmd_scale(ctx, &ct[0], 2, &twice));
    SPMD_TRY(spmd_cast(ctx, &twice, call->in[0].dtype, &twice));
    return spmd_mul(ctx, &call->in[0], &twice, &gin[0]);
}

static void sum_squares_cost(const spmd_call *call, spmd_cost *cost)
{
    cost->flops = 2.0 * (double)spmd_count(&call->in[0]);
}

/* Any dimension may be cut: the squares of the pieces add up. */
static void sum_squares_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 0);
}

static const spmd_op sum_squares_op = {
    .name = "sum_squares",
    .shape = sum_squares_shape,
    .grad = sum_squares_grad,
    .host = sum_squares_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__sum_squares_cuda),
    .cost = sum_squares_cost,
    .rule = sum_squares_rule,
};

spmd_status spmd__sum_squares(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    return spmd__emit(ctx, &sum_squares_op, NULL, x, 1, out, 1);
}
