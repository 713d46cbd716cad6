/* The shared-block MLP against JAX and Optax, on 1, 2 and 4 devices: logits, loss, gradients and their norm; then five
 * AdamW steps through the trainer. */
#include "models/train.h"
#include "tests/harness/golden.h"

enum { PARAMS = 6, STEPS = 5, BATCH = 32 };
static const char *const meshes[] = {"data=1", "data=2", "data=4"};
static const char *const names[PARAMS] = {"w_in", "b_in", "w_block", "b_block", "w_out", "b_out"};

static spmd_train_options options_of_golden(void)
{
    spmd_train_options options;
    ck_spmd_ok(spmd_train_defaults("shared-mlp", &options));
    options.config.width = 64;
    options.config.repeats = 6;
    options.batch = BATCH;
    options.optim = spmd_optim_adamw(0.9, 0.999, 1e-8, 1e-4);
    options.schedule = spmd_schedule_constant(3e-4);
    return options;
}

static spmd_value named(const char *kind, int k)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", kind, names[k]);
    return golden("shared_mlp", key, NULL);
}

/* in: parameters, x, y; out: gradients, logits, loss, norm. */
static spmd_status forward_backward(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const spmd_train_options *options = user;
    spmd_model_batch batch = {
        .model = options->model, .config = &options->config, .x = &in[PARAMS], .y = &in[PARAMS + 1]};
    spmd_tensor mean[PARAMS + 1];
    SPMD_TRY(spmd_value_and_grad(ctx, spmd_model_loss, &batch, in, PARAMS, &mean[PARAMS], mean));
    SPMD_TRY(spmd_pmean_list(ctx, mean, PARAMS + 1, "data", mean));
    memcpy(out, mean, PARAMS * sizeof *mean);
    out[PARAMS] = batch.logits;
    out[PARAMS + 1] = mean[PARAMS];
    return spmd_global_norm(ctx, mean, PARAMS, &out[PARAMS + 2]);
}

static void expect_close(const spmd_value *got, const spmd_value *want, double tolerance, const char *what)
{
    double difference = spmd_value_difference(got, want);
    ck_assert_msg(difference <= tolerance, "%s: differs by %g, may by %g", what, difference, tolerance);
}

START_TEST(gradients_like_jax)
{
    spmd_train_options options = options_of_golden();
    spmd_value in[PARAMS + 2], out[PARAMS + 3] = {{0}};
    for (int k = 0; k < PARAMS; k++)
        in[k] = named("param", k);
    in[PARAMS] = golden("shared_mlp", "x", "data,-");
    in[PARAMS + 1] = golden("shared_mlp", "y", "data");
    out[PARAMS].spec = "data,-";
    ck_spmd_ok(spmd_test_run(meshes[_i], forward_backward, &options, PARAMS + 2, in, PARAMS + 3, out));
    for (int k = 0; k < PARAMS; k++) {
        spmd_value want = named("grad", k);
        expect_close(&out[k], &want, 1e-5, names[k]);
        spmd_value_free(&want);
    }
    const char *const others[] = {"logits", "loss", "grad_norm"};
    for (int k = 0; k < 3; k++) {
        spmd_value want = golden("shared_mlp", others[k], NULL);
        want.rank = out[PARAMS + k].rank; /* the file keeps scalars as [1] */
        expect_close(&out[PARAMS + k], &want, 1e-5, others[k]);
        spmd_value_free(&want);
    }
    spmd_values_free(in, PARAMS + 2);
    spmd_values_free(out, PARAMS + 3);
}
END_TEST

START_TEST(five_steps_like_optax)
{
    spmd_train_options options = options_of_golden();
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    ck_spmd_ok(spmd_mesh_create(meshes[_i], spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    for (int k = 0; k < PARAMS; k++) {
        const char *name;
        spmd_array *array = spmd_trainer_array(trainer, k, &name);
        spmd_value start = named("param", k);
        ck_assert_str_eq(name, names[k]);
        ck_assert_int_eq(spmd_array_count(array), spmd_value_count(&start));
        ck_spmd_ok(spmd_shard_update(array, start.data));
        spmd_value_free(&start);
    }
    spmd_value x = golden("shared_mlp", "x", NULL), y = golden("shared_mlp", "y", NULL);
    spmd_value losses = golden("shared_mlp", "losses", NULL), norms = golden("shared_mlp", "grad_norms", NULL);
    for (int step = 0; step < STEPS; step++) {
        spmd_metrics metrics;
        ck_spmd_ok(spmd_trainer_step(trainer, x.data, y.data, &metrics));
        ck_assert_int_eq(metrics.step, step + 1);
        ck_assert_double_eq_tol(metrics.loss / spmd_value_at(&losses, step), 1, 1e-5);
        ck_assert_double_eq_tol(metrics.grad_norm / spmd_value_at(&norms, step), 1, 1e-4);
    }
    for (int k = 0; k < PARAMS; k++) {
        spmd_value want = named("after", k), got = spmd_value_zeros(SPMD_F32, NULL, want.rank, want.shape);
        ck_spmd_ok(spmd_unshard(spmd_trainer_array(trainer, k, NULL), got.data));
        expect_close(&got, &want, 1e-4, names[k]);
        spmd_values_free((spmd_value[]){want, got}, 2);
    }
    spmd_values_free((spmd_value[]){x, y, losses, norms}, 4);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("shared_mlp", tcase_add_loop_test(tc, gradients_like_jax, 0, 3);
               tcase_add_loop_test(tc, five_steps_like_optax, 0, 3);)
