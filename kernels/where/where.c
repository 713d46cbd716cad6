/* where: condition ? a : b. It moves bits and never computes with them, so every dtype works and NaN stays as it is. */
#include "kernels/kernels.h"
#include "kernels/pointwise.h"
#include "spmd/linear.h"

spmd_status spmd__where_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status where_shape(spmd_ctx *ctx, spmd_call *call)
{
    char text[96];
    (void)ctx;
    SPMD_CHECK(call->in[0].dtype == SPMD_BOOL, SPMD_EDTYPE,
               "where: condition is %s, bool expected; use spmd_equal or "
               "spmd_cast",
               spmd__shape_text(&call->in[0], text));
    SPMD_TRY(spmd__same_dtype("where", &call->in[1], &call->in[2]));
    call->out[0].dtype = call->in[1].dtype;
    return spmd__broadcast_shape("where", call->in, 3, &call->out[0]);
}

static void select_8(const uint8_t *c, const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = c[i] ? a[i] : b[i];
}

static void select_16(const uint8_t *c, const uint16_t *a, const uint16_t *b, uint16_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = c[i] ? a[i] : b[i];
}

static void select_i32(const uint8_t *c, const int32_t *a, const int32_t *b, int32_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = c[i] ? a[i] : b[i];
}

static void select_i64(const uint8_t *c, const int64_t *a, const int64_t *b, int64_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = c[i] ? a[i] : b[i];
}

SPMD_CLONES static void select_f32(const uint8_t *restrict c, const float *restrict a, const float *restrict b,
                                   float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = c[i] ? a[i] : b[i];
}

static spmd_status where_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    uint8_t c_tile[SPMD__TILE];
    int64_t a_tile[SPMD__TILE], b_tile[SPMD__TILE]; /* room for elements of any size */
    (void)ctx;
    spmd__runs runs = spmd__runs_of(args);
    while (spmd__runs_next(&runs)) {
        const uint8_t *c = spmd__run_operand(&runs, 0, c_tile);
        const void *a = spmd__run_operand(&runs, 1, a_tile), *b = spmd__run_operand(&runs, 2, b_tile);
        void *y = spmd__element(out->data, out->dtype, runs.at);
        if (out->dtype == SPMD_F32)
            select_f32(c, a, b, y, runs.n);
        else if (out->dtype == SPMD_I64)
            select_i64(c, a, b, y, runs.n);
        else if (out->dtype == SPMD_I32)
            select_i32(c, a, b, y, runs.n);
        else if (spmd_dtype_size(out->dtype) == 2)
            select_16(c, a, b, y, runs.n);
        else
            select_8(c, a, b, y, runs.n);
    }
    return SPMD_OK;
}

static spmd_status where_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin)
{
    spmd_tensor zero;
    SPMD_TRY(spmd__linear_fill(ctx, ct, 0, &zero));
    if (need[1]) {
        SPMD_TRY(spmd_where(ctx, &call->in[0], ct, &zero, &gin[1]));
        SPMD_TRY(spmd__sum_to(ctx, &gin[1], &call->in[1], &gin[1]));
    }
    if (need[2]) {
        SPMD_TRY(spmd_where(ctx, &call->in[0], &zero, ct, &gin[2]));
        SPMD_TRY(spmd__sum_to(ctx, &gin[2], &call->in[2], &gin[2]));
    }
    return SPMD_OK;
}

static const spmd_op where_op = {
    .name = "where",
    .shape = where_shape,
    .grad = where_grad,
    .host = where_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__where_cuda),
    .rule = spmd__label_pointwise,
};

spmd_status spmd_where(spmd_ctx *ctx, const spmd_tensor *condition, const spmd_tensor *a, const spmd_tensor *b,
                       spmd_tensor *out)
{
    const spmd_tensor in[] = {*condition, *a, *b};
    return spmd__emit(ctx, &where_op, NULL, in, 3, out, 1);
}
