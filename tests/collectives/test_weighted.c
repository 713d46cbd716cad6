/* pmean_weighted: an uneven batch is one batch. 13 rows on two shards, 7 and 6: loss, gradient, and what pmean, the
 * mean of means, would give instead. */
#include "spmd/testing.h"

enum { ROWS = 13, CUT = 7, WIDTH = 3 }; /* the second shard has one row of padding */

typedef struct batch {
    const spmd_tensor *x, *mask, *rows; /* [7, 3], [7, 1] of 1 and 0, scalar */
    bool weighted;
} batch;

/* The shard's own mean of (x w)^2 over its rows, then the mean over shards. */
static spmd_status mean_loss(spmd_ctx *ctx, const spmd_tensor *w, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const batch *b = user;
    spmd_tensor y;
    SPMD_TRY(spmd_matmul(ctx, b->x, w, false, false, &y));
    SPMD_TRY(spmd_square(ctx, &y, &y));
    SPMD_TRY(spmd_mul(ctx, &y, b->mask, &y));
    SPMD_TRY(spmd_sum(ctx, &y, NULL, 0, false, &y));
    SPMD_TRY(spmd_div(ctx, &y, b->rows, &y));
    return b->weighted ? spmd_pmean_weighted(ctx, &y, 1, b->rows, "x", loss) : spmd_pmean(ctx, &y, "x", loss);
}

/* in: w [3, 1], x, mask, rows [1] a shard */
static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor rows;
    SPMD_TRY(spmd_reshape(ctx, &in[3], SPMD_SCALAR, &rows));
    batch b = {&in[1], &in[2], &rows, *(const bool *)user};
    return spmd_value_and_grad(ctx, mean_loss, &b, in, 1, &out[0], &out[1]);
}

/* Local gradients of the local means, averaged by hand. */
static spmd_status local_loss(spmd_ctx *ctx, const spmd_tensor *w, int n, void *user, spmd_tensor *loss)
{
    batch b = *(const batch *)user;
    spmd_tensor y;
    (void)n;
    SPMD_TRY(spmd_matmul(ctx, b.x, w, false, false, &y));
    SPMD_TRY(spmd_square(ctx, &y, &y));
    SPMD_TRY(spmd_mul(ctx, &y, b.mask, &y));
    SPMD_TRY(spmd_sum(ctx, &y, NULL, 0, false, &y));
    return spmd_div(ctx, &y, b.rows, loss);
}

static spmd_status step_by_hand(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor rows, list[2];
    SPMD_TRY(spmd_reshape(ctx, &in[3], SPMD_SCALAR, &rows));
    batch b = {&in[1], &in[2], &rows, true};
    SPMD_TRY(spmd_value_and_grad(ctx, local_loss, &b, in, 1, &list[0], &list[1]));
    return spmd_pmean_weighted(ctx, list, 2, &rows, "x", out);
}

static void make_inputs(int shards, spmd_value in[4])
{
    in[0] = spmd_value_f32(NULL, SPMD_SHAPE(WIDTH, 1), (float[]){0.5F, -1, 2});
    int64_t rows = shards == 1 ? ROWS : 2 * CUT;
    in[1] = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(rows, WIDTH));
    in[2] = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(rows, 1));
    in[3] = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(shards));
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(ROWS, WIDTH), 1, 4);
    for (int i = 0; i < ROWS * WIDTH; i++)
        spmd_value_set(&in[1], i, spmd_value_at(&x, i));
    for (int i = 0; i < ROWS; i++)
        spmd_value_set(&in[2], i, 1);
    if (shards == 2)
        for (int j = 0; j < WIDTH; j++) /* padding that would show */
            spmd_value_set(&in[1], ROWS * WIDTH + j, 1000);
    for (int k = 0; k < shards; k++)
        spmd_value_set(&in[3], k, shards == 1 ? ROWS : k ? ROWS - CUT : CUT);
    spmd_value_free(&x);
}

