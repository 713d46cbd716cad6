/* residual_gelu, and what it leans on: gradients of a weight that is used many times, added up inside the products. */
#include "spmd/testing.h"

enum { ROWS = 5, WIDTH = 24, USES = 4 };
static const double keep = 0.9, mix = 0.1;

typedef spmd_status block_fn(spmd_ctx *ctx, const spmd_tensor *h, const spmd_tensor *in, spmd_tensor *out);

static spmd_status fused(spmd_ctx *ctx, const spmd_tensor *h, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_residual_gelu(ctx, h, &in[1], &in[2], keep, mix, out);
}

/* The same with ops of their own, which have their own tests. */
static spmd_status composed(spmd_ctx *ctx, const spmd_tensor *h, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_tensor block, kept;
    SPMD_TRY(spmd_matmul(ctx, h, &in[1], false, false, &block));
    SPMD_TRY(spmd_add(ctx, &block, &in[2], &block));
    SPMD_TRY(spmd_gelu(ctx, &block, &block));
    SPMD_TRY(spmd_scale(ctx, &block, mix, &block));
    SPMD_TRY(spmd_scale(ctx, h, keep, &kept));
    return spmd_add(ctx, &kept, &block, out);
}

static spmd_status repeated(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    block_fn *block = *(block_fn *const *)user;
    out[0] = in[0];
    for (int k = 0; k < USES; k++)
        SPMD_TRY(block(ctx, &out[0], in, &out[0]));
    return SPMD_OK;
}

static void operands(spmd_dtype dtype, spmd_value in[3])
{
    in[0] = spmd_value_random(dtype, NULL, SPMD_SHAPE(ROWS, WIDTH), 1, 1);
    in[1] = spmd_value_random(dtype, NULL, SPMD_SHAPE(WIDTH, WIDTH), 1, 2);
    in[2] = spmd_value_random(dtype, NULL, SPMD_SHAPE(WIDTH), 1, 3);
}

START_TEST(fused_like_composed)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    static const double tolerance[] = {3e-6, 3e-2, 4e-3};
    block_fn *fn[2] = {fused, composed};
    spmd_value in[3], out[2], grad[2][3];
    operands(dtypes[_i], in);
    spmd_value ct = spmd_value_random(dtypes[_i], NULL, SPMD_SHAPE(ROWS, WIDTH), 1, 9);
    for (int f = 0; f < 2; f++) {
        ck_spmd_ok(spmd_test_op(repeated, &fn[f], 3, in, &out[f]));
        ck_spmd_ok(spmd_test_vjp(repeated, &fn[f], 3, in, &ct, grad[f]));
    }
    ck_assert_double_le(spmd_value_difference(&out[0], &out[1]), tolerance[_i]);
    for (int k = 0; k < 3; k++) {
        double difference = spmd_value_difference(&grad[0][k], &grad[1][k]);
        ck_assert_msg(difference <= tolerance[_i], "gradient %d: %g", k, difference);
    }
    spmd_values_free(in, 3);
    spmd_values_free((spmd_value[]){ct, out[0], out[1]}, 3);
    spmd_values_free(grad[0], 3);
    spmd_values_free(grad[1], 3);
}
END_TEST

START_TEST(gradient)
{
    block_fn *fn = fused;
    spmd_value in[3];
    operands(SPMD_F32, in);
    ck_assert_double_lt(spmd_test_check_grad(repeated, &fn, 3, in, 7), 1e-2);
    spmd_values_free(in, 3);
}
END_TEST

/* One tensor as both operands, after another use of it: its sum is handed to the product once, not twice. */
static spmd_status squared(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor left, right;
    bool transpose_a = *(const int *)user & 1, transpose_b = *(const int *)user & 2;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[0], transpose_a, transpose_b, &left));
    SPMD_TRY(spmd_matmul(ctx, &in[0], &left, transpose_b, transpose_a, &right));
    return spmd_add(ctx, &left, &right, out);
}

