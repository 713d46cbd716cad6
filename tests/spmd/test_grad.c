/* value_and_grad itself: nesting, unused parameters, refusals, norms of mixed parameters, custom ops. */
#include "spmd/testing.h"

/* Nested: outer parameter w, inner gradient d/dv (v w x)^2 at v = w, squared. */
typedef struct nest {
    const spmd_tensor *x;
    int mean; /* 0: all local, 1: the inner gradient is pmean'd, 2: the inner loss is pmean'd */
} nest;

static spmd_status inner_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const nest *s = user;
    spmd_tensor t;
    SPMD_TRY(spmd_mul(ctx, s->x, p, &t));
    SPMD_TRY(spmd_mul(ctx, &t, &t, &t));
    SPMD_TRY(spmd_mean(ctx, &t, NULL, 0, false, loss));
    return s->mean == 2 ? spmd_pmean(ctx, loss, "data", loss) : SPMD_OK;
}

/* (d inner / dw)^2, with inner = w^2 mean(x^2): (2 w m)^2, whose gradient is 8 w m^2 */
static spmd_status outer_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const nest *s = user;
    spmd_tensor g;
    SPMD_TRY(spmd_grad(ctx, inner_loss, user, p, 1, &g));
    if (s->mean == 1)
        SPMD_TRY(spmd_pmean(ctx, &g, "data", &g));
    SPMD_TRY(spmd_mul(ctx, &g, &g, &g));
    return spmd_sum(ctx, &g, NULL, 0, false, loss);
}

static spmd_status nested_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    nest s = {&in[1], *(int *)user};
    spmd_tensor loss;
    SPMD_TRY(spmd_value_and_grad(ctx, outer_loss, &s, in, 1, &loss, out));
    return s.mean == 0 ? spmd_pmean(ctx, out, "data", out) : SPMD_OK;
}

START_TEST(gradients_nest)
{
    const float w = 3, x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    double total = 0, want = 0;
    for (int d = 0; d < 4; d++) { /* shard d holds x[2d], x[2d+1] */
        double m = (x[2 * d] * x[2 * d] + x[2 * d + 1] * x[2 * d + 1]) / 2.0;
        want += 8 * w * m * m / 4;
        total += m / 4;
    }
    want = _i == 0 ? want : 8 * w * total * total;
    spmd_value in[2] = {spmd_value_f32(NULL, SPMD_SHAPE(1), &w), spmd_value_f32("data", SPMD_SHAPE(8), x)},
               out = {.spec = ""};
    ck_spmd_ok(spmd_test_run("data=4", nested_step, &_i, 2, in, 1, &out));
    ck_assert_msg(fabs(spmd_value_at(&out, 0) - want) < 1e-3 * want, "%g, not %g", spmd_value_at(&out, 0), want);
    spmd_values_free(in, 2);
    spmd_value_free(&out);
}
END_TEST

static spmd_status ignores_second(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor t;
    SPMD_TRY(spmd_mul(ctx, user, &p[0], &t));
    return spmd_sum(ctx, &t, NULL, 0, false, loss);
}

static spmd_status unused_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor loss;
    SPMD_TRY(spmd_value_and_grad(ctx, ignores_second, (void *)&in[2], in, 2, &loss, out));
    SPMD_CHECK(out[0].vary == out[1].vary, SPMD_EUSER, "the state depends on use: %d, %d", out[0].vary, out[1].vary);
    return spmd_pmean_list(ctx, out, 2, "data", out);
}

START_TEST(an_unused_parameter_gets_zeros)
{
    spmd_value in[3] = {spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(1), 1),
                        spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(2, 3), 2),
                        spmd_value_exact(SPMD_F32, "data", SPMD_SHAPE(4), 3)};
    spmd_value out[2] = {{.spec = ""}, {.spec = ""}};
    ck_spmd_ok(spmd_test_run("data=2", unused_step, NULL, 3, in, 2, out));
    ck_assert_int_eq(spmd_value_count(&out[1]), 6);
    for (int i = 0; i < 6; i++)
        ck_assert(spmd_value_at(&out[1], i) == 0);
    spmd_values_free(in, 3);
    spmd_values_free(out, 2);
}
END_TEST

/* Losses and parameters that are refused. */
enum refusal { NOT_SCALAR, PARTIAL_LOSS, INTEGER_PARAM, TWICE, NO_GRADIENT, NO_LOSS, CUSTOM_NO_GRADIENT, REFUSALS };

static const char *const needles[REFUSALS] = {[NOT_SCALAR] = "expected a floating scalar",
                                              [PARTIAL_LOSS] = "a partial sum: spmd_psum it first",
                                              [INTEGER_PARAM] = "i32[2]",
                                              [TWICE] = "0 and 1 are the same tensor",
                                              [NO_GRADIENT] = "pmax has no gradient",
                                              [NO_LOSS] = "set no loss",
                                              [CUSTOM_NO_GRADIENT] = "custom op 'mystery' has no gradient"};

static spmd_status mystery_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    out->dtype = in->dtype;
    out->rank = in->rank;
    memcpy(out->shape, in->shape, sizeof out->shape);
    return SPMD_OK;
}

