/* bench_kernel from outside, at tiny sizes: a line for every op of every kernel, and bad usage. */
#include "bench/kernel_rows.h"
#include "tests/bench/bench_output.h"

static int ops_of(const kernel_row *row)
{
    int n = 0;
    while (n < KERNEL_MOST_OPS && row->ops[n])
        n++;
    return n ? n : 1;
}

START_TEST(lines_for_scripts)
{
    static const char *const arguments[] = {"--rows 6 --columns 4 -n 2 --json",
                                            "--rows 6 --columns 4 -n 2 --json --dtype bf16 --devices 2"};
    static char text[TEXT];
    ck_assert_int_eq(run_bench("bench_kernel", arguments[_i], false, text), 0);
    char *line = strtok(text, "\n");
    for (int r = 0; r < kernel_nrows; r++)
        for (int k = 0; k < ops_of(&kernel_rows[r]); k++, line = strtok(NULL, "\n")) {
            cJSON *object = line ? cJSON_Parse(line) : NULL;
            ck_assert_msg(cJSON_IsObject(object), "%s: not a JSON object: %s", kernel_rows[r].name, line ? line : "");
            ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object, "kernel")), kernel_rows[r].name);
            ck_assert_msg(number(object, "us") > 0, "the op did not run: %s", line);
            ck_assert_msg(number(object, "wrong") == 0, "wrong elements: %s", line);
            ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object, "shape")), "6x4");
            ck_assert_msg(number(object, "gbs") > 0, "no bytes are counted: %s", line);
            ck_assert_double_eq_tol(number(object, "ns_per_element") * 24 / 1e3 / number(object, "us"), 1, 1e-6);
            cJSON_Delete(object);
        }
    ck_assert_msg(line == NULL, "one line too many: %s", line ? line : "");
}
END_TEST

/* host-strict is another backend; and the check alone has no times. */
START_TEST(compared_with_the_host)
{
    static char text[TEXT];
    ck_assert_int_eq(run_bench("bench_kernel",
                               _i ? "--backend host-strict --rows 7 --columns 5 --check --json"
                                  : "--backend host-strict --rows 7 --columns 5 --check --json "
                                    "--dtype bf16",
                               false, text),
                     0);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *object = cJSON_Parse(line);
        ck_assert_msg(cJSON_IsObject(object), "not a JSON object: %s", line);
        ck_assert_msg(number(object, "wrong") == 0, "wrong elements: %s", line);
        ck_assert(cJSON_IsNull(cJSON_GetObjectItem(object, "us")));
        cJSON_Delete(object);
    }
    ck_assert_int_eq(lines, kernel_nrows);
}
END_TEST

START_TEST(usage)
{
    static const usage_row rows[] = {
        {"--opp gelu", "no option '--opp'; the nearest is --op"},
        {"--op gelo", "no kernel 'gelo': add, mul, "},
        {"--op add,gelo", "no kernel 'gelo'"},
        {"--rows 0", "--rows '0': needs a whole number from 1"},
        {"--dtype i32", "--dtype 'i32': f32 or bf16"},
        {"--dtype f64", "f64"},
        {"--check -c 0", "give one"},
    };
    check_usage("bench_kernel", rows, sizeof rows / sizeof *rows);
}
END_TEST

SPMD_TEST_MAIN("bench_kernel", tcase_add_loop_test(tc, lines_for_scripts, 0, 2);
               tcase_add_loop_test(tc, compared_with_the_host, 0, 2); tcase_add_test(tc, usage);)
