/* The training loop: the same losses on every number of devices, the same bits from run to run, a stop at NaN, clear
 * errors, evaluation of any number of examples. */
#include "models/train.h"
#include "spmd/testing.h"

enum { STEPS = 50, BATCH = 32, TRAIN = 640, TEST = 203 };

static spmd_dataset data; /* one process a test: made by the fixture, read by the test */

static void load(void)
{
    const spmd_dataset_options options = {.train_count = TRAIN, .test_count = TEST, .seed = 5};
    ck_spmd_ok(spmd_dataset_load("synthetic", &options, &data));
}

static void unload(void)
{
    spmd_dataset_free(&data);
}

static spmd_train_options small_options(const char *model)
{
    spmd_train_options options;
    ck_spmd_ok(spmd_train_defaults(model, &options));
    options.config.width = 32;
    if (options.config.repeats)
        options.config.repeats = 4;
    options.batch = BATCH;
    options.schedule = spmd_schedule_constant(1e-3);
    return options;
}

typedef struct run_of {
    double loss[STEPS];
    int count, stop_after;
    spmd_evaluation test;
    uint64_t fingerprint;
} run_of;

static bool keep_loss(void *user, const spmd_metrics *metrics)
{
    run_of *run = user;
    run->loss[run->count++] = metrics->loss;
    return run->count != run->stop_after;
}

static spmd_train_result train(const char *axes, const spmd_train_options *options, run_of *run)
{
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_result result;
    run->count = 0;
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, options, &trainer));
    ck_spmd_ok(spmd_trainer_run(trainer, &data.train, STEPS, keep_loss, run, &result));
    ck_spmd_ok(spmd_trainer_evaluate(trainer, &data.test, &run->test));
    ck_spmd_ok(spmd_trainer_fingerprint(trainer, &run->fingerprint));
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return result;
}

