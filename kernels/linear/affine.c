/* The matrix half of linear and linear_gelu: checks, the product, its two transposed products. */
#include "kernels/linear/affine.h"
#include "kernels/kernels.h"
#include "kernels/rows.h"

spmd_status spmd__affine_shape(const char *op, const spmd_call *call, spmd_tensor *out)
{
    const spmd_tensor *x = &call->in[0], *w = &call->in[1], *bias = &call->in[2];
    char xt[96], wt[96], bt[96];
    spmd__shape_text(x, xt);
    spmd__shape_text(w, wt);
    spmd__shape_text(bias, bt);
    SPMD_TRY(spmd__check_float(op, "x", x));
    SPMD_CHECK(w->dtype == x->dtype && bias->dtype == x->dtype, SPMD_EDTYPE,
               "%s: x is %s, w is %s, bias is %s: expected one dtype; cast them to one", op, xt, wt, bt);
    SPMD_CHECK(x->rank >= 1 && w->rank == 2 && x->shape[x->rank - 1] == w->shape[0], SPMD_ESHAPE,
               "%s: x is %s, w is %s: expected x [.., k] and w [k, n]", op, xt, wt);
    SPMD_CHECK(bias->rank == 1 && bias->shape[0] == w->shape[1], SPMD_ESHAPE,
               "%s: bias is %s, w is %s: expected bias [n] for w [k, n]", op, bt, wt);
    spmd__same_shape(out, x);
    out->shape[x->rank - 1] = w->shape[1];
    return SPMD_OK;
}

/* k stays whole: every part of a sum over it would add the bias. */
void spmd__affine_rule(const spmd_call *call, spmd_labels *labels)
{
    int8_t n = (int8_t)(call->in[0].rank - 1);
    for (int k = 0; k < call->nout; k++) {
        for (int8_t d = 0; d < n; d++)
            labels->in[0][d] = labels->out[k][d] = d;
        labels->out[k][n] = n;
    }
    labels->in[1][1] = labels->in[2][0] = n;
}

void spmd__affine_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *w = &call->in[1];
    cost->flops = 2.0 * (double)spmd_count(&call->out[0]) * (double)w->shape[0];
    cost->bytes = 0;
    for (int k = 0; k < call->nin; k++)
        cost->bytes += (double)spmd_count(&call->in[k]) * (double)spmd_dtype_size(w->dtype);
    for (int k = 0; k < call->nout; k++)
        cost->bytes += (double)spmd_count(&call->out[k]) * (double)spmd_dtype_size(w->dtype);
}

spmd_status spmd__affine_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *dz, const bool *need,
                              spmd_tensor *gin)
{
    const spmd_tensor *x = &call->in[0], *w = &call->in[1];
    spmd_tensor rows_x, rows_dz;
    SPMD_TRY(spmd__as_matrix(ctx, dz, &rows_dz));
    if (need[0]) {
        spmd_tensor dx = {.dtype = gin[0].dtype};
        bool donated = gin[0].donated;
        if (gin[0].id)
            SPMD_TRY(spmd__as_matrix(ctx, &gin[0], &dx));
        dx.donated = donated; /* views are not */
        SPMD_TRY(spmd__matmul_onto(ctx, &rows_dz, w, false, true, &dx));
        SPMD_TRY(spmd_reshape(ctx, &dx, x->rank, x->shape, &gin[0]));
    }
    if (need[1]) {
        SPMD_TRY(spmd__as_matrix(ctx, x, &rows_x));
        SPMD_TRY(spmd__matmul_onto(ctx, &rows_x, &rows_dz, true, false, &gin[1]));
    }
    return SPMD_OK;
}

spmd__gemm_case spmd__affine_case(const spmd_kernel_args *args, spmd_dtype out_dtype)
{
    const spmd_view *x = &args->in[0], *w = &args->in[1];
    return (spmd__gemm_case){.dtype = x->dtype,
                             .out_dtype = out_dtype,
                             .batch = 1,
                             .m = spmd__row_count(x),
                             .n = w->shape[1],
                             .k = w->shape[0],
                             .value_b = w->value};
}

spmd_status spmd__affine_product(spmd_ctx *ctx, const spmd_kernel_args *args, const void *bias, spmd_dtype out_dtype,
                                 void *out)
{
    const spmd__gemm_case c = spmd__affine_case(args, out_dtype);
    return spmd__gemm(ctx, &c, args->in[0].data, args->in[1].data, bias, out);
}
