/* Partial sums through ops: a linear op of the parts sums to the op of the sum; every other op refuses them by name. */
#include "spmd/testing.h"

/* Makes `out` of a partial f32[4,6] and of a whole one. */
typedef spmd_status body_fn(spmd_ctx *ctx, const spmd_tensor *partial, const spmd_tensor *whole, spmd_tensor *out);

static spmd_status neg_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_neg(ctx, p, out);
}
static spmd_status scale_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_scale(ctx, p, 3, out);
}
static spmd_status add_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_add(ctx, p, p, out);
}
static spmd_status sub_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    spmd_tensor twice;
    (void)w;
    SPMD_TRY(spmd_scale(ctx, p, 2, &twice));
    return spmd_sub(ctx, &twice, p, out);
}
static spmd_status mul_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    SPMD_TRY(spmd_mul(ctx, p, w, out));
    return spmd_mul(ctx, w, out, out);
}
static spmd_status div_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    spmd_tensor half;
    (void)w;
    SPMD_TRY(spmd_full(ctx, 0.5, SPMD_F32, SPMD_SCALAR, &half));
    return spmd_div(ctx, p, &half, out);
}
static spmd_status cast_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_cast(ctx, p, SPMD_BF16, out);
}
static spmd_status move_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    spmd_tensor t[2];
    (void)w;
    SPMD_TRY(spmd_transpose(ctx, p, NULL, &t[0]));
    SPMD_TRY(spmd_slice(ctx, &t[0], 0, 1, 4, &t[1]));
    SPMD_TRY(spmd_concat(ctx, t, 2, 0, &t[0])); /* [10, 4] */
    return spmd_reshape(ctx, &t[0], SPMD_SHAPE(5, 8), out);
}
static spmd_status reduce_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    const int first = 0;
    spmd_tensor mean;
    (void)w;
    SPMD_TRY(spmd_sum(ctx, p, &first, 1, false, out));
    SPMD_TRY(spmd_mean(ctx, p, NULL, 0, false, &mean));
    SPMD_TRY(spmd_broadcast_to(ctx, &mean, SPMD_SHAPE(6), &mean));
    return spmd_add(ctx, out, &mean, out);
}
static spmd_status exp_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_exp(ctx, p, out);
}
static spmd_status mixed_add_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    return spmd_add(ctx, p, w, out);
}
static spmd_status square_by_mul_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_mul(ctx, p, p, out);
}
static spmd_status divide_by_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    return spmd_div(ctx, w, p, out);
}
static spmd_status max_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_max(ctx, p, NULL, 0, false, out);
}
static spmd_status maximum_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    return spmd_maximum(ctx, p, w, out);
}
static spmd_status where_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    spmd_tensor yes;
    SPMD_TRY(spmd_equal(ctx, w, w, &yes));
    return spmd_where(ctx, &yes, p, w, out);
}
static spmd_status truncate_body(spmd_ctx *ctx, const spmd_tensor *p, const spmd_tensor *w, spmd_tensor *out)
{
    (void)w;
    return spmd_cast(ctx, p, SPMD_I32, out);
}

/* out[0] = psum(op(parts)), out[1] = op(psum(parts)). */
static spmd_status both_ways(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    body_fn *fn = *(body_fn *const *)user;
    spmd_tensor partial, total;
    SPMD_TRY(spmd_pcast_partial(ctx, &in[0], "x", &partial));
    SPMD_TRY(fn(ctx, &partial, &in[1], &out[0]));
    SPMD_TRY(spmd_psum(ctx, &out[0], "x", &out[0]));
    SPMD_TRY(spmd_psum(ctx, &partial, "x", &total));
    return fn(ctx, &total, &in[1], &out[1]);
}

static spmd_value inputs[2]; /* of a test's own process */

static void make_inputs(void)
{
    inputs[0] = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(12, 6), 1);
    inputs[1] = spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(4, 6), 2);
}

static void free_inputs(void)
{
    spmd_values_free(inputs, 2);
}

static body_fn *const linear[] = {neg_body, scale_body, add_body,  sub_body,   mul_body,
                                  div_body, cast_body,  move_body, reduce_body};

START_TEST(linear_ops_commute_with_the_sum)
{
    spmd_value y[2] = {{0}};
    ck_spmd_ok(spmd_test_run("x=3", both_ways, (void *)&linear[_i], 2, inputs, 2, y));
    ck_assert_int_gt(spmd_value_count(&y[0]), 0);
    ck_assert_double_lt(spmd_value_difference(&y[0], &y[1]), 1e-6);
    spmd_values_free(y, 2);
}
END_TEST

static const struct {
    body_fn *fn;
    const char *op;
} refused[] = {
    {exp_body, "exp"}, {mixed_add_body, "add"},   {square_by_mul_body, "mul"}, {divide_by_body, "div"},
    {max_body, "max"}, {maximum_body, "maximum"}, {where_body, "where"},       {truncate_body, "cast"},
};

START_TEST(other_ops_refuse_partial_sums)
{
    spmd_value y[2] = {{0}};
    ck_spmd_fails(spmd_test_run("x=3", both_ways, (void *)&refused[_i].fn, 2, inputs, 2, y), SPMD_EINVAL,
                  refused[_i].op);
    ck_assert_ptr_nonnull(strstr(spmd_last_error(), "spmd_psum it first"));
}
END_TEST

SPMD_TEST_MAIN("partial", tcase_add_checked_fixture(tc, make_inputs, free_inputs);
               tcase_add_loop_test(tc, linear_ops_commute_with_the_sum, 0, (int)(sizeof linear / sizeof linear[0]));
               tcase_add_loop_test(tc, other_ops_refuse_partial_sums, 0, (int)(sizeof refused / sizeof refused[0]));)
