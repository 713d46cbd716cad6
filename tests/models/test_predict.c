/* Predictions agree with the evaluation, in both modes, for any number of examples. */
#include "tests/models/tiny_training.h"

static const struct {
    const char *axes;
    bool automatic;
    spmd_dtype compute;
} rows[] = {
    {"data=1", false, SPMD_F32}, {"data=3", false, SPMD_F32}, {"data=2", true, SPMD_F32}, {"data=2", false, SPMD_BF16}};

START_TEST(they_are_what_is_evaluated)
{
    tiny t;
    spmd_evaluation evaluation;
    int32_t predicted[TINY_EXAMPLES + 1] = {0};
    float confidence[TINY_EXAMPLES + 1] = {0};
    tiny_begin(&t, rows[_i].axes);
    t.options.automatic = rows[_i].automatic;
    t.options.config.compute = rows[_i].compute;
    tiny_create(&t);
    tiny_run(&t, 30);
    predicted[TINY_EXAMPLES] = -7; /* nothing is written behind the end */
    ck_spmd_ok(spmd_trainer_predict(t.trainer, &t.examples, TINY_EXAMPLES, predicted, confidence));
    ck_spmd_ok(spmd_trainer_evaluate(t.trainer, &t.examples, &evaluation));
    int right = 0;
    for (int k = 0; k < TINY_EXAMPLES; k++) {
        right += predicted[k] == t.labels[k];
        ck_assert(predicted[k] >= 0 && predicted[k] < 10);
        ck_assert(confidence[k] >= 0.1f && confidence[k] <= 1); /* the largest of ten */
    }
    ck_assert_int_eq(predicted[TINY_EXAMPLES], -7);
    ck_assert_double_eq_tol(evaluation.accuracy, right / (double)TINY_EXAMPLES, 1e-6);
    int32_t first[5];
    ck_spmd_ok(spmd_trainer_predict(t.trainer, &t.examples, 5, first, NULL));
    ck_assert_mem_eq(first, predicted, sizeof first);
    ck_spmd_fails(spmd_trainer_predict(t.trainer, &t.examples, TINY_EXAMPLES + 1, predicted, NULL), SPMD_EINVAL,
                  "count is 101, expected 0 to 100");
    tiny_run(&t, 3); /* training goes on after it */
    tiny_end(&t);
}
END_TEST

SPMD_TEST_MAIN("predict", tcase_add_loop_test(tc, they_are_what_is_evaluated, 0, 4);)
