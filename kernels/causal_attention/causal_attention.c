/* causal_attention: softmax(q k^T / sqrt(d) + causal mask) v. Scores are never stored; a row's log of its sum of
 * exponentials is, as a second output, and with it the backward pass makes the probabilities again. */
#include "kernels/kernels.h"
#include "kernels/causal_attention/attention.h"
#include "spmd/rule.h"

spmd_status spmd__causal_attention_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status attention_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *q = &call->in[0], *k = &call->in[1], *v = &call->in[2];
    char qt[96], kt[96], vt[96];
    spmd__shape_text(q, qt);
    spmd__shape_text(k, kt);
    spmd__shape_text(v, vt);
    SPMD_TRY(spmd__check_float("causal_attention", "q", q));
    SPMD_CHECK(k->dtype == q->dtype && v->dtype == q->dtype, SPMD_EDTYPE,
               "causal_attention: q is %s, k is %s, v is %s: expected one dtype; cast them to one", qt, kt, vt);
    SPMD_CHECK(q->rank == 4 && spmd__shape_equal(q, k) && spmd__shape_equal(q, v), SPMD_ESHAPE,
               "causal_attention: q is %s, k is %s, v is %s: expected three times [batch, heads, time, d]", qt, kt, vt);
    spmd__same_shape(&call->out[0], q);
    spmd__same_shape(&call->out[1], q);
    call->out[1].dtype = SPMD_F32;
    call->out[1].rank = 3;
    return SPMD_OK;
}

static spmd_status attention_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    (void)need; /* one pass makes all three */
    const spmd_tensor in[6] = {call->in[0], call->in[1], call->in[2], call->out[0], call->out[1], ct[0]};
    return spmd__attention_grad(ctx, in, gin);
}

static void attention_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *q = &call->in[0];
    cost->flops = 2.0 * (double)spmd_count(q) * (double)q->shape[2]; /* two products, of which the mask leaves half */
    cost->bytes = 4.0 * (double)spmd__tensor_bytes(q);
}

/* Batch and heads are independent of each other. */
static void attention_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 2);
}

static const spmd_op attention_op = {
    .name = "causal_attention",
    .shape = attention_shape,
    .grad = attention_grad,
    .host = spmd__attention_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__causal_attention_cuda),
    .cost = attention_cost,
    .rule = attention_rule,
    .residual = 1 << 1,
};

spmd_status spmd_causal_attention(spmd_ctx *ctx, const spmd_tensor *q, const spmd_tensor *k, const spmd_tensor *v,
                                  spmd_tensor *out)
{
    const spmd_tensor in[] = {*q, *k, *v};
    spmd_tensor outs[2]; /* the result, and the rows' log sums for the backward pass */
    SPMD_TRY(spmd__emit(ctx, &attention_op, NULL, in, 3, outs, 2));
    *out = outs[0];
    return SPMD_OK;
}