static void run(int shards, spmd_shard_fn *fn, bool weighted, spmd_value out[2])
{
    spmd_value in[4];
    make_inputs(shards, in);
    out[0] = out[1] = (spmd_value){.spec = NULL};
    ck_spmd_ok(spmd_test_run(shards == 1 ? "x=1" : "x=2", fn, &weighted, 4, in, 2, out));
    spmd_values_free(in, 4);
}

START_TEST(uneven_batches_are_one_batch)
{
    spmd_value one[2], two[2], hand[2], means[2];
    run(1, step, true, one);
    run(2, step, true, two);
    run(2, step_by_hand, true, hand);
    run(2, step, false, means);
    for (int k = 0; k < 2; k++) {
        ck_assert(spmd_value_difference(&two[k], &one[k]) < 1e-6);
        ck_assert(spmd_value_difference(&hand[k], &one[k]) < 1e-6);
        ck_assert(spmd_value_difference(&means[k], &one[k]) > 1e-3);
    }
    spmd_values_free(one, 2);
    spmd_values_free(two, 2);
    spmd_values_free(hand, 2);
    spmd_values_free(means, 2);
}
END_TEST

/* The first shard's value 1 counts `weight[0]` times, the second's 5 `weight[1]` times. */
static spmd_status two_values(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor weight;
    SPMD_TRY(spmd_reshape(ctx, &in[1], SPMD_SCALAR, &weight));
    return spmd_pmean_weighted(ctx, in, 1, &weight, "x", out);
}

START_TEST(dtypes_and_weights)
{
    static const struct {
        spmd_dtype dtype, weight, out;
        double weights[2], want;
    } cases[] = {
        {SPMD_F32, SPMD_F32, SPMD_F32, {1, 3}, 4},
        {SPMD_F32, SPMD_I32, SPMD_F32, {3, 1}, 2},
        {SPMD_BF16, SPMD_I32, SPMD_BF16, {253, 259}, 3.03125},
        {SPMD_I32, SPMD_I64, SPMD_F32, {1, 1}, 3},
        {SPMD_F32, SPMD_F32, SPMD_F32, {0, 2}, 5},
        {SPMD_F32, SPMD_F32, SPMD_F32, {0, 0}, NAN},
        {SPMD_F32, SPMD_BF16, SPMD_F32, {0.25, 0.75}, 4},
    };
    spmd_value in[] = {spmd_value_zeros(cases[_i].dtype, "x", SPMD_SHAPE(2)),
                       spmd_value_zeros(cases[_i].weight, "x", SPMD_SHAPE(2))};
    spmd_value out = {.spec = NULL};
    for (int k = 0; k < 2; k++) {
        spmd_value_set(&in[0], k, k ? 5 : 1);
        spmd_value_set(&in[1], k, cases[_i].weights[k]);
    }
    ck_spmd_ok(spmd_test_run("x=2", two_values, NULL, 2, in, 1, &out));
    ck_assert_int_eq(out.dtype, cases[_i].out);
    ck_assert_msg(spmd_value_at(&out, 0) == cases[_i].want || (isnan(cases[_i].want) && isnan(spmd_value_at(&out, 0))),
                  "%g", spmd_value_at(&out, 0));
    spmd_values_free(in, 2);
    spmd_value_free(&out);
}
END_TEST

static spmd_status no_scalar(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_pmean_weighted(ctx, in, 1, &in[0], "x", out);
}

START_TEST(a_weight_is_a_scalar)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(2, 4), 1), y = {.spec = NULL};
    ck_spmd_fails(spmd_test_run("x=2", no_scalar, NULL, 1, &x, 1, &y), SPMD_ESHAPE, "the weight is f32[1,4]");
    spmd_value_free(&x);
}
END_TEST

SPMD_TEST_MAIN("weighted", tcase_add_test(tc, uneven_batches_are_one_batch);
               tcase_add_loop_test(tc, dtypes_and_weights, 0, 7); tcase_add_test(tc, a_weight_is_a_scalar);)
