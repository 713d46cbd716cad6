/* Gradients of gradients: the gradient of sum(op(x) * c) is itself checked as an op, by differences. */
#include "spmd/testing.h"

/* Makes `out` of in[0..1], both f32[3,4] and positive. */
typedef spmd_status body_fn(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out);

static spmd_status exp_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_exp(ctx, &in[0], out);
}
static spmd_status log_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_log(ctx, &in[0], out);
}
static spmd_status sqrt_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sqrt(ctx, &in[0], out);
}
static spmd_status square_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_square(ctx, &in[0], out);
}
static spmd_status tanh_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_tanh(ctx, &in[0], out);
}
static spmd_status sigmoid_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sigmoid(ctx, &in[0], out);
}
static spmd_status mul_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    SPMD_TRY(spmd_mul(ctx, &in[0], &in[1], out));
    return spmd_mul(ctx, out, &in[0], out);
}
static spmd_status div_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_div(ctx, &in[0], &in[1], out);
}
static spmd_status relu_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor one; /* some of in[0] lie above it, some below */
    SPMD_TRY(spmd_full(ctx, 1, SPMD_F32, SPMD_SCALAR, &one));
    SPMD_TRY(spmd_sub(ctx, &in[0], &one, out));
    SPMD_TRY(spmd_relu(ctx, out, out));
    return spmd_square(ctx, out, out); /* makes relu's cotangent depend on x */
}
static spmd_status maximum_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor middle; /* some of in[0] lie above it, some below */
    SPMD_TRY(spmd_mean(ctx, &in[1], NULL, 0, false, &middle));
    SPMD_TRY(spmd_square(ctx, &middle, &middle));
    SPMD_TRY(spmd_square(ctx, &in[0], out));
    return spmd_maximum(ctx, out, &middle, out);
}

/* Linear ops between two squares: their gradients must be on the tape, too. */
static spmd_status linear_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor a, b, joined[2];
    SPMD_TRY(spmd_square(ctx, &in[0], &a));
    SPMD_TRY(spmd_square(ctx, &in[1], &b));
    SPMD_TRY(spmd_sub(ctx, &a, &b, &joined[0]));
    SPMD_TRY(spmd_neg(ctx, &b, &joined[1]));
    SPMD_TRY(spmd_concat(ctx, joined, 2, 0, &a)); /* [6, 4] */
    SPMD_TRY(spmd_transpose(ctx, &a, NULL, &a));
    SPMD_TRY(spmd_slice(ctx, &a, 1, 1, 4, &a)); /* [4, 4] */
    SPMD_TRY(spmd_reshape(ctx, &a, SPMD_SHAPE(2, 8), &a));
    SPMD_TRY(spmd_scale(ctx, &a, 0.5, &a));
    return spmd_square(ctx, &a, out);
}

static spmd_status reduced_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    const int first = 0, last = 1;
    spmd_tensor rows, columns, most;
    SPMD_TRY(spmd_square(ctx, &in[0], out));
    SPMD_TRY(spmd_sum(ctx, out, &first, 1, true, &rows));       /* [1, 4] */
    SPMD_TRY(spmd_mean(ctx, &in[1], &last, 1, true, &columns)); /* [3, 1] */
    SPMD_TRY(spmd_max(ctx, out, NULL, 0, false, &most));
    SPMD_TRY(spmd_broadcast_to(ctx, &columns, SPMD_SHAPE(3, 4), &columns));
    SPMD_TRY(spmd_add(ctx, &rows, &columns, out));
    SPMD_TRY(spmd_mul(ctx, out, &most, out));
    return spmd_square(ctx, out, out);
}

static spmd_status where_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor whole, same;
    SPMD_TRY(spmd_cast(ctx, &in[0], SPMD_I32, &whole));
    SPMD_TRY(spmd_cast(ctx, &whole, SPMD_BOOL, &same)); /* 1 or more */
    SPMD_TRY(spmd_where(ctx, &same, &in[0], &in[1], out));
    return spmd_square(ctx, out, out);
}

static spmd_status gelu_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_gelu(ctx, &in[0], out);
}
static spmd_status silu_body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_silu(ctx, &in[0], out);
}

static const struct {
    const char *name;
    body_fn *fn;
} rows[] = {
    {"exp", exp_body},     {"log", log_body},         {"sqrt", sqrt_body},     {"square", square_body},
    {"tanh", tanh_body},   {"sigmoid", sigmoid_body}, {"mul", mul_body},       {"div", div_body},
    {"relu", relu_body},   {"maximum", maximum_body}, {"linear", linear_body}, {"reduced", reduced_body},
    {"where", where_body},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* A loss that weighs elements differently, so that no symmetry hides a misplaced one. */
static spmd_status weighted(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    spmd_tensor out, weights;
    (void)n;
    SPMD_TRY((*(body_fn *const *)user)(ctx, params, &out));
    SPMD_TRY(spmd_iota(ctx, SPMD_F32, spmd_count(&out), &weights));
    SPMD_TRY(spmd_reshape(ctx, &weights, out.rank, out.shape, &weights));
    SPMD_TRY(spmd_mul(ctx, &out, &weights, &out));
    return spmd_mean(ctx, &out, NULL, 0, false, loss);
}

/* The op under test: both gradients, side by side. */
static spmd_status gradient_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor grads[2];
    SPMD_TRY(spmd_grad(ctx, weighted, user, in, 2, grads));
    return spmd_concat(ctx, grads, 2, 0, out);
}

static void positive_inputs(spmd_value in[2])
{
    for (int k = 0; k < 2; k++) {
        in[k] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(3, 4), 0.4, 31 + (unsigned)k);
        for (int64_t i = 0; i < spmd_value_count(&in[k]); i++) /* around 0.7 or 1.4: clear of where's step at 1 */
            spmd_value_set(&in[k], i, spmd_value_at(&in[k], i) / 2 + (i % 2 ? 0.7 : 1.4));
    }
}

START_TEST(gradient_of_the_gradient)
{
    spmd_value in[2];
    positive_inputs(in);
    double error = spmd_test_check_grad(gradient_op, (void *)&rows[_i].fn, 2, in, 4);
    ck_assert_msg(error < 1e-2, "%s: %g", rows[_i].name, error);
    spmd_values_free(in, 2);
}
END_TEST

START_TEST(fused_gradients_refuse_by_name)
{
    static body_fn *const fns[] = {gelu_body, silu_body};
    spmd_value in[2], grads[2], ct = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(6, 4));
    positive_inputs(in);
    ck_spmd_fails(spmd_test_vjp(gradient_op, (void *)&fns[_i], 2, in, &ct, grads), SPMD_EGRAD,
                  _i ? "silu_grad has no gradient" : "gelu_grad has no gradient");
    spmd_values_free(in, 2);
    spmd_value_free(&ct);
}
END_TEST

SPMD_TEST_MAIN("second_order", tcase_add_loop_test(tc, gradient_of_the_gradient, 0, ROWS);
               tcase_add_loop_test(tc, fused_gradients_refuse_by_name, 0, 2);)
