/* The main job: on real Fashion-MNIST the MLP reaches 0.87 on the test set in 400 steps, whatever the seed. */
#include "models/train.h"
#include "spmd/testing.h"

START_TEST(mlp_learns_fashion_mnist)
{
    spmd_dataset data;
    spmd_train_options options;
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_result result;
    spmd_evaluation test;
    ck_spmd_ok(spmd_dataset_load("fashion-mnist", NULL, &data));
    ck_spmd_ok(spmd_train_defaults("mlp", &options));
    options.seed = (uint64_t)_i;
    ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    ck_spmd_ok(spmd_trainer_run(trainer, &data.train, 400, NULL, NULL, &result));
    ck_spmd_ok(spmd_trainer_evaluate(trainer, &data.test, &test));
    printf("seed %d: loss %.4f, test accuracy %.4f, %.0f examples/s\n", _i, result.last.loss, test.accuracy,
           result.examples_per_s);
    ck_assert_int_eq(test.examples, 10000);
    ck_assert_msg(test.accuracy >= 0.87, "seed %d: test accuracy %.4f, wanted 0.87", _i, test.accuracy);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    spmd_dataset_free(&data);
}
END_TEST

int main(void)
{
    spmd_dataset data = {0};
    spmd_status status = spmd_dataset_load("fashion-mnist", NULL, &data);
    bool real = status == SPMD_OK && !data.synthetic;
    if (!real) {
        printf("SKIP: the real Fashion-MNIST is not here: %s\n", status == SPMD_OK ? data.notice : spmd_last_error());
        spmd_dataset_free(&data);
        return 77;
    }
    spmd_dataset_free(&data);
    Suite *suite = suite_create("accuracy");
    TCase *tc = tcase_create("accuracy");
    tcase_set_timeout(tc, 4 * spmd_test_timeout());
    tcase_add_loop_test(tc, mlp_learns_fashion_mnist, 1, 4);
    suite_add_tcase(suite, tc);
    return spmd_test_exit(srunner_create(suite));
}
