/* The training lesson on the real data: what it must learn, in f32 and in bf16. */
#include "models/data.h"
#include "tests/cli/run_program.h"

START_TEST(the_lesson_learns)
{
    int lines;
    ended e = run("lesson training --quick --json --out %s/lesson");
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    cJSON *done = last_object(e.out, &lines);
    double f32 = number_of(done, "test_accuracy");
    double bf16 = number_of(done, "test_accuracy_bf16");
    printf("test accuracy: f32 %.4f, bf16 %.4f\n", f32, bf16);
    ck_assert_int_eq(cJSON_GetObjectItem(done, "test_examples")->valueint, 9728);
    ck_assert_msg(f32 >= 0.86, "test accuracy %.4f, wanted 0.86", f32);
    ck_assert_msg(fabs(f32 - bf16) <= 0.015, "test accuracy: f32 %.4f, bf16 %.4f", f32, bf16);
    cJSON_Delete(done);
    end_free(&e);
}
END_TEST

static bool real_data(void)
{
    spmd_dataset data = {0};
    bool real = spmd_dataset_load("fashion-mnist", NULL, &data) == SPMD_OK && !data.synthetic;
    spmd_dataset_free(&data);
    return real;
}

int main(void)
{
    if (spmd_test_timeout() > 60) /* longer under sanitizers */
        return spmd_test_skip("test_lesson is the one for sanitizers; this one only trains longer");
    if (!real_data())
        return spmd_test_skip("the real Fashion-MNIST is not here");
    Suite *suite = suite_create("lesson accuracy");
    TCase *tc = tcase_create("lesson accuracy");
    tcase_set_timeout(tc, 5 * spmd_test_timeout());
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, the_lesson_learns);
    suite_add_tcase(suite, tc);
    return spmd_test_exit(srunner_create(suite));
}
