/* The commands that measure: sweep and compare. */
#include "cli/cli.h"
#include "tests/cli/run_program.h"
#include <math.h>

START_TEST(a_sweep_skips_what_does_not_divide_and_goes_on)
{
    int lines;
    ended e = run("sweep shared-mlp --width 8 --repeats 1 --devices 2 --batches 31,32 --json --out %s");
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    ck_assert_msg(strstr(e.out, "{\"batch\": 31, \"status\": \"skipped\"") != NULL, "%s", e.out);
    ck_assert_ptr_nonnull(strstr(e.out, "use 30 or 32"));
    cJSON *last = last_object(e.out, &lines);
    expect_keys(last, (const char *const[]){"batch", "status", "reason", "ms_per_step", "examples_per_s", NULL});
    ck_assert_int_eq(lines, 2);
    ck_assert(number_of(last, "ms_per_step") > 0);
    cJSON_Delete(last);
    end_free(&e);
}
END_TEST

START_TEST(both_modes_are_compared)
{
    int lines;
    ended e = run("compare shared-mlp --width 16 --repeats 2 --batch 32 --devices 2 --json");
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    cJSON *o = last_object(e.out, &lines);
    expect_keys(o, (const char *const[]){"explicit", "automatic", "max_diff_loss", "max_diff_grad_norm",
                                         "max_diff_params", NULL});
    const cJSON *a = cJSON_GetObjectItem(o, "explicit"), *b = cJSON_GetObjectItem(o, "automatic");
    expect_keys(a, (const char *const[]){"ms_per_step", "examples_per_s", "collectives", "bytes", NULL});
    ck_assert_int_eq(cJSON_GetObjectItem(a, "collectives")->valueint, cJSON_GetObjectItem(b, "collectives")->valueint);
    ck_assert_int_eq(cJSON_GetObjectItem(a, "bytes")->valueint, cJSON_GetObjectItem(b, "bytes")->valueint);
    ck_assert(number_of(o, "max_diff_loss") < 1e-6);
    ck_assert(number_of(o, "max_diff_params") < 1e-5);
    ck_assert_msg(strstr(e.err, "the two programs, where they differ") && strstr(e.err, "automatic, over data: 1 coll"),
                  "%s", e.err);
    cJSON_Delete(o);
    end_free(&e);
}
END_TEST

/* A run that ended in NaN agrees with nothing. */
START_TEST(nan_is_the_largest_difference)
{
    ck_assert(isnan(cli_larger(NAN, 1)) && isnan(cli_larger(1, NAN)) && cli_larger(1, 2) == 2 && cli_larger(2, 1) == 2);
    ck_assert(isnan(cli_relative(NAN, 1)) && isnan(cli_relative(1, NAN)));
    ck_assert(cli_relative(0, 0) == 0 && cli_relative(1, -2) == 1.5 && cli_relative(-2, 1) == 1.5);
    const float values[3][2] = {{1, 2}, {1, -6}, {NAN, 2}};
    spmd_mesh *mesh;
    spmd_array *arrays[3];
    ck_spmd_ok(spmd_mesh_create("data=2", "host", &mesh));
    for (int k = 0; k < 3; k++)
        ck_spmd_ok(spmd_shard(mesh, values[k], SPMD_F32, SPMD_SHAPE(2), SPMD_P("data"), &arrays[k]));
    double difference, size;
    ck_spmd_ok(cli_compare_arrays(arrays[1], arrays[0], &difference, &size));
    ck_assert(difference == 8 && size == 6);
    ck_spmd_ok(cli_compare_arrays(arrays[2], arrays[0], &difference, &size));
    ck_assert(isnan(difference) && isnan(size));
    for (int k = 0; k < 3; k++)
        spmd_array_destroy(arrays[k]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("measure", tcase_add_checked_fixture(tc, make_folder, remove_folder);
               tcase_add_test(tc, a_sweep_skips_what_does_not_divide_and_goes_on);
               tcase_add_test(tc, nan_is_the_largest_difference); tcase_add_test(tc, both_modes_are_compared);)