/* Each device makes a share, here of sizes that do not divide. */
START_TEST(parameters_start_as_spmd_model_init_says)
{
    const spmd_train_options options = small_options("mlp");
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    options.model->describe(&options.config, info);
    ck_spmd_ok(spmd_mesh_create(_i ? "data=2,model=3" : "data=1", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    for (int k = 0; k < options.model->params; k++) {
        size_t bytes = (size_t)spmd_param_count(&info[k]) * sizeof(float);
        float *got = malloc(bytes), *want = malloc(bytes);
        ck_spmd_ok(spmd_unshard(spmd_trainer_array(trainer, k, NULL), got));
        spmd_model_init(&info[k], options.seed, k, want);
        ck_assert_msg(memcmp(got, want, bytes) == 0, "%s differs", info[k].name);
        free(got);
        free(want);
    }
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(losses_do_not_depend_on_the_devices)
{
    static const char *const meshes[] = {"data=2", "data=4", "data=8", "data=2,model=2"};
    static const char *const models[] = {"mlp", "shared-mlp"};
    spmd_train_options options = small_options(models[_i]);
    run_of one = {.stop_after = 0}, many = {.stop_after = 0}, again = {.stop_after = 0};
    train("data=1", &options, &one);
    ck_assert_msg(one.loss[STEPS - 1] < 0.7 * one.loss[0], "learned nothing: loss from %g to %g", one.loss[0],
                  one.loss[STEPS - 1]);
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
        train(meshes[m], &options, &many);
        for (int step = 0; step < STEPS; step++)
            ck_assert_msg(fabs(many.loss[step] / one.loss[step] - 1) <= 1e-5, "%s, step %d: loss %.9g, on one %.9g",
                          meshes[m], step + 1, many.loss[step], one.loss[step]);
        ck_assert_double_eq_tol(many.test.accuracy, one.test.accuracy, 1.5 / TEST);
        train(meshes[m], &options, &again);
        ck_assert_mem_eq(again.loss, many.loss, sizeof again.loss);
        ck_assert_msg(again.fingerprint == many.fingerprint, "%s: two runs, other parameters", meshes[m]);
    }
    options.seed = 2;
    train("data=2", &options, &again);
    ck_assert_msg(again.fingerprint != one.fingerprint, "the seed changes nothing");
}
END_TEST

START_TEST(bf16_trains_as_well)
{
    spmd_train_options options = small_options("shared-mlp");
    run_of f32 = {.stop_after = 0}, bf16 = {.stop_after = 0};
    train("data=2", &options, &f32);
    options.config.compute = SPMD_BF16;
    train("data=2", &options, &bf16);
    ck_assert_double_eq_tol(bf16.loss[0], f32.loss[0], 0.05 * f32.loss[0]);
    ck_assert_double_eq_tol(bf16.loss[STEPS - 1], f32.loss[STEPS - 1], 0.1 * f32.loss[0]);
}
END_TEST

START_TEST(callback_ends_the_run)
{
    spmd_train_options options = small_options("mlp");
    run_of run = {.stop_after = 3};
    spmd_train_result result = train("data=2", &options, &run);
    ck_assert(result.stopped);
    ck_assert_int_eq(result.steps, 3);
    ck_assert_int_eq(result.last.step, 3);
    ck_assert_double_gt(result.examples_per_s, 0);
    ck_assert_double_le(result.first_step_s, result.seconds);
}
END_TEST

START_TEST(nan_stops_at_its_step)
{
    spmd_train_options options = small_options("mlp");
    options.optim = spmd_optim_sgd(0, false);
    options.schedule = spmd_schedule_constant(1e30);
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_result result;
    ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    spmd_status status = spmd_trainer_run(trainer, &data.train, STEPS, NULL, NULL, &result);
    ck_assert_msg(status == SPMD_ENONFINITE, "%s: %s", spmd_status_name(status), spmd_last_error());
    ck_assert_int_le(result.steps, 3);
    char step[32];
    snprintf(step, sizeof step, "step %lld:", (long long)result.steps + 1);
    ck_assert_msg(strstr(spmd_last_error(), step) && strstr(spmd_last_error(), "first bad parameter: w1["),
                  "'%s' in %s", step, spmd_last_error());
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(evaluation_counts_every_example_once)
{
    static const int64_t batches[] = {2, 64, 202, 204, 512};
    spmd_mesh *mesh;
    spmd_evaluation first = {0}, test;
    ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
    for (int k = 0; k < 5; k++) {
        spmd_train_options options = small_options("mlp");
        spmd_trainer *trainer;
        options.batch = batches[k];
        ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
        ck_spmd_ok(spmd_trainer_evaluate(trainer, &data.test, &test));
        if (k == 0)
            first = test;
        ck_assert_int_eq(test.examples, TEST);
        ck_assert_double_eq_tol(test.accuracy, first.accuracy, 0.5 / TEST);
        ck_assert_double_eq_tol(test.loss, first.loss, 1e-5 * first.loss);
        double hits = test.accuracy * TEST;
        ck_assert_double_eq_tol(hits, round(hits), 1e-3);
        spmd_trainer_destroy(trainer);
    }
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(what_does_not_fit_is_named)
{
    static const struct {
        const char *axes;
        int64_t batch;
        const char *model;
        spmd_status status;
        const char *text;
    } rows[] = {
        {"data=2", 511, "mlp", SPMD_EINVAL,
         "batch 511 cannot be cut evenly over 2 devices along 'data': use 510 or 512"},
        {"data=4", 3, "mlp", SPMD_EINVAL, "batch 3 is smaller than the 4 devices along 'data': use 4"},
        {"data=2", 0, "mlp", SPMD_EINVAL, "batch 0: needs at least one"},
        {"rows=2", 64, "mlp", SPMD_EAXIS, "no axis 'data'"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        spmd_mesh *mesh;
        spmd_trainer *trainer = NULL;
        spmd_train_options options = small_options(rows[k].model);
        options.batch = rows[k].batch;
        ck_spmd_ok(spmd_mesh_create(rows[k].axes, spmd_test_backend(), &mesh));
        ck_spmd_fails(spmd_trainer_create(mesh, &options, &trainer), rows[k].status, rows[k].text);
        ck_assert_ptr_null(trainer);
        ck_spmd_ok(spmd_mesh_destroy(mesh));
    }
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_result result;
    spmd_train_options options = small_options("mlp");
    options.config.inputs = 100;
    ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    ck_spmd_fails(spmd_trainer_run(trainer, &data.train, 1, NULL, NULL, &result), SPMD_EINVAL, "784 values each");
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("train", tcase_add_checked_fixture(tc, load, unload);
               tcase_add_loop_test(tc, parameters_start_as_spmd_model_init_says, 0, 2);
               tcase_add_loop_test(tc, losses_do_not_depend_on_the_devices, 0, 2);
               tcase_add_test(tc, bf16_trains_as_well); tcase_add_test(tc, callback_ends_the_run);
               tcase_add_test(tc, nan_stops_at_its_step); tcase_add_test(tc, evaluation_counts_every_example_once);
               tcase_add_test(tc, what_does_not_fit_is_named);)
