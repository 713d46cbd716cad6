/* Both lessons run to their end; the report holds every section and picture and needs nothing else; without gnuplot it
 * says what was left out. */
#include "tests/cli/run_program.h"

#define TRAINING "lesson training --quick --dataset synthetic --steps 40 --width 16 --json --out %s/lesson"
#define MULTI "lesson multi-device --quick --width 16 --repeats 2 --batch 32 --json --out %s/lesson"

static const char *const training_sections[] = {
    "data",          "images",    "batches",  "parameters", "gradients",  "sgd",
    "eager-and-jit", "optimizer", "training", "curve",      "evaluation", "first-prediction",
    "predictions",   "confusion", "dtypes",   "placement",  NULL};
static const char *const multi_sections[] = {"mesh",  "topology", "shardings", "workload", "scaling",
                                             "modes", "sweep",    "next",      "trap",     NULL};
static const char *const training_pictures[] = {"classes",     "eager-and-jit", "training-curve",
                                                "predictions", "confusion",     NULL};
static const char *const multi_pictures[] = {"batch-sweep", NULL};
/* What only a lesson that did its work can say. */
static const char *const training_said[] = {"differ by 0.",
                                            "difference 0: the same bits",
                                            "is dropped",
                                            "the last 272 of 10000 test examples are LEFT OUT",
                                            "clip_by_global_norm",
                                            "nu/w3",
                                            NULL};
static const char *const multi_said[] = {"P(-,data,-)", "P(-,model)",     "│  0,1  │", "│  0,2  │",
                                         "420",         "drop the pmean", NULL};

static const struct {
    const char *arguments;
    const char *const *sections, *const *pictures, *const *said;
} lessons[] = {{TRAINING, training_sections, training_pictures, training_said},
               {MULTI, multi_sections, multi_pictures, multi_said}};

static bool list_has(const cJSON *list, const char *text)
{
    for (const cJSON *item = list->child; item; item = item->next)
        if (strcmp(item->valuestring, text) == 0)
            return true;
    return false;
}

static void expect_pictures(const cJSON *done, const char *html, const char *const *pictures)
{
    static const char *const kinds[] = {"svg", "png"};
    for (int k = 0; pictures[k]; k++)
        for (int kind = 0; kind < 2; kind++) {
            char name[64];
            snprintf(name, sizeof name, "%s.%s", pictures[k], kinds[kind]);
            ck_assert_msg(list_has(cJSON_GetObjectItem(done, "pictures"), name), "the picture %s is not listed", name);
            snprintf(name, sizeof name, "lesson/%s.%s", pictures[k], kinds[kind]);
            free(read_file(name));
        }
    ck_assert_ptr_nonnull(strstr(html, "src=\"data:image/svg+xml;base64,"));
}

static void expect_self_contained(const char *html)
{
    static const char *const outside[] = {"src=\"http", "href=\"http", "<script", "<link", "@import", "url("};
    for (size_t k = 0; k < sizeof outside / sizeof *outside; k++)
        ck_assert_msg(strstr(html, outside[k]) == NULL, "the report holds %s", outside[k]);
    ck_assert_ptr_nonnull(strstr(html, "prefers-color-scheme:dark"));
    ck_assert_ptr_nonnull(strstr(html, "</html>"));
}

START_TEST(a_lesson_runs_to_its_end)
{
    int lines;
    ended e = run(lessons[_i].arguments);
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    cJSON *done = last_object(e.out, &lines);
    expect_keys(done, (const char *const[]){"report", "pictures", "sections", NULL});
    expect_report(done, "lesson/report.html");
    char *html = read_file("lesson/report.html");
    for (int k = 0; lessons[_i].sections[k]; k++) {
        char tag[64];
        snprintf(tag, sizeof tag, "<section id=\"%s\">", lessons[_i].sections[k]);
        ck_assert_msg(strstr(html, tag) != NULL, "the report has no %s", tag);
        ck_assert(list_has(cJSON_GetObjectItem(done, "sections"), lessons[_i].sections[k]));
    }
    for (int k = 0; lessons[_i].said[k]; k++)
        ck_assert_msg(strstr(html, lessons[_i].said[k]) != NULL, "the report does not say '%s'", lessons[_i].said[k]);
    expect_self_contained(html);
    if (program_is_there("gnuplot"))
        expect_pictures(done, html, lessons[_i].pictures);
    cJSON_Delete(done);
    free(html);
    end_free(&e);
}
END_TEST

START_TEST(without_gnuplot_it_says_so)
{
    setenv("PATH", "/nowhere", 1);
    ended e = run(TRAINING);
    setenv("PATH", "/usr/bin:/bin", 1); /* for the fixture */
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    char *html = read_file("lesson/report.html");
    ck_assert_ptr_nonnull(strstr(html, "LEFT OUT: the picture 'confusion'"));
    ck_assert_ptr_nonnull(strstr(html, "gnuplot is missing"));
    free(html);
    end_free(&e);
}
END_TEST

SPMD_TEST_MAIN("lesson", tcase_set_timeout(tc, 5 * spmd_test_timeout());
               tcase_add_checked_fixture(tc, make_folder, remove_folder);
               tcase_add_loop_test(tc, a_lesson_runs_to_its_end, 0, 2); tcase_add_test(tc, without_gnuplot_it_says_so);)
