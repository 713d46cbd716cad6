/* matmul: shapes, gradient, op. The gradient is matmuls again, so it can be differentiated; transposes are flags,
 * nothing is ever transposed in memory. */
#include "kernels/kernels.h"
#include "kernels/matmul/gemm.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__matmul_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

spmd_status spmd__matmul_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *a = &call->in[0], *b = &call->in[1];
    bool ta = call->attr.i[0], tb = call->attr.i[1];
    char at[96], bt[96];
    spmd__shape_text(a, at);
    spmd__shape_text(b, bt);
    SPMD_TRY(spmd__check_float("matmul", "a", a));
    SPMD_TRY(spmd__check_float("matmul", "b", b));
    SPMD_CHECK(a->dtype == b->dtype, SPMD_EDTYPE, "matmul: a is %s, b is %s: expected one dtype; cast one of them", at,
               bt);
    SPMD_CHECK(a->rank >= 2 && (b->rank == 2 || b->rank == a->rank), SPMD_ESHAPE,
               "matmul: a is %s, b is %s: expected a of rank 2 or more, and b of rank 2 or of a's rank; reshape them",
               at, bt);
    for (int d = 0; b->rank > 2 && d < a->rank - 2; d++)
        SPMD_CHECK(a->shape[d] == b->shape[d], SPMD_ESHAPE,
                   "matmul: a is %s, b is %s: their leading dimensions must be equal, or b of rank 2", at, bt);
    int64_t k = a->shape[a->rank - (ta ? 2 : 1)], kb = b->shape[b->rank - (tb ? 1 : 2)];
    SPMD_CHECK(k == kb, SPMD_ESHAPE,
               "matmul: a is %s%s, b is %s%s: the contracted sizes %lld and %lld must be equal; transpose_a, "
               "transpose_b choose which they are",
               at, ta ? " (transposed)" : "", bt, tb ? " (transposed)" : "", (long long)k, (long long)kb);
    spmd__same_shape(&call->out[0], a);
    if (call->attr.i[SPMD__MATMUL_WIDE])
        call->out[0].dtype = SPMD_F32;
    call->out[0].shape[a->rank - 2] = a->shape[a->rank - (ta ? 1 : 2)];
    call->out[0].shape[a->rank - 1] = b->shape[b->rank - (tb ? 2 : 1)];
    return SPMD_OK;
}

spmd_status spmd__as_matrix(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    int64_t rows = 1, last = x->shape[x->rank - 1];
    for (int d = 0; d < x->rank - 1; d++)
        rows *= x->shape[d];
    return spmd_reshape(ctx, x, SPMD_SHAPE(rows, last), out);
}

/* With C = A B and its cotangent G: dA = G B^T. For a stored transposed it is (G B^T)^T = B G^T. `out` holds 0 or what
 * to add to, here and below. */
static spmd_status matmul_grad_a(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *g, spmd_tensor *out)
{
    const spmd_tensor *a = &call->in[0];
    bool ta = call->attr.i[0], tb = call->attr.i[1];
    spmd_tensor b = call->in[1];
    if (!ta)
        return spmd__matmul_onto(ctx, g, &b, false, !tb, out);
    if (b.rank < a->rank) { /* b is the left operand now, and only the right one may be shared by the batch */
        int64_t shape[SPMD_MAX_RANK];
        memcpy(shape, a->shape, sizeof shape);
        shape[a->rank - 2] = b.shape[0];
        shape[a->rank - 1] = b.shape[1];
        SPMD_TRY(spmd_broadcast_to(ctx, &b, a->rank, shape, &b));
    }
    return spmd__matmul_onto(ctx, &b, g, tb, true, out);
}

/* dB = A^T G; for b stored transposed it is G^T A. A b shared by the batch sums over it: within one product where the
 * batch folds into the rows. */
