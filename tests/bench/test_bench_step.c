/* bench_step from outside, at tiny sizes: what scripts rely on, and bad usage. Times are only looked at for being some.
 */
#include "tests/bench/bench_output.h"

static const struct {
    const char *arguments;
    double devices, batch, flops; /* flops: of a step, by hand */
} runs[] = {
    {"--model shared-mlp --repeats 3 --width 16 --batch-per-device 4", 2, 8, 8. * (4 * 784 * 16 + 6 * 3 * 256 + 960)},
    {"--model shared-mlp --repeats 3 --width 16 --batch-per-device 4 --eager --dtype bf16 --devices 3", 3, 12,
     12. * (4 * 784 * 16 + 6 * 3 * 256 + 960)},
    {"--model shared-mlp --repeats 0 --width 16 --batch-per-device 4", 2, 8, 8. * (4 * 784 * 16 + 960)},
    {"--mode auto --model shared-mlp --repeats 2 --width 16 --batch-per-device 4", 2, 8,
     8. * (4 * 784 * 16 + 6 * 2 * 256 + 960)},
    {"--model mlp --devices 1 --batch-per-device 8 --jit", 1, 8, 8. * (4 * 784 * 256 + 6 * (256 * 128 + 1280))},
};

START_TEST(a_line_for_scripts)
{
    static char text[TEXT];
    char arguments[256];
    snprintf(arguments, sizeof arguments, "%s -n 3 --json", runs[_i].arguments);
    ck_assert_int_eq(run_bench("bench_step", arguments, false, text), 0);
    cJSON *object = cJSON_Parse(text);
    ck_assert_msg(cJSON_IsObject(object), "not a JSON object: %s", text);
    static const char *const positive[] = {"ms_per_step", "examples_per_s", "gflops",         "limit_gflops", "share",
                                           "share_p10",   "peak_rss",       "first_step_end", "loss"};
    for (size_t k = 0; k < sizeof positive / sizeof *positive; k++)
        ck_assert_msg(number(object, positive[k]) > 0, "%s is not positive: %s", positive[k], text);
    double ms = number(object, "ms_per_step");
    ck_assert(number(object, "devices") == runs[_i].devices);
    ck_assert(number(object, "samples") == 3);
    ck_assert_double_eq_tol(number(object, "examples_per_s") * ms / 1e3, runs[_i].batch, 1e-3);
    ck_assert_double_eq_tol(number(object, "gflops") * ms * 1e6 / runs[_i].flops, 1, 1e-3);
    ck_assert_double_eq_tol(number(object, "gflops") / number(object, "limit_gflops") / number(object, "share"), 1,
                            1e-3);
    cJSON_Delete(object);
}
END_TEST

START_TEST(usage)
{
    static const usage_row rows[] = {
        {"--modell mlp", "no option '--modell'; the nearest is --model"},
        {"--model mpl", "no model 'mpl': use mlp or shared-mlp"},
        {"--mode manual", "--mode 'manual': explicit or auto"},
        {"--eager --jit", "--eager and --jit: give one"},
        {"--devices 0", "--devices '0': needs a whole number from 1 to 64"},
        {"--dtype f99", "f99"},
    };
    check_usage("bench_step", rows, sizeof rows / sizeof *rows);
}
END_TEST

SPMD_TEST_MAIN("bench_step", tcase_add_loop_test(tc, a_line_for_scripts, 0, 5); tcase_add_test(tc, usage);)
