#include "bench/kernel_rows.h"

#define BINARY(name)                                                                       \
    static spmd_status call_##name(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out) \
    {                                                                                      \
        return spmd_##name(ctx, &in[0], &in[1], out);                                      \
    }
#define UNARY(name)                                                                        \
    static spmd_status call_##name(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out) \
    {                                                                                      \
        return spmd_##name(ctx, &in[0], out);                                              \
    }

BINARY(add)
BINARY(mul)
BINARY(div)
BINARY(maximum)
BINARY(bias_gelu)
BINARY(softmax_cross_entropy)
BINARY(embedding)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(relu)
UNARY(tanh)
UNARY(sigmoid)
UNARY(silu)
UNARY(gelu)
UNARY(softmax)

static spmd_status call_scale(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_scale(ctx, &in[0], 0.5, out);
}

/* Between f32 and bf16, from what the dtype is. */
static spmd_status call_cast(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_cast(ctx, &in[0], in[0].dtype == SPMD_F32 ? SPMD_BF16 : SPMD_F32, out);
}

static spmd_status call_transpose(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_transpose(ctx, &in[0], NULL, out);
}

static spmd_status call_sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sum(ctx, &in[0], NULL, 0, false, out);
}

static spmd_status call_sum_of_rows(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sum(ctx, &in[0], (const int[]){1}, 1, false, out);
}

static spmd_status call_sum_of_columns(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sum(ctx, &in[0], (const int[]){0}, 1, false, out);
}

static spmd_status call_max(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_max(ctx, &in[0], (const int[]){1}, 1, false, out);
}

static spmd_status call_argmax(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_argmax(ctx, &in[0], -1, out);
}

static spmd_status call_layer_norm(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_layer_norm(ctx, &in[0], &in[1], &in[2], 1e-5, out);
}

static spmd_status call_matmul(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_matmul(ctx, &in[0], &in[1], false, false, out);
}

static spmd_status call_linear_gelu(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_linear_gelu(ctx, &in[0], &in[1], &in[2], out);
}

static spmd_status call_residual_gelu(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_residual_gelu(ctx, &in[0], &in[1], &in[2], 0.9, 0.1, out);
}

/* One head of C; sequences of 1024 tokens if R is a multiple of that, else one of R. */
static spmd_status call_causal_attention(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    const int64_t rows = in[0].shape[0], tokens = rows % 1024 ? rows : 1024;
    spmd_tensor qkv[3];
    for (int k = 0; k < 3; k++)
        SPMD_TRY(spmd_reshape(ctx, &in[k], SPMD_SHAPE(rows / tokens, 1, tokens, in[k].shape[1]), &qkv[k]));
    return spmd_causal_attention(ctx, &qkv[0], &qkv[1], &qkv[2], out);
}

static spmd_status call_random_normal(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor seed;
    SPMD_TRY(spmd_cast(ctx, &in[0], SPMD_I32, &seed));
    return spmd_random_normal(ctx, &seed, 0, in[1].rank, in[1].shape, SPMD_REPLICATED, out);
}

static spmd_status call_global_norm(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_global_norm(ctx, &in[0], 1, out);
}

/* The state donated, so that the step works in place, as a training's does. */
static spmd_status call_adamw(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    const spmd_adamw_opts opts = {0.9, 0.999, 1e-8, 1e-4};
    for (int k = 0; k < 3; k++) {
        SPMD_TRY(spmd_scale(ctx, &in[k], 1, &out[k]));
        spmd_donate(&out[k]);
    }
    return spmd_adamw(ctx, &opts, 1, &out[0], &in[3], &out[1], &out[2], &in[4], &in[5], &out[0], &out[1], &out[2]);
}

#define M KERNEL_MATRIX
const kernel_row kernel_rows[] = {
    {"add", {0}, {M, M}, call_add, false},
    {"mul", {0}, {M, M}, call_mul, false},
    {"div", {0}, {M, M}, call_div, false},
    {"maximum", {0}, {M, M}, call_maximum, false},
    {"scale", {0}, {M}, call_scale, false},
    {"exp", {0}, {M}, call_exp, false},
    {"log", {0}, {M}, call_log, false},
    {"sqrt", {0}, {M}, call_sqrt, false},
    {"relu", {0}, {M}, call_relu, false},
    {"tanh", {0}, {M}, call_tanh, false},
    {"sigmoid", {0}, {M}, call_sigmoid, false},
    {"silu", {0}, {M}, call_silu, false},
    {"gelu", {0}, {M}, call_gelu, false},
    {"cast", {0}, {M}, call_cast, false},
    {"transpose", {0}, {M}, call_transpose, false},
    {"sum", {0}, {M}, call_sum, false},
    {"sum_of_rows", {"sum"}, {M}, call_sum_of_rows, false},
    {"sum_of_columns", {"sum"}, {M}, call_sum_of_columns, false},
    {"max", {0}, {M}, call_max, false},
    {"argmax", {0}, {M}, call_argmax, false},
    {"softmax", {"softmax", "softmax_grad"}, {M}, call_softmax, true},
    {"layer_norm", {"layer_norm", "layer_norm_grad"}, {M, KERNEL_VECTOR, KERNEL_VECTOR}, call_layer_norm, true},
    {"softmax_cross_entropy",
     {"softmax_cross_entropy", "softmax_cross_entropy_grad"},
     {KERNEL_F32, KERNEL_INDICES},
     call_softmax_cross_entropy,
     true},
    {"embedding", {"embedding", "embedding_grad"}, {KERNEL_SQUARE, KERNEL_INDICES}, call_embedding, true},
    {"bias_gelu", {"bias_gelu", "gelu_backprop"}, {M, KERNEL_VECTOR}, call_bias_gelu, true},
    {"linear_gelu", {0}, {M, KERNEL_SQUARE, KERNEL_VECTOR}, call_linear_gelu, false},
    {"residual_gelu",
     {"residual_gelu", "gelu_backprop", "matmul"},
     {M, KERNEL_SQUARE, KERNEL_VECTOR},
     call_residual_gelu,
     true},
    {"matmul", {0}, {M, KERNEL_SQUARE}, call_matmul, false},
    {"causal_attention", {"causal_attention", "causal_attention_grad"}, {M, M, M}, call_causal_attention, true},
    {"random_normal", {0}, {KERNEL_SCALAR, M}, call_random_normal, false},
    {"global_norm", {"sum_squares"}, {M}, call_global_norm, false},
    {"adamw", {0}, {KERNEL_F32, KERNEL_F32, KERNEL_F32, KERNEL_F32, KERNEL_SCALAR, KERNEL_SCALAR}, call_adamw, false},
};
const int kernel_nrows = sizeof kernel_rows / sizeof *kernel_rows;