START_TEST(both_operands_are_one_tensor)
{
    spmd_value in = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(6, 6), 1, 4);
    double error = spmd_test_check_grad(squared, &_i, 1, &in, 5);
    ck_assert_msg(error < 1e-2, "transposes %d: %g", _i, error);
    spmd_value_free(&in);
}
END_TEST

/* Batches with a shared right operand, used twice. */
static spmd_status batched(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor h;
    bool transpose_a = *(const int *)user & 1, transpose_b = *(const int *)user & 2;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], transpose_a, transpose_b, &h));
    return spmd_matmul(ctx, &h, &in[1], transpose_a, transpose_b, out);
}

START_TEST(shared_by_a_batch)
{
    spmd_value in[2] = {spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(3, 4, 4), 1, 4),
                        spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(4, 4), 1, 5)};
    double error = spmd_test_check_grad(batched, &_i, 2, in, 5);
    ck_assert_msg(error < 1e-2, "transposes %d: %g", _i, error);
    spmd_values_free(in, 2);
}
END_TEST

/* 300 ones, which bf16 would stop counting at 256, from products in two forms; and one more, not from a product, before
 * or after the others are met. */
enum { ONES = 150 };

static spmd_status counted(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    bool cast = *(const int *)user & 1, last = *(const int *)user & 2;
    spmd_tensor one, bias, w = in[0], y;
    SPMD_TRY(spmd_full(ctx, 1, SPMD_BF16, SPMD_SHAPE(1, 1), &one));
    SPMD_TRY(spmd_full(ctx, 0, SPMD_BF16, SPMD_SHAPE(1), &bias));
    if (cast)
        SPMD_TRY(spmd_cast(ctx, &w, SPMD_BF16, &w));
    out[0] = one;
    if (!last)
        SPMD_TRY(spmd_add(ctx, &out[0], &w, &out[0]));
    for (int k = 0; k < ONES; k++) {
        SPMD_TRY(spmd_matmul(ctx, &one, &w, false, false, &y));
        SPMD_TRY(spmd_add(ctx, &out[0], &y, &out[0]));
        SPMD_TRY(spmd_linear(ctx, &one, &w, &bias, &y));
        SPMD_TRY(spmd_add(ctx, &out[0], &y, &out[0]));
    }
    return last ? spmd_add(ctx, &out[0], &w, &out[0]) : SPMD_OK;
}

START_TEST(sums_of_many_are_kept_in_f32)
{
    bool f32 = _i & 1; /* the parameter, cast to bf16; else it is bf16 itself, and its gradient rounded once */
    spmd_value in = spmd_value_zeros(f32 ? SPMD_F32 : SPMD_BF16, NULL, SPMD_SHAPE(1, 1)), grad;
    spmd_value ct = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(1, 1));
    spmd_value_set(&ct, 0, 1);
    ck_spmd_ok(spmd_test_vjp(counted, &_i, 1, &in, &ct, &grad));
    ck_assert_double_eq(spmd_value_at(&grad, 0), f32 ? 2 * ONES + 1 : 2 * ONES); /* 301 is no bf16: to even, 300 */
    spmd_values_free((spmd_value[]){in, ct, grad}, 3);
}
END_TEST

START_TEST(refuses)
{
    block_fn *fn = fused;
    spmd_value in[3] = {spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(2, 3)),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(3, 5)),
                        spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(5))},
               out;
    ck_spmd_fails(spmd_test_op(repeated, &fn, 3, in, &out), SPMD_ESHAPE,
                  "residual_gelu: w is f32[3,5]: expected a square one");
    spmd_values_free(in, 3);
}
END_TEST

SPMD_TEST_MAIN("residual_gelu", tcase_add_loop_test(tc, fused_like_composed, 0, 3); tcase_add_test(tc, gradient);
               tcase_add_loop_test(tc, both_operands_are_one_tensor, 0, 4);
               tcase_add_loop_test(tc, shared_by_a_batch, 0, 4);
               tcase_add_loop_test(tc, sums_of_many_are_kept_in_f32, 0, 4); tcase_add_test(tc, refuses);)
