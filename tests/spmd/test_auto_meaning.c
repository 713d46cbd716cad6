/* Automatic mode: what collectives and constraints mean there, custom kernels, an embedding, gradients of gradients. */
#include "auto_run.h"

static spmd_value numbers(int64_t n, const char *spec)
{
    return spmd_value_exact(SPMD_F32, spec, SPMD_SHAPE(n), 3);
}

/* --- what collectives and constraints mean --- */

/* Everything that returns its operand, and settle; out: the operand twice over. */
static spmd_status identities(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor t, weight;
    SPMD_TRY(spmd_pmean(ctx, in, "x", &t));
    SPMD_TRY(spmd_pmax(ctx, &t, "x", &t));
    SPMD_TRY(spmd_pmin(ctx, &t, "x", &t));
    SPMD_TRY(spmd_pcast(ctx, &t, "x", &t));
    SPMD_TRY(spmd_settle(ctx, &t, "x", &t));
    SPMD_TRY(spmd_full(ctx, 4, SPMD_F32, SPMD_SCALAR, &weight));
    SPMD_TRY(spmd_pmean_weighted(ctx, &t, 1, &weight, "x", &t));
    SPMD_TRY(spmd_constrain(ctx, &t, SPMD_REPLICATED, &t));
    SPMD_TRY(spmd_mean_grads(ctx, in, &t, 1, "x"));
    return spmd_add(ctx, &t, in, out);
}

START_TEST(means_are_identities)
{
    spmd_value in = numbers(8, "x");
    auto_run r = {.axes = "x=4", .fn = identities, .nin = 1, .nout = 1, .in = &in};
    r.out_specs = (const char *const[]){"x"};
    ck_spmd_ok(auto_run_go(&r));
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(spmd_value_at(&r.out[0], i), 2 * spmd_value_at(&in, i));
    spmd_values_free(r.out, 1);
    spmd_value_free(&in);
}
END_TEST

/* In explicit mode: settle is psum, constrain nothing. */
static spmd_status settle_and_constrain(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor t;
    SPMD_TRY(spmd_constrain(ctx, in, SPMD_REPLICATED, &t));
    SPMD_CHECK(t.id == in->id, SPMD_EUSER, "constrain is no identity in explicit mode");
    return spmd_settle(ctx, &t, "x", out);
}

START_TEST(settle_is_psum_in_explicit_mode)
{
    spmd_value in = numbers(4, "x");
    auto_run r = {.axes = "x=2", .fn = settle_and_constrain, .explicitly = true, .nin = 1, .nout = 1, .in = &in};
    r.out_specs = (const char *const[]){""};
    ck_spmd_ok(auto_run_go(&r));
    for (int i = 0; i < 2; i++)
        ck_assert_double_eq(spmd_value_at(&r.out[0], i), spmd_value_at(&in, i) + spmd_value_at(&in, i + 2));
    spmd_values_free(r.out, 1);
    spmd_value_free(&in);
}
END_TEST

/* --- custom kernels: whole inputs --- */

static spmd_status reverse_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    out->dtype = in->dtype;
    out->rank = in->rank;
    out->shape[0] = in->shape[0];
    return SPMD_OK;
}

static spmd_status reverse_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    for (int64_t i = 0; i < in->shape[0]; i++)
        ((float *)out->data)[i] = ((const float *)in->data)[in->shape[0] - 1 - i];
    return SPMD_OK;
}

static spmd_status reverse_with(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_custom(ctx, user, in, 1, out, 1);
}

START_TEST(custom_kernels_get_whole_inputs)
{
    spmd_value in = numbers(8, "x");
    spmd_custom_op op = {.name = "reverse", .shape = reverse_shape, .host = reverse_host};
    auto_run r = {.axes = "x=4", .fn = reverse_with, .user = &op, .nin = 1, .nout = 1, .in = &in};
    r.out_specs = (const char *const[]){"x"};
    ck_spmd_ok(auto_run_go(&r));
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(spmd_value_at(&r.out[0], i), spmd_value_at(&in, 7 - i));
    spmd_values_free(r.out, 1);
    op.varies = "x";
    ck_spmd_fails(auto_run_go(&r), SPMD_EAXIS, "differs between shards");
    spmd_value_free(&in);
}
END_TEST

