/* What comes after a training: checkpoints and resuming, eval, confusion, predictions, report, watch. */
#include "models/data.h"
#include "tests/cli/run_program.h"

#define SMALL "train mlp --dataset synthetic --batch 64 --width 16 --json --eval "

START_TEST(usage)
{
    static const struct {
        const char *arguments;
        int code;
        const char *err;
    } rows[] = {
        {"train mlp --resume", 2, "--resume: from where? Give --checkpoint DIR"},
        {"eval", 2, "eval: of what? Give --checkpoint DIR"},
        {"eval --checkpoint %s/none", 1, "no checkpoints at"},
        {"eval mlp", 2, "one word too many"},
        {"watch", 2, "watch: which run?"},
        {"watch %s/none.jsonl", 1, "cannot read the log"},
        {"report", 2, "report: of which run?"},
        {"train mlp --keep 0", 2, "--keep '0': needs a whole number from 1"},
        {SMALL "--steps 2 --checkpoint /dev/null/x", 1, "cannot be made: Not a directory"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ended e = run(rows[k].arguments);
        ck_assert_msg(e.code == rows[k].code, "'%s': exit code %d: %s", rows[k].arguments, e.code, e.err);
        ck_assert_msg(strstr(e.err, rows[k].err) != NULL, "'%s': no '%s' in: %s", rows[k].arguments, rows[k].err,
                      e.err);
        end_free(&e);
    }
}
END_TEST

static cJSON *run_for_object(const char *arguments)
{
    int lines;
    ended e = run(arguments);
    ck_assert_msg(e.code == 0, "'%s': exit code %d: %s", arguments, e.code, e.err);
    cJSON *last = last_object(e.out, &lines);
    end_free(&e);
    return last;
}

START_TEST(a_resumed_training_ends_like_an_unbroken_one)
{
    cJSON *whole = run_for_object(SMALL "--steps 40 --schedule constant");
    cJSON *half = run_for_object(SMALL
                                 "--steps 20 --schedule constant --checkpoint %s/saved --log %s/log.jsonl --resume");
    cJSON *rest = run_for_object(SMALL
                                 "--steps 40 --schedule constant --checkpoint %s/saved --log %s/log.jsonl --resume "
                                 "--every 7 --keep 2");
    ck_assert_str_eq(cJSON_GetObjectItem(rest, "params_fingerprint")->valuestring,
                     cJSON_GetObjectItem(whole, "params_fingerprint")->valuestring);
    ck_assert_int_eq((int)number_of(rest, "resumed_from"), 20);
    ck_assert_int_eq((int)number_of(rest, "steps"), 40);
    cJSON *eval = run_for_object("eval --dataset synthetic --json --checkpoint %s/saved");
    ck_assert(number_of(eval, "test_accuracy") == number_of(whole, "test_accuracy"));
    ck_assert_int_eq((int)number_of(eval, "steps"), 40);
    cJSON *watched = run_for_object("watch --json %s/log.jsonl"); /* both parts are one run */
    ck_assert_int_eq((int)number_of(watched, "step"), 40);
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(watched, "done")));
    cJSON_Delete(whole);
    cJSON_Delete(half);
    cJSON_Delete(rest);
    cJSON_Delete(eval);
    cJSON_Delete(watched);
}
END_TEST

START_TEST(confusion_rows_sum_to_the_classes)
{
    spmd_dataset data;
    const spmd_dataset_options options = {.seed = 1};
    int64_t classes[10] = {0};
    ck_spmd_ok(spmd_dataset_load("synthetic", &options, &data));
    for (int64_t i = 0; i < data.test.count; i++)
        classes[data.test.labels[i]]++;
    spmd_dataset_free(&data);
    cJSON_Delete(run_for_object(SMALL "--steps 30 --checkpoint %s/saved"));
    cJSON *o = run_for_object("confusion --dataset synthetic --json --checkpoint %s/saved --out %s/page");
    const cJSON *row;
    int c = 0;
    double right = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(o, "rows"))
    {
        double sum = 0;
        for (int k = 0; k < 10; k++)
            sum += cJSON_GetArrayItem(row, k)->valuedouble;
        ck_assert_int_eq((int)sum, (int)classes[c]);
        right += cJSON_GetArrayItem(row, c++)->valuedouble;
    }
    ck_assert_int_eq(c, 10);
    cJSON *eval = run_for_object("eval --dataset synthetic --json --checkpoint %s/saved");
    ck_assert_double_eq_tol(right / 10000, number_of(eval, "test_accuracy"), 1e-9);
    expect_report(o, "page/report.html");
    char *html = read_file("page/report.html");
    ck_assert_ptr_nonnull(strstr(html, "<section id=\"confusion\">"));
    free(html);
    cJSON_Delete(o);
    cJSON_Delete(eval);
}
END_TEST

START_TEST(predictions_without_a_checkpoint)
{
    cJSON *o = run_for_object("predictions --dataset synthetic --steps 20 --width 16 --json --out %s/page");
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(o, "predictions")), 25);
    double confidence = number_of(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "predictions"), 0), "confidence");
    ck_assert(confidence > 0.1 && confidence <= 1);
    expect_report(o, "page/report.html");
    cJSON_Delete(o);
}
END_TEST

START_TEST(logs_become_a_page_and_a_picture_of_letters)
{
    cJSON_Delete(run_for_object(SMALL "--steps 30 --log %s/a.jsonl"));
    cJSON_Delete(run_for_object(SMALL "--steps 20 --optimizer sgd --log %s/b.jsonl"));
    cJSON *o = run_for_object("report --json --out %s/page %s/a.jsonl");
    expect_report(o, "page/report.html");
    cJSON_Delete(o);
    char *html = read_file("page/report.html");
    ck_assert_ptr_nonnull(strstr(html, "<section id=\"curve\">"));
    free(html);
    ended e = run("watch %s/a.jsonl %s/b.jsonl");
    ck_assert_int_eq(e.code, 0);
    static const char *const said[] = {" a ", " b ", "done", "loss", "30 steps"};
    for (size_t k = 0; k < sizeof said / sizeof *said; k++)
        ck_assert_msg(strstr(e.out, said[k]) != NULL, "no '%s' in: %s", said[k], e.out);
    ck_assert_ptr_null(strchr(e.out, '\033')); /* it is no terminal */
    end_free(&e);
}
END_TEST

START_TEST(a_log_that_is_no_log)
{
    char path[128];
    snprintf(path, sizeof path, "%s/odd.jsonl", folder);
    FILE *file = fopen(path, "w");
    fputs("{\"event\": \"step\", \"step\": 3, \"loss\": null}\nnonsense\n{}\n[1]\n{\"event\": \"step\", \"step\": -1}\n"
          "{\"event\": \"step\", \"ste",
          file);
    fclose(file);
    ended e = run("watch %s/odd.jsonl");
    ck_assert_int_eq(e.code, 0);
    ck_assert_msg(strstr(e.out, "4 lines are no steps") && strstr(e.out, "running"), "%s", e.out);
    end_free(&e);
}
END_TEST

SPMD_TEST_MAIN("results", tcase_set_timeout(tc, 5 * spmd_test_timeout());
               tcase_add_checked_fixture(tc, make_folder, remove_folder); tcase_add_test(tc, usage);
               tcase_add_test(tc, a_resumed_training_ends_like_an_unbroken_one);
               tcase_add_test(tc, confusion_rows_sum_to_the_classes);
               tcase_add_test(tc, predictions_without_a_checkpoint);
               tcase_add_test(tc, logs_become_a_page_and_a_picture_of_letters);
               tcase_add_test(tc, a_log_that_is_no_log);)
