/* adamw: the formula in double over several steps, Optax's numbers, lists of mixed states, aliases, refusals. */
#include "tests/harness/golden.h"

typedef struct step_case {
    spmd_adamw_opts opts;
    int n, steps;
    double rate, first_count;
} step_case;

/* Inputs: n params, then steps x n gradients. Outputs: n params, n mu, n nu; they alias their inputs. */
static spmd_status train(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const step_case *c = user;
    int n = c->n;
    spmd_tensor *params = out, *mu = out + n, *nu = mu + n, rate, count;
    for (int k = 0; k < n; k++) {
        params[k] = in[k];
        SPMD_TRY(spmd_scale(ctx, &in[k], 0, &mu[k]));
        nu[k] = mu[k];
    }
    SPMD_TRY(spmd_full(ctx, c->rate, SPMD_F32, SPMD_SCALAR, &rate));
    for (int s = 0; s < c->steps; s++) {
        SPMD_TRY(spmd_full(ctx, c->first_count + s, SPMD_F32, SPMD_SCALAR, &count));
        SPMD_TRY(spmd_adamw(ctx, &c->opts, n, params, in + n * (s + 1), mu, nu, &rate, &count, params, mu, nu));
    }
    return SPMD_OK;
}

typedef struct reference {
    double p, mu, nu;
} reference;

static reference reference_steps(const step_case *c, double p, const double *g)
{
    reference r = {p, 0, 0};
    for (int s = 0; s < c->steps; s++) {
        r.mu = c->opts.b1 * r.mu + (1 - c->opts.b1) * g[s];
        r.nu = c->opts.b2 * r.nu + (1 - c->opts.b2) * g[s] * g[s];
        double m = r.mu / (1 - pow(c->opts.b1, s + 1)), v = r.nu / (1 - pow(c->opts.b2, s + 1));
        r.p -= c->rate * (m / (sqrt(v) + c->opts.epsilon) + c->opts.weight_decay * r.p);
    }
    return r;
}

static const spmd_adamw_opts usual = {0.9, 0.999, 1e-8, 1e-4};

START_TEST(adamw_like_double)
{
    static const spmd_adamw_opts opts[] = {{0.9, 0.999, 1e-8, 1e-4}, {0.8, 0.95, 1e-3, 0.1}, {0, 0, 1e-6, 0}};
    static const int64_t shapes[3][2] = {{5, 7}, {1, 1}, {0, 3}};
    const step_case c = {.opts = opts[_i], .n = 3, .steps = 4, .rate = 0.05, .first_count = 1};
    spmd_value in[15], out[9] = {{0}};
    for (unsigned k = 0; k < 15; k++)
        in[k] = spmd_value_random(SPMD_F32, NULL, 2, shapes[k % 3], 1, k + 1);
    ck_spmd_ok(spmd_test_run("x=1", train, (void *)&c, 15, in, 9, out));
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < spmd_value_count(&in[k]); i++) {
            double g[4];
            for (int s = 0; s < 4; s++)
                g[s] = spmd_value_at(&in[3 * (s + 1) + k], i);
            reference want = reference_steps(&c, spmd_value_at(&in[k], i), g);
            ck_assert_double_eq_tol(spmd_value_at(&out[k], i), want.p, 1e-6);
            ck_assert_double_eq_tol(spmd_value_at(&out[3 + k], i), want.mu, 1e-6);
            ck_assert_double_eq_tol(spmd_value_at(&out[6 + k], i), want.nu, 1e-6);
        }
    spmd_values_free(in, 15);
    spmd_values_free(out, 9);
}
END_TEST

