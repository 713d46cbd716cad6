/* Samples for test_rules.c: ops of every family, and what some of their rules must read ('-': whole). */
#ifndef TESTS_RULE_SAMPLES_H
#define TESTS_RULE_SAMPLES_H

#include "spmd/testing.h"

/* The inputs. Floating ones come first: gradients are taken for them. */
enum { X, Y, ROW, W, BIAS, TABLE, Q, K, V, HALF, RULE_FLOATS, INDEX = RULE_FLOATS, RULE_INPUTS };

static inline void rule_inputs(spmd_value in[RULE_INPUTS])
{
    in[X] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(6, 4, 12), 1, 1);
    in[Y] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(6, 4, 12), 1, 2);
    for (int64_t i = 0; i < spmd_value_count(&in[Y]); i++) /* positive, for div, log and sqrt */
        spmd_value_set(&in[Y], i, 0.5 + fabs(spmd_value_at(&in[Y], i)));
    in[ROW] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(12), 1, 3);
    in[W] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(12, 24), 1, 4);
    in[BIAS] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(24), 1, 5);
    in[TABLE] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(8, 12), 1, 6);
    for (int k = Q; k <= V; k++)
        in[k] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(2, 6, 4, 12), 1, (unsigned)k);
    in[HALF] = spmd_value_random(SPMD_BF16, NULL, SPMD_SHAPE(6, 4, 12), 1, 7);
    in[INDEX] = spmd_value_exact(SPMD_I32, NULL, SPMD_SHAPE(6, 4), 8); /* 0..7 */
}

static inline spmd_status arithmetic(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor column;
    SPMD_TRY(spmd_slice(c, &in[X], 1, 2, 1, &column)); /* [6,1,12] */
    SPMD_TRY(spmd_mul(c, &column, &in[Y], &column));
    SPMD_TRY(spmd_add(c, &column, &in[ROW], out));
    SPMD_TRY(spmd_sub(c, out, &in[X], out));
    return spmd_div(c, out, &in[Y], out);
}

static inline spmd_status selection(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor larger, is_x;
    SPMD_TRY(spmd_maximum(c, &in[X], &in[ROW], &larger));
    SPMD_TRY(spmd_equal(c, &larger, &in[X], &is_x));
    SPMD_TRY(spmd_where(c, &is_x, &in[Y], &in[ROW], out));
    SPMD_TRY(spmd_mul(c, out, &larger, out));
    SPMD_TRY(spmd_cast(c, &in[Y], SPMD_I32, &larger));
    SPMD_TRY(spmd_add(c, &larger, &larger, &larger));
    SPMD_TRY(spmd_cast(c, &larger, SPMD_F32, &larger));
    SPMD_TRY(spmd_stop_gradient(c, &larger, &larger));
    return spmd_add(c, out, &larger, out);
}

static inline spmd_status functions(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    SPMD_TRY(spmd_log(c, &in[Y], out));
    SPMD_TRY(spmd_exp(c, out, out));
    SPMD_TRY(spmd_sqrt(c, out, out));
    SPMD_TRY(spmd_square(c, out, out));
    SPMD_TRY(spmd_neg(c, out, out));
    return spmd_scale(c, out, 0.5, out);
}

static inline spmd_status activations(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    SPMD_TRY(spmd_relu(c, &in[HALF], out));
    SPMD_TRY(spmd_gelu(c, out, out));
    SPMD_TRY(spmd_cast(c, out, SPMD_F32, out));
    SPMD_TRY(spmd_tanh(c, out, out));
    SPMD_TRY(spmd_silu(c, out, out));
    return spmd_sigmoid(c, out, out);
}

static inline spmd_status moving(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    const int order[] = {2, 0, 1};
    spmd_tensor parts[3] = {in[X], in[Y], in[X]};
    SPMD_TRY(spmd_slice(c, &in[Y], 1, 1, 2, &parts[1]));
    SPMD_TRY(spmd_concat(c, parts, 3, 1, out)); /* [6,10,12] */
    SPMD_TRY(spmd_transpose(c, out, order, out));
    SPMD_TRY(spmd_broadcast_to(c, &in[ROW], SPMD_SHAPE(6, 10, 12), &parts[0]));
    SPMD_TRY(spmd_transpose(c, &parts[0], order, &parts[0]));
    return spmd_mul(c, out, &parts[0], out);
}

static inline spmd_status shapes(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    SPMD_TRY(spmd_reshape(c, &in[X], SPMD_SHAPE(24, 12), out));     /* a merge */
    SPMD_TRY(spmd_reshape(c, out, SPMD_SHAPE(3, 8, 1, 12), out));   /* a split */
    SPMD_TRY(spmd_reshape(c, out, SPMD_SHAPE(1, 3, 8, 2, 6), out)); /* another */
    SPMD_TRY(spmd_reshape(c, out, SPMD_SHAPE(6, 4, 12), out));
    return spmd_reshape(c, out, SPMD_SHAPE(8, 36), out); /* neither */
}

