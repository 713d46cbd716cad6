/* Cases from public bug reports that concern specs, empty blocks and gradients across shards. */
#include "spmd/testing.h"

static spmd_status twice(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_scale(ctx, &in[0], 2, &out[0]));
    return user ? spmd_psum(ctx, &out[0], "x", &out[0]) : SPMD_OK;
}

/* An 8x8 array cut over x and y, doubled, returned as cut over y only: refused, until the sum over x is taken. */
START_TEST(an_axis_left_out_of_the_spec)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x,y", SPMD_SHAPE(8, 8), 1), out = {.spec = "-,y"};
    ck_spmd_fails(spmd_test_run("x=2,y=2", twice, NULL, 1, &in, 1, &out), SPMD_EREPLICATION, "over 'x'");
    int psum = 1;
    ck_spmd_ok(spmd_test_run("x=2,y=2", twice, &psum, 1, &in, 1, &out));
    ck_assert(out.shape[0] == 4 && out.shape[1] == 8);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 8; c++)
            ck_assert(spmd_value_at(&out, r * 8 + c) ==
                      2 * (spmd_value_at(&in, r * 8 + c) + spmd_value_at(&in, (r + 4) * 8 + c)));
    spmd_value_free(&in);
    spmd_value_free(&out);
}
END_TEST

static spmd_status scalar(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_sum(ctx, &in[0], NULL, 0, false, &out[0]);
}

START_TEST(a_scalar_output_has_no_dimension_to_cut)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4), 1), out = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2", scalar, NULL, 1, &in, 1, &out), SPMD_ESPEC, "SPMD_REPLICATED for a scalar");
    spmd_value_free(&in);
}
END_TEST

static spmd_status empty_product(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, false, &out[0]));
    return spmd_psum(ctx, &out[0], "x", &out[0]);
}

START_TEST(a_contraction_over_nothing_is_zero)
{
    spmd_value in[2] = {spmd_value_zeros(SPMD_F32, "-,x", SPMD_SHAPE(4, 0)),
                        spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(0, 5))};
    spmd_value out = {.spec = ""};
    ck_spmd_ok(spmd_test_run("x=4", empty_product, NULL, 2, in, 1, &out));
    ck_assert(out.shape[0] == 4 && out.shape[1] == 5);
    for (int i = 0; i < 20; i++)
        ck_assert(spmd_value_at(&out, i) == 0);
    spmd_values_free(in, 2);
    spmd_value_free(&out);
}
END_TEST

/* Tensor parallel by hand: y = psum(relu(x A) B), A cut by columns, B by rows. A doubled gradient is the known bug. */
static spmd_status parallel_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    spmd_tensor h;
    SPMD_TRY(spmd_matmul(ctx, &p[0], &p[1], false, false, &h));
    SPMD_TRY(spmd_relu(ctx, &h, &h));
    SPMD_TRY(spmd_matmul(ctx, &h, &p[2], false, false, &h));
    SPMD_TRY(spmd_psum(ctx, &h, "model", &h));
    return spmd_sum(ctx, &h, NULL, 0, false, loss);
}

static spmd_status parallel_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_value_and_grad(ctx, parallel_loss, NULL, in, 3, &out[3], out);
}

START_TEST(tensor_parallel_gradients_are_complete_and_not_doubled)
{
    const float x[] = {1, 2}, a[] = {1, -1, 0, 1}, b[] = {1, 2};
    const double want[4][4] = {{-1, 2}, {1, 2, 2, 4}, {1, 1}, {3}}; /* dx, dA, dB, y */
    spmd_value in[3] = {spmd_value_f32("", SPMD_SHAPE(1, 2), x), spmd_value_f32("-,model", SPMD_SHAPE(2, 2), a),
                        spmd_value_f32("model", SPMD_SHAPE(2, 1), b)};
    spmd_value out[4] = {{.spec = ""}, {.spec = "-,model"}, {.spec = "model"}, {.spec = ""}};
    ck_spmd_ok(spmd_test_run("model=2", parallel_step, NULL, 3, in, 4, out));
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < spmd_value_count(&out[k]); i++)
            ck_assert_msg(spmd_value_at(&out[k], i) == want[k][i], "result %d[%d] is %g, not %g", k, (int)i,
                          spmd_value_at(&out[k], i), want[k][i]);
    spmd_values_free(in, 3);
    spmd_values_free(out, 4);
}
END_TEST

/* Three microbatches, a weight cut over "shard" and gathered for use, a bias replicated, the batch cut over both axes.
 */
enum { MICRO = 3 };

typedef struct micro {
    const spmd_tensor *x;
} micro;

static spmd_status fsdp_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor w, h;
    SPMD_TRY(spmd_all_gather(ctx, &p[0], "shard", (&(spmd_gather_opts){.tiled = true}), &w));
    SPMD_TRY(spmd_linear(ctx, ((micro *)user)->x, &w, &p[1], &h));
    SPMD_TRY(spmd_square(ctx, &h, &h));
    return spmd_mean(ctx, &h, NULL, 0, false, loss);
}