/* --- embedding, its table cut over the vocabulary --- */

typedef struct words {
    const spmd_tensor *ids;
    spmd_tensor rows;
} words;

static spmd_status sum_of_rows(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    words *w = user;
    SPMD_TRY(spmd_embedding(ctx, p, w->ids, &w->rows));
    return spmd_sum(ctx, &w->rows, NULL, 0, false, loss);
}

static spmd_status embed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    words w = {.ids = &in[1]};
    spmd_tensor loss;
    SPMD_TRY(spmd_value_and_grad(ctx, sum_of_rows, &w, in, 1, &loss, &out[1]));
    out[0] = w.rows;
    return SPMD_OK;
}

START_TEST(an_embedding_counts_every_row_once)
{
    const float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int32_t ids[3] = {3, 0, 3};
    const double rows[6] = {7, 8, 1, 2, 7, 8}, grads[8] = {1, 1, 0, 0, 0, 0, 2, 2};
    spmd_value in[2] = {spmd_value_f32("x", SPMD_SHAPE(4, 2), table), spmd_value_i32("", SPMD_SHAPE(3), ids)};
    auto_run r = {.axes = "x=2", .fn = embed, .nin = 2, .nout = 2, .in = in};
    r.out_specs = (const char *const[]){"", "x"};
    ck_spmd_ok(auto_run_go(&r));
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(spmd_value_at(&r.out[0], i), rows[i]);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(spmd_value_at(&r.out[1], i), grads[i]);
    spmd_values_free(r.out, 2);
    spmd_values_free(in, 2);
}
END_TEST

/* --- a gradient of a gradient: L = (sum x)^3 / 6, then M = sum of dL/dx = n s^2 / 2, dM/dx = n s --- */

static spmd_status cube(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    spmd_tensor s;
    SPMD_TRY(spmd_sum(ctx, p, NULL, 0, false, &s));
    SPMD_TRY(spmd_square(ctx, &s, loss));
    SPMD_TRY(spmd_mul(ctx, loss, &s, loss));
    return spmd_scale(ctx, loss, 1.0 / 6, loss);
}

static spmd_status sum_of_gradient(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    spmd_tensor inner, g;
    SPMD_TRY(spmd_value_and_grad(ctx, cube, user, p, n, &inner, &g));
    SPMD_TRY(spmd_constrain(ctx, &g, SPMD_REPLICATED, &g));
    return spmd_sum(ctx, &g, NULL, 0, false, loss);
}

static spmd_status second_order(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_value_and_grad(ctx, sum_of_gradient, user, in, 1, &out[0], &out[1]);
}

START_TEST(gradients_nest)
{
    const float x[4] = {1, 2, -1, 3};
    spmd_value in = spmd_value_f32("x", SPMD_SHAPE(4), x);
    auto_run r = {.axes = "x=2", .fn = second_order, .nin = 1, .nout = 2, .in = &in};
    r.out_specs = (const char *const[]){"", "x"};
    for (int jit = 0; jit < 2; jit++) {
        r.jit = jit;
        ck_spmd_ok(auto_run_go(&r));
        ck_assert_double_eq_tol(spmd_value_at(&r.out[0], 0), 4 * 25 / 2.0, 1e-4);
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq_tol(spmd_value_at(&r.out[1], i), 4 * 5, 1e-4);
        spmd_values_free(r.out, 2);
    }
    spmd_value_free(&in);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, meaning", tcase_add_test(tc, means_are_identities);
               tcase_add_test(tc, settle_is_psum_in_explicit_mode); tcase_add_test(tc, custom_kernels_get_whole_inputs);
               tcase_add_test(tc, an_embedding_counts_every_row_once); tcase_add_test(tc, gradients_nest);)