static spmd_status matmul_grad_b(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, spmd_tensor *out)
{
    bool ta = call->attr.i[0], tb = call->attr.i[1];
    spmd_tensor a = call->in[0], g = *ct;
    bool shared = call->in[1].rank < a.rank;
    if (shared && !ta) {
        SPMD_TRY(spmd__as_matrix(ctx, &a, &a));
        SPMD_TRY(spmd__as_matrix(ctx, &g, &g));
    }
    spmd_tensor batch = {.dtype = out->dtype}, *to = shared && ta ? &batch : out;
    SPMD_TRY(tb ? spmd__matmul_onto(ctx, &g, &a, true, ta, to) : spmd__matmul_onto(ctx, &a, &g, !ta, false, to));
    if (to == out)
        return SPMD_OK;
    const int leading[SPMD_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    SPMD_TRY(spmd_sum(ctx, &batch, leading, batch.rank - 2, false, &batch));
    if (out->id)
        return spmd_add(ctx, out, &batch, out);
    *out = batch;
    return SPMD_OK;
}

static spmd_status matmul_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    if (need[0])
        SPMD_TRY(matmul_grad_a(ctx, call, &ct[0], &gin[0]));
    if (need[1])
        SPMD_TRY(matmul_grad_b(ctx, call, &ct[0], &gin[1]));
    return SPMD_OK;
}

spmd__gemm_case spmd__matmul_case(const spmd_attr *attr, const spmd_view *a, const spmd_view *b, const spmd_view *out)
{
    bool ta = attr->i[0], tb = attr->i[1];
    spmd__gemm_case c = {.dtype = a->dtype,
                         .out_dtype = out->dtype,
                         .batch = 1,
                         .m = out->shape[out->rank - 2],
                         .n = out->shape[out->rank - 1],
                         .k = a->shape[a->rank - (ta ? 2 : 1)],
                         .transpose_a = ta,
                         .transpose_b = tb,
                         .share_b = b->rank < a->rank};
    for (int d = 0; d < out->rank - 2; d++)
        c.batch *= out->shape[d];
    if (c.share_b && !ta) { /* one product with batch * m rows */
        c.m *= c.batch;
        c.batch = 1;
    }
    if (c.batch == 1 && !ta) /* with A transposed it is a weight's gradient, and B met once */
        c.value_b = b->value;
    return c;
}

static spmd_status matmul_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    const spmd__gemm_case c = spmd__matmul_case(args->attr, a, b, out);
    return spmd__gemm(ctx, &c, a->data, b->data, NULL, out->data);
}

void spmd__matmul_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *a = &call->in[0], *out = &call->out[0];
    int64_t k = a->shape[a->rank - (call->attr.i[0] ? 2 : 1)];
    cost->flops = 2.0 * (double)spmd_count(out) * (double)k;
    cost->bytes = (double)spmd_dtype_size(a->dtype) *
                  (double)(spmd_count(a) + spmd_count(&call->in[1]) + spmd_count(out));
}

/* Leading dimensions, then m and n; k is in no output, so cutting it makes the product partial. */
void spmd__matmul_rule(const spmd_call *call, spmd_labels *labels)
{
    int ra = call->in[0].rank, rb = call->in[1].rank;
    bool ta = call->attr.i[0], tb = call->attr.i[1];
    int8_t m = (int8_t)(ra - 2), n = (int8_t)(ra - 1), k = (int8_t)ra;
    for (int8_t d = 0; d < m; d++) {
        labels->in[0][d] = labels->out[0][d] = d;
        if (rb == ra)
            labels->in[1][d] = d;
    }
    labels->in[0][ra - (ta ? 1 : 2)] = labels->out[0][ra - 2] = m;
    labels->in[0][ra - (ta ? 2 : 1)] = labels->in[1][rb - (tb ? 1 : 2)] = k;
    labels->in[1][rb - (tb ? 2 : 1)] = labels->out[0][ra - 1] = n;
}

const spmd_op spmd__matmul_op = {
    .name = "matmul",
    .shape = spmd__matmul_shape,
    .grad = matmul_grad,
    .host = matmul_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__matmul_cuda),
    .cost = spmd__matmul_cost,
    .rule = spmd__matmul_rule,
    .linear = 3,
    .sums = 3,
};

spmd_status spmd_matmul(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, bool transpose_a, bool transpose_b,
                        spmd_tensor *out)
{
    const spmd_attr attr = {.i = {transpose_a, transpose_b}};
    const spmd_tensor in[2] = {*a, *b};
    return spmd__emit(ctx, &spmd__matmul_op, &attr, in, 2, out, 1);
}
