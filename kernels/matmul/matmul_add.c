/* matmul_add: c + a b, for gradients that are sums of products (a weight that is used many times): the product adds to
 * what lies there, where a product and an addition would write and read it once more. It is emitted only where no outer
 * gradient records, so it has none. */
#include "kernels/kernels.h"
#include "kernels/matmul/gemm.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__matmul_add_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { C, OPERANDS }; /* c first: it is the one whose memory the result may take */

static spmd_call product_of(const spmd_call *call)
{
    spmd_call product = *call;
    product.in += OPERANDS;
    product.nin -= OPERANDS;
    return product;
}

static spmd_status matmul_add_shape(spmd_ctx *ctx, spmd_call *call)
{
    spmd_call product = product_of(call);
    char ct[96], pt[96];
    SPMD_TRY(spmd__matmul_shape(ctx, &product));
    SPMD_CHECK(spmd__shape_equal(&call->in[C], &call->out[0]) && call->in[C].dtype == call->out[0].dtype, SPMD_ESHAPE,
               "matmul_add: c is %s, the product %s: expected equal types", spmd__shape_text(&call->in[C], ct),
               spmd__shape_text(&call->out[0], pt));
    return SPMD_OK;
}

static spmd_status matmul_add_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *c = &args->in[C], *a = &args->in[OPERANDS], *b = a + 1, *out = &args->out[0];
    spmd__gemm_case gemm = spmd__matmul_case(args->attr, a, b, out);
    gemm.accumulate = true;
    if (out->data != c->data)
        memcpy(out->data, c->data, spmd__view_bytes(c));
    return spmd__gemm(ctx, &gemm, a->data, b->data, NULL, out->data);
}

static void matmul_add_cost(const spmd_call *call, spmd_cost *cost)
{
    spmd_call product = product_of(call);
    spmd__matmul_cost(&product, cost);
}

/* As the product: where k is cut, c must be one of the sums that stay open there (`adds`). */
static void matmul_add_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd_call product = product_of(call);
    spmd_labels shifted = {.in = labels->in + OPERANDS, .out = labels->out};
    spmd__matmul_rule(&product, &shifted);
    for (int d = 0; d < call->in[C].rank; d++)
        labels->in[C][d] = labels->out[0][d];
}

static const spmd_op matmul_add_op = {
    .name = "matmul_add",
    .shape = matmul_add_shape,
    .host = matmul_add_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__matmul_add_cuda),
    .cost = matmul_add_cost,
    .rule = matmul_add_rule,
    .linear = 7,
    .adds = 1 << C,
    .in_place = true,
};

spmd_status spmd__matmul_onto(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, bool transpose_a,
                              bool transpose_b, spmd_tensor *sum)
{
    const spmd_attr attr = {.i = {transpose_a, transpose_b, sum->dtype != a->dtype}};
    const spmd_tensor in[] = {*sum, *a, *b};
    bool alike;
    if (!sum->id)
        return spmd__emit(ctx, &spmd__matmul_op, &attr, in + OPERANDS, 2, sum, 1);
    SPMD_TRY(spmd__lies_as(ctx, &spmd__matmul_op, &attr, in + OPERANDS, 2, sum, &alike));
    if (!alike) { /* each is moved as is best for it */
        spmd_tensor product;
        SPMD_TRY(spmd__emit(ctx, &spmd__matmul_op, &attr, in + OPERANDS, 2, &product, 1));
        return spmd_add(ctx, sum, &product, sum);
    }
    return spmd__emit(ctx, &matmul_add_op, &attr, in, 3, sum, 1);
}