static spmd_status mystery_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    memcpy(out->data, in->data, (size_t)spmd_view_count(in) * sizeof(float));
    return SPMD_OK;
}

static spmd_status refused_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    static const spmd_custom_op mystery = {.name = "mystery", .shape = mystery_shape, .host = mystery_host};
    (void)n;
    spmd_tensor t = p[0];
    switch (*(enum refusal *)user) {
    case NOT_SCALAR:
        return spmd_neg(ctx, &t, loss);
    case PARTIAL_LOSS:
        SPMD_TRY(spmd_pcast(ctx, &t, "data", &t));
        SPMD_TRY(spmd_pcast_partial(ctx, &t, "data", &t));
        break;
    case NO_GRADIENT:
        SPMD_TRY(spmd_pmax(ctx, &t, "data", &t));
        break;
    case CUSTOM_NO_GRADIENT:
        SPMD_TRY(spmd_custom(ctx, &mystery, &t, 1, &t, 1));
        break;
    case NO_LOSS:
        return SPMD_OK;
    default:
        break;
    }
    return spmd_sum(ctx, &t, NULL, 0, false, loss);
}

static spmd_status refused_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor loss, p[2] = {in[0], in[0]};
    int n = *(enum refusal *)user == TWICE ? 2 : 1;
    return spmd_value_and_grad(ctx, refused_loss, user, p, n, &loss, out);
}

START_TEST(refused)
{
    enum refusal which = (enum refusal)_i;
    spmd_value in = spmd_value_exact(which == INTEGER_PARAM ? SPMD_I32 : SPMD_F32, "", SPMD_SHAPE(2), 1),
               out = {.spec = ""};
    ck_spmd_fails(spmd_test_run("data=2", refused_step, &which, 1, &in, 1, &out), SPMD_EGRAD, needles[_i]);
    spmd_value_free(&in);
}
END_TEST

static spmd_status norm_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_global_norm(ctx, in, 3, out);
}

START_TEST(the_norm_of_any_mix_is_the_norm_of_the_whole)
{
    static const char *const meshes[] = {"data=4,model=1", "data=2,model=2", "data=1,model=4"};
    spmd_value in[3] = {spmd_value_random(SPMD_F32, "", SPMD_SHAPE(3), 1, 1),
                        spmd_value_random(SPMD_F32, "data,-", SPMD_SHAPE(4, 3), 1, 2),
                        spmd_value_random(SPMD_F32, "model,data", SPMD_SHAPE(4, 8), 1, 3)};
    spmd_value out = {.spec = ""};
    double sum = 0;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < spmd_value_count(&in[k]); i++)
            sum += spmd_value_at(&in[k], i) * spmd_value_at(&in[k], i);
    ck_spmd_ok(spmd_test_run(meshes[_i], norm_step, NULL, 3, in, 1, &out));
    ck_assert_msg(fabs(spmd_value_at(&out, 0) - sqrt(sum)) < 1e-5 * sqrt(sum), "%g, not %g", spmd_value_at(&out, 0),
                  sqrt(sum));
    spmd_values_free(in, 3);
    spmd_value_free(&out);
}
END_TEST

/* A loss local over "data", over which one parameter is sharded and another is not. */
static spmd_status mixed_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    spmd_tensor t;
    SPMD_TRY(spmd_mul(ctx, &p[0], &p[1], &t));
    return spmd_sum(ctx, &t, NULL, 0, false, loss);
}

static spmd_status mixed_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor loss;
    SPMD_TRY(spmd_value_and_grad(ctx, mixed_loss, NULL, in, 2, &loss, out));
    return spmd_mean_grads(ctx, in, out, 2, "data");
}

START_TEST(mixed_parameters_are_warned_about_once)
{
    spmd_value in[2] = {spmd_value_exact(SPMD_F32, "data", SPMD_SHAPE(4), 1),
                        spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(2), 2)};
    spmd_value out[2] = {{.spec = "data"}, {.spec = ""}};
    ck_spmd_ok(spmd_test_run("data=2", mixed_step, NULL, 2, in, 2, out));
    const char *first = strstr(spmd_test_log(), "spmd_mean_grads");
    ck_assert_msg(first && !strstr(first + 1, "spmd_mean_grads"), "log: %s", spmd_test_log());
    ck_assert(spmd_value_at(&out[0], 0) == spmd_value_at(&in[1], 0) / 2); /* mean loss: half of each shard's */
    ck_assert(spmd_value_at(&out[1], 0) == (spmd_value_at(&in[0], 0) + spmd_value_at(&in[0], 2)) / 2);
    spmd_values_free(in, 2);
    spmd_values_free(out, 2);
}
END_TEST

SPMD_TEST_MAIN("grad", tcase_add_loop_test(tc, gradients_nest, 0, 3);
               tcase_add_test(tc, an_unused_parameter_gets_zeros); tcase_add_loop_test(tc, refused, 0, REFUSALS);
               tcase_add_loop_test(tc, the_norm_of_any_mix_is_the_norm_of_the_whole, 0, 3);
               tcase_add_test(tc, mixed_parameters_are_warned_about_once);)
