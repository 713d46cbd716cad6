/* Shape functions and kernels of the pointwise family; the walk over broadcast operands is in runs.c. */
#include "kernels/pointwise.h"
#include <string.h>

spmd_status spmd__unary_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    SPMD_TRY(spmd__check_float(call->op->name, "x", &call->in[0]));
    spmd__same_shape(&call->out[0], &call->in[0]);
    return SPMD_OK;
}

spmd_status spmd__binary_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    SPMD_TRY(spmd__check_float(call->op->name, "a", &call->in[0]));
    SPMD_TRY(spmd__same_dtype(call->op->name, &call->in[0], &call->in[1]));
    call->out[0].dtype = call->in[0].dtype;
    return spmd__broadcast_shape(call->op->name, call->in, 2, &call->out[0]);
}

spmd_status spmd__arith_shape(spmd_ctx *ctx, spmd_call *call)
{
    if (call->in[0].dtype != SPMD_I32)
        return spmd__binary_shape(ctx, call);
    SPMD_TRY(spmd__same_dtype(call->op->name, &call->in[0], &call->in[1]));
    call->out[0].dtype = SPMD_I32;
    return spmd__broadcast_shape(call->op->name, call->in, 2, &call->out[0]);
}

spmd_status spmd__same_dtype(const char *op, const spmd_tensor *a, const spmd_tensor *b)
{
    char at[96], bt[96];
    SPMD_CHECK(a->dtype == b->dtype, SPMD_EDTYPE, "%s: operands are %s and %s, of one dtype expected; use spmd_cast",
               op, spmd__shape_text(a, at), spmd__shape_text(b, bt));
    return SPMD_OK;
}

spmd_status spmd__broadcast_shape(const char *op, const spmd_tensor *in, int nin, spmd_tensor *out)
{
    char at[96], bt[96];
    out->rank = 0;
    for (int k = 0; k < nin; k++) {
        int rank = in[k].rank > out->rank ? in[k].rank : out->rank;
        int64_t shape[SPMD_MAX_RANK];
        for (int d = 0; d < rank; d++) { /* d counts from the last dimension */
            int64_t a = d < out->rank ? out->shape[out->rank - 1 - d] : 1;
            int64_t b = d < in[k].rank ? in[k].shape[in[k].rank - 1 - d] : 1;
            SPMD_CHECK(
                a == b || a == 1 || b == 1, SPMD_ESHAPE,
                "%s: %s does not broadcast with %s: sizes %lld and %lld of dimension %d must be equal, or one of "
                "them 1",
                op, spmd__shape_text(&in[k], bt), spmd__shape_text(&in[0], at), (long long)b, (long long)a, -1 - d);
            shape[rank - 1 - d] = a == 1 ? b : a;
        }
        memcpy(out->shape, shape, (size_t)rank * sizeof *shape);
        out->rank = rank;
    }
    return SPMD_OK;
}

void spmd__pointwise_cost(const spmd_call *call, spmd_cost *cost)
{
    cost->flops = (double)spmd_count(&call->out[0]);
}

spmd_status spmd__unary_host(const spmd_kernel_args *args, spmd__unary_loop *loop)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    int64_t count = spmd_view_count(y);
    if (x->dtype == SPMD_F32) {
        loop(x->data, y->data, count);
        return SPMD_OK;
    }
    float x_tile[SPMD__TILE], y_tile[SPMD__TILE];
    for (int64_t i = 0; i < count; i += SPMD__TILE) {
        int64_t n = count - i < SPMD__TILE ? count - i : SPMD__TILE;
        spmd__widen(x->dtype, spmd__element(x->data, x->dtype, i), n, x_tile);
        loop(x_tile, y_tile, n);
        spmd__narrow(y->dtype, y_tile, n, spmd__element(y->data, y->dtype, i));
    }
    return SPMD_OK;
}

spmd_status spmd__binary_host(const spmd_kernel_args *args, spmd__binary_loop *loop)
{
    const spmd_view *out = &args->out[0];
    float a_tile[SPMD__TILE], b_tile[SPMD__TILE], y_tile[SPMD__TILE];
    spmd__runs runs = spmd__runs_of(args);
    while (spmd__runs_next(&runs)) {
        const float *a = spmd__run_f32(&runs, 0, a_tile), *b = spmd__run_f32(&runs, 1, b_tile);
        if (out->dtype == SPMD_F32) {
            loop(a, b, (float *)out->data + runs.at, runs.n);
        } else {
            loop(a, b, y_tile, runs.n);
            spmd__narrow(out->dtype, y_tile, runs.n, spmd__element(out->data, out->dtype, runs.at));
        }
    }
    return SPMD_OK;
}

spmd_status spmd__arith_host(const spmd_kernel_args *args, spmd__binary_loop *loop, spmd__binary_i32_loop *loop_i32)
{
    if (args->in[0].dtype != SPMD_I32)
        return spmd__binary_host(args, loop);
    int32_t a_tile[SPMD__TILE], b_tile[SPMD__TILE];
    spmd__runs runs = spmd__runs_of(args);
    while (spmd__runs_next(&runs))
        loop_i32(spmd__run_operand(&runs, 0, a_tile), spmd__run_operand(&runs, 1, b_tile),
                 (int32_t *)args->out[0].data + runs.at, runs.n);
    return SPMD_OK;
}
