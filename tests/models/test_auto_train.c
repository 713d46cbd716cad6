/* Training in automatic mode: the losses, gradient norms and parameters of the explicit mode, in every step, with every
 * optimizer, recorded and eager; recorded with the same number of collectives and bytes. */
#include "models/train.h"
#include "spmd/testing.h"

enum { STEPS = 50, BATCH = 32 };

typedef struct history {
    spmd_metrics step[STEPS];
    int count;
    spmd_evaluation test;
    spmd_program_info info; /* of a recorded training */
    double parameters;      /* sum of their squares at the end */
} history;

static bool keep(void *user, const spmd_metrics *metrics)
{
    history *h = user;
    h->step[h->count++] = *metrics;
    return true;
}

static double sum_of_squares(const spmd_trainer *trainer, int params)
{
    double sum = 0;
    for (int k = 0; k < params; k++) {
        const spmd_array *array = spmd_trainer_array(trainer, k, NULL);
        int64_t n = spmd_array_count(array);
        float *values = malloc((size_t)n * sizeof *values);
        ck_assert_ptr_nonnull(values);
        ck_spmd_ok(spmd_unshard(array, values));
        for (int64_t i = 0; i < n; i++)
            sum += (double)values[i] * values[i];
        free(values);
    }
    return sum;
}

static void train(const char *axes, const spmd_train_options *options, int steps, history *h)
{
    const spmd_dataset_options wanted = {.train_count = 640, .test_count = 10, .seed = 5};
    spmd_dataset data;
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_result result;
    *h = (history){0};
    ck_spmd_ok(spmd_dataset_load("synthetic", &wanted, &data));
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, options, &trainer));
    ck_spmd_ok(spmd_trainer_run(trainer, &data.train, steps, keep, h, &result));
    ck_spmd_ok(spmd_trainer_evaluate(trainer, &data.test, &h->test));
    if (!options->eager)
        ck_spmd_ok(spmd_jit_info(spmd_trainer_jit(trainer), 0, &h->info));
    h->parameters = sum_of_squares(trainer, options->model->params);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    spmd_dataset_free(&data);
}

static const struct {
    const char *axes, *model, *optimizer;
    bool eager;
    int steps;
} cases[] = {
    {"data=2", "mlp", "adamw", false, STEPS},    {"data=4", "mlp", "adamw", false, STEPS},
    {"data=2", "mlp", "adamw", true, STEPS},     {"data=1", "mlp", "adamw", false, 5},
    {"data=2", "shared-mlp", "adamw", false, 5}, {"data=2,model=2", "mlp", "adamw", false, 5},
    {"data=2", "mlp", "momentum", false, 5},     {"data=2", "mlp", "lion", false, 5},
    {"data=2", "mlp", "rmsprop", false, 5},      {"data=2", "mlp", "lamb", false, 5},
};
enum { CASES = sizeof cases / sizeof *cases };

static void expect_close(double got, double want, int step, const char *what)
{
    ck_assert_msg(fabs(got - want) <= 1e-6 * fabs(want), "step %d: %s is %.9g, by hand %.9g", step, what, got, want);
}

START_TEST(the_modes_train_alike)
{
    spmd_train_options options;
    history hand, automatic;
    double rate;
    ck_spmd_ok(spmd_train_defaults(cases[_i].model, &options));
    ck_spmd_ok(spmd_optim_find(cases[_i].optimizer, &options.optim, &rate));
    options.config.width = 32;
    options.config.repeats = options.config.repeats ? 4 : 0;
    options.batch = BATCH;
    options.schedule = spmd_schedule_constant(1e-3);
    options.eager = cases[_i].eager;
    train(cases[_i].axes, &options, cases[_i].steps, &hand);
    options.automatic = true;
    train(cases[_i].axes, &options, cases[_i].steps, &automatic);
    for (int k = 0; k < cases[_i].steps; k++) {
        expect_close(automatic.step[k].loss, hand.step[k].loss, k, "the loss");
        expect_close(automatic.step[k].grad_norm, hand.step[k].grad_norm, k, "the gradient norm");
        expect_close(automatic.step[k].accuracy, hand.step[k].accuracy, k, "the accuracy");
    }
    expect_close(automatic.parameters, hand.parameters, cases[_i].steps, "the parameters' sum of squares");
    expect_close(automatic.test.loss, hand.test.loss, cases[_i].steps, "the test loss");
    expect_close(automatic.test.accuracy, hand.test.accuracy, cases[_i].steps, "the test accuracy");
    ck_assert_int_eq(automatic.info.collectives, hand.info.collectives);
    ck_assert_int_eq(automatic.info.collective_bytes, hand.info.collective_bytes);
    ck_assert_double_lt(hand.step[cases[_i].steps - 1].loss, hand.step[0].loss);
}
END_TEST

SPMD_TEST_MAIN("training in automatic mode", tcase_add_loop_test(tc, the_modes_train_alike, 0, CASES);)