START_TEST(adamw_golden)
{
    const step_case c = {.opts = {0.9, 0.999, 1e-8, 0.1}, .n = 1, .steps = 6, .rate = 1e-2, .first_count = 1};
    spmd_value in[7], out[3] = {{0}}, grads = golden("optimizers", "grads", NULL);
    in[0] = golden("optimizers", "w", NULL);
    size_t bytes = (size_t)spmd_value_count(&in[0]) * sizeof(float);
    ck_assert_int_eq(spmd_value_count(&grads), 6 * spmd_value_count(&in[0]));
    for (int s = 0; s < 6; s++) {
        in[1 + s] = spmd_value_zeros(SPMD_F32, NULL, in[0].rank, in[0].shape);
        memcpy(in[1 + s].data, (const char *)grads.data + (size_t)s * bytes, bytes);
    }
    spmd_value want = golden("optimizers", "after.adamw", NULL);
    ck_spmd_ok(spmd_test_run("x=1", train, (void *)&c, 7, in, 3, out));
    ck_assert_double_lt(spmd_value_difference(&out[0], &want), 1e-6);
    spmd_values_free(in, 7);
    spmd_values_free(out, 3);
    spmd_values_free((spmd_value[]){grads, want}, 2);
}
END_TEST

/* One replicated and one sharded parameter in a list: the replicated one may still be claimed as replicated. */
START_TEST(adamw_keeps_each_state)
{
    const step_case c = {.opts = usual, .n = 2, .steps = 2, .rate = 0.05, .first_count = 1};
    static const char *const specs[] = {NULL, "x"};
    spmd_value in[6], sharded[6] = {{0}}, whole[6] = {{0}};
    for (unsigned k = 0; k < 6; k++) {
        in[k] = spmd_value_random(SPMD_F32, specs[k % 2], SPMD_SHAPE(6), 1, k + 1);
        sharded[k].spec = specs[k % 2];
    }
    ck_spmd_ok(spmd_test_run("x=2", train, (void *)&c, 6, in, 6, sharded));
    for (int k = 0; k < 6; k++)
        in[k].spec = NULL;
    ck_spmd_ok(spmd_test_run("x=1", train, (void *)&c, 6, in, 6, whole));
    for (int k = 0; k < 6; k++)
        ck_assert_int_eq(spmd_value_count_wrong(&sharded[k], &whole[k]), 0);
    spmd_values_free(in, 6);
    spmd_values_free(sharded, 6);
    spmd_values_free(whole, 6);
}
END_TEST

START_TEST(adamw_of_nothing)
{
    const step_case c = {.opts = usual, .n = 0, .steps = 1, .rate = 0.05, .first_count = 1};
    ck_spmd_ok(spmd_test_run("x=1", train, (void *)&c, 0, NULL, 0, NULL));
}
END_TEST

START_TEST(adamw_refuses)
{
    static const struct {
        spmd_dtype dtype;
        int64_t size;
        double b1, count;
        spmd_status status;
        const char *needle;
    } rows[] = {
        {SPMD_F32, 4, 0.9, 1, SPMD_ESHAPE, "grads[0] is f32[4], params[0] is f32[3]: expected equal shapes"},
        {SPMD_BF16, 3, 0.9, 1, SPMD_EDTYPE, "grads[0] is bf16[3]: expected f32"},
        {SPMD_F32, 3, 1, 1, SPMD_EINVAL, "b1 is 1, b2 is 0.999"},
        {SPMD_F32, 3, 0.9, 0, SPMD_EINVAL, "count is 0: expected the step's number, from 1"},
    };
    const step_case c = {.opts = {rows[_i].b1, 0.999, 1e-8, 0}, .n = 1, .steps = 1, .first_count = rows[_i].count};
    spmd_value in[2] = {spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(3)),
                        spmd_value_zeros(rows[_i].dtype, NULL, SPMD_SHAPE(rows[_i].size))},
               out[3] = {{0}};
    ck_spmd_fails(spmd_test_run("x=1", train, (void *)&c, 2, in, 3, out), rows[_i].status, rows[_i].needle);
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("adamw", tcase_add_loop_test(tc, adamw_like_double, 0, 3); tcase_add_test(tc, adamw_golden);
               tcase_add_test(tc, adamw_keeps_each_state); tcase_add_test(tc, adamw_of_nothing);
               tcase_add_loop_test(tc, adamw_refuses, 0, 4);)