static inline spmd_status reductions(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    const int middle[] = {1}, outer[] = {2, 0};
    spmd_tensor t, index;
    SPMD_TRY(spmd_sum(c, &in[X], middle, 1, true, out)); /* [6,1,12] */
    SPMD_TRY(spmd_mean(c, &in[X], outer, 2, false, &t)); /* [4] */
    SPMD_TRY(spmd_reshape(c, &t, SPMD_SHAPE(4, 1), &t));
    SPMD_TRY(spmd_mul(c, out, &t, out));
    SPMD_TRY(spmd_max(c, &in[Y], middle, 1, false, &t)); /* [6,12] */
    SPMD_TRY(spmd_reshape(c, &t, SPMD_SHAPE(6, 1, 12), &t));
    SPMD_TRY(spmd_mul(c, out, &t, out));
    SPMD_TRY(spmd_argmax(c, &in[X], 1, &index)); /* [6,12] */
    SPMD_TRY(spmd_one_hot(c, &index, 4, SPMD_F32, &t));
    SPMD_TRY(spmd_sum(c, &t, middle, 1, false, &t)); /* [6,4] */
    SPMD_TRY(spmd_mean(c, &t, NULL, 0, true, &t));
    SPMD_TRY(spmd_reshape(c, &t, SPMD_SHAPE(1), &t));
    return spmd_add(c, out, &t, out);
}

static inline spmd_status products(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor t;
    SPMD_TRY(spmd_matmul(c, &in[X], &in[Y], false, true, out));     /* [6,4,4] */
    SPMD_TRY(spmd_matmul(c, &in[X], out, true, true, out));         /* [6,12,4] */
    SPMD_TRY(spmd_matmul(c, out, &in[X], false, false, out));       /* [6,12,12] */
    SPMD_TRY(spmd_matmul(c, out, &in[TABLE], false, true, out));    /* [6,12,8] */
    SPMD_TRY(spmd_matmul(c, &in[TABLE], &in[W], false, false, &t)); /* [8,24] */
    SPMD_TRY(spmd_matmul(c, out, &t, false, false, out));           /* [6,12,24] */
    return spmd_matmul(c, out, &in[W], true, false, out);           /* [6,24,24] */
}

static inline spmd_status layers(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor t;
    SPMD_TRY(spmd_embedding(c, &in[TABLE], &in[INDEX], out)); /* [6,4,12] */
    SPMD_TRY(spmd_layer_norm(c, out, &in[ROW], &in[ROW], 1e-5, out));
    SPMD_TRY(spmd_linear_gelu(c, out, &in[W], &in[BIAS], &t)); /* [6,4,24] */
    SPMD_TRY(spmd_matmul(c, &t, &in[W], false, true, out));    /* [6,4,12] */
    SPMD_TRY(spmd_bias_gelu(c, out, &in[ROW], out));
    SPMD_TRY(spmd_linear(c, out, &in[W], &in[BIAS], out));
    SPMD_TRY(spmd_softmax(c, out, out));
    return spmd_softmax_cross_entropy(c, out, &in[INDEX], out);
}

static inline spmd_status attention(spmd_ctx *c, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_causal_attention(c, &in[Q], &in[K], &in[V], out);
}

typedef struct rule_sample {
    spmd_status (*fn)(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out);
    const char *rules[12]; /* ends with NULL */
} rule_sample;

static const rule_sample rule_samples[] = {
    {arithmetic,
     {"mul a-c,abc->abc", "add abc,c->abc", "sub abc,abc->abc", "div abc,abc->abc", "sum_to abc->c",
      "sum_to abc->a-c"}},
    {selection,
     {"maximum abc,c->abc", "equal abc,abc->abc", "where abc,abc,c->abc", "cast abc->abc", "stop_gradient abc->abc",
      "fill_like abc->abc"}},
    {functions, {"log abc->abc", "exp abc->abc", "sqrt abc->abc", "square abc->abc", "neg abc->abc", "scale abc->abc"}},
    {activations,
     {"relu abc->abc", "gelu abc->abc", "tanh abc->abc", "silu abc->abc", "sigmoid abc->abc", "relu_grad abc,abc->abc",
      "gelu_grad abc,abc->abc", "silu_grad abc,abc->abc"}},
    {moving,
     {"slice a-c->a-c", "slice_back a-c->a-c", "concat a-c,a-c,a-c->a-c", "transpose bca->abc", "broadcast_to c->abc"}},
    {shapes, {"reshape a-b->ab", "reshape ab->a--b", "reshape ab-c->-abc-", "reshape -a-b-->a-b", "reshape a--->a-"}},
    {reductions,
     {"sum abc->a-c", "mean abc->b", "max a-c->ac", "argmax a-b->ab", "one_hot ab->ab-", "sum abc->ac", "mean ab->--",
      "sum abc->"}},
    {products,
     {"matmul abd,acd->abc", "matmul adb,acd->abc", "matmul abd,adc->abc", "matmul abd,cd->abc", "matmul ac,cb->ab",
      "matmul abd,dc->abc", "matmul adb,dc->abc"}},
    {layers,
     {"embedding -c,ab->abc", "embedding_grad abc,ab,-c->-c", "layer_norm ab-,-,-->ab-,ab,ab",
      "layer_norm_grad ab-,-,ab,ab,ab-->ab-,-,-", "linear_gelu ab-,-c,c->abc,abc", "bias_gelu abc,c->abc,abc",
      "gelu_backprop abc,abc->abc,c", "linear ab-,-c,c->abc", "softmax ab-->ab-", "softmax_cross_entropy ab-,ab->ab,ab",
      "softmax_cross_entropy_grad ab-,ab,ab,ab->ab-"}},
    {attention,
     {"causal_attention ab--,ab--,ab--->ab--,ab-",
      "causal_attention_grad ab--,ab--,ab--,ab--,ab-,ab--->ab--,ab--,ab--"}},
};
enum { RULE_SAMPLES = sizeof rule_samples / sizeof rule_samples[0] };

#endif