static spmd_status fsdp_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    for (int m = 0; m < MICRO; m++) {
        spmd_tensor g[2], loss;
        micro batch = {&in[2 + m]};
        SPMD_TRY(spmd_value_and_grad(ctx, fsdp_loss, &batch, in, 2, &loss, g));
        for (int k = 0; k < 2; k++)
            if (m)
                SPMD_TRY(spmd_add(ctx, &out[k], &g[k], &out[k]));
            else
                out[k] = g[k];
    }
    return spmd_mean_grads(ctx, in, out, 2, "data,shard");
}

START_TEST(sharded_weights_with_accumulated_microbatches)
{
    static const char *const meshes[] = {"data=1,shard=1", "data=2,shard=2", "data=1,shard=4", "data=4,shard=1"};
    spmd_value in[2 + MICRO], out[4][2];
    in[0] = spmd_value_random(SPMD_F32, "shard", SPMD_SHAPE(8, 6), 1, 1);
    in[1] = spmd_value_random(SPMD_F32, "", SPMD_SHAPE(6), 1, 2);
    for (int m = 0; m < MICRO; m++)
        in[2 + m] = spmd_value_random(SPMD_F32, "(data,shard)", SPMD_SHAPE(8, 8), 1, 3 + (unsigned)m);
    for (int k = 0; k < 4; k++) {
        spmd_stats stats;
        out[k][0].spec = "shard";
        out[k][1].spec = "";
        ck_spmd_ok(
            spmd_test_run_job(meshes[k], &(spmd_job){.stats = &stats}, fsdp_step, NULL, 2 + MICRO, in, 2, out[k]));
        for (int p = 0; p < 2; p++)
            ck_assert_msg(spmd_value_difference(&out[k][p], &out[0][p]) < 1e-5, "%s: gradient %d", meshes[k], p);
        if (k == 3) /* nothing is gathered: one meeting for the whole step */
            ck_assert_int_eq(stats.collectives,
                             2); /* the weight varies formally over "shard": its own axes, its own meeting */
    }
    spmd_values_free(in, 2 + MICRO);
    for (int k = 0; k < 4; k++)
        spmd_values_free(out[k], 2);
}
END_TEST

/* A custom backward that adds a psum of its own: N times too big, and said so. */
static spmd_status same_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    out->dtype = in->dtype;
    out->rank = in->rank;
    memcpy(out->shape, in->shape, sizeof out->shape);
    return SPMD_OK;
}

static spmd_status copy(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    memcpy(out->data, in->data, (size_t)spmd_view_count(in) * sizeof(float));
    return SPMD_OK;
}

static spmd_status defensive(spmd_ctx *ctx, const spmd_tensor *in, int nin, const spmd_tensor *out, int nout,
                             const spmd_tensor *ct, const bool *need, spmd_tensor *gin, void *user)
{
    (void)in, (void)nin, (void)out, (void)nout, (void)need, (void)user;
    return spmd_psum(ctx, &ct[0], "data", &gin[0]);
}

static spmd_status defensive_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    static const spmd_custom_op op = {.name = "copy", .shape = same_shape, .host = copy, .grad = defensive};
    (void)n, (void)user;
    spmd_tensor t;
    SPMD_TRY(spmd_custom(ctx, &op, &p[0], 1, &t, 1));
    SPMD_TRY(spmd_custom(ctx, &op, &t, 1, &t, 1));
    return spmd_sum(ctx, &t, NULL, 0, false, loss);
}

static spmd_status defensive_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor loss;
    return spmd_value_and_grad(ctx, defensive_loss, NULL, in, 1, &loss, out);
}

START_TEST(a_defensive_psum_in_a_backward_is_warned_about)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(3), 1), out = {.spec = ""};
    ck_spmd_ok(spmd_test_run("data=4", defensive_step, NULL, 1, &in, 1, &out));
    ck_assert(spmd_value_at(&out, 0) == 16);
    ck_assert_msg(strstr(spmd_test_log(), "already the same on every shard"), "log: %s", spmd_test_log());
    spmd_value_free(&in);
    spmd_value_free(&out);
}
END_TEST

SPMD_TEST_MAIN("cases", tcase_add_test(tc, an_axis_left_out_of_the_spec);
               tcase_add_test(tc, a_scalar_output_has_no_dimension_to_cut);
               tcase_add_test(tc, a_contraction_over_nothing_is_zero);
               tcase_add_test(tc, tensor_parallel_gradients_are_complete_and_not_doubled);
               tcase_add_test(tc, sharded_weights_with_accumulated_microbatches);
               tcase_add_test(tc, a_defensive_psum_in_a_backward_is_warned_about);)
