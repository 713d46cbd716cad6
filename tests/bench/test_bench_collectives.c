/* bench_collectives from outside, at tiny sizes: what scripts rely on, right results for every row, dtype and mesh, and
 * bad usage. Times are never looked at, only that there are some. */
#include "bench/coll_rows.h"
#include "collectives/coll.h"
#include "tests/bench/bench_output.h"

START_TEST(lines_for_scripts)
{
    static char text[TEXT];
    ck_assert_int_eq(run_bench("bench_collectives", "--op psum --devices 2 -b 8 -e 64 -n 2 --json", false, text), 0);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *object = cJSON_Parse(line);
        ck_assert_msg(cJSON_IsObject(object), "not a JSON object: %s", line);
        ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object, "op")), "psum");
        ck_assert(number(object, "devices") == 2);
        ck_assert(number(object, "bytes") == (lines ? 32 : 8));
        ck_assert(number(object, "wrong") == 0);
        static const char *const positive[] = {"us",        "algbw_gbs", "busbw_gbs",     "stream_share",
                                               "stream_us", "honest_us", "write_read_us", "calls"};
        for (size_t k = 0; k < sizeof positive / sizeof *positive; k++)
            ck_assert_msg(number(object, positive[k]) > 0, "%s is not positive: %s", positive[k], line);
        ck_assert_double_eq_tol(number(object, "busbw_gbs"), number(object, "algbw_gbs"), 1e-6); /* 2(n-1)/n = 1 */
        cJSON_Delete(object);
    }
    ck_assert_int_eq(lines, 2);
}
END_TEST

static const char *const dtypes[] = {"f32", "bf16", "f16", "i8", "i32", "i64", "u8", "bool"};
static const char *const meshes[] = {
    "--devices 1",
    "--devices 3",
    "--mesh x=2,y=3 --axes y",
    "--mesh x=2,y=2 --axes y,x --out-of-place",
    "--mesh x=2,y=2,z=2 --axes x,z",
};

START_TEST(every_row_is_right)
{
    static char text[TEXT];
    char arguments[256];
    const char *dtype = dtypes[_i % 8], *mesh = meshes[_i / 8];
    snprintf(arguments, sizeof arguments, "--op all --dtype %s %s -b 8 -e 1K -f 128 -n 1 -w 1 --json", dtype, mesh);
    ck_assert_int_eq(run_bench("bench_collectives", arguments, false, text), 0);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *object = cJSON_Parse(line);
        ck_assert_msg(cJSON_IsObject(object), "not a JSON object: %s", line);
        ck_assert_msg(number(object, "wrong") == 0, "%s: %s", arguments, line);
        const cJSON *bandwidth = cJSON_GetObjectItem(object, "algbw_gbs");
        ck_assert(number(object, "devices") > 1 ? cJSON_IsNumber(bandwidth) : cJSON_IsNull(bandwidth));
        cJSON_Delete(object);
    }
    ck_assert_int_eq(lines, 2 * 13);
}
END_TEST

/* The check itself: one wrong bit counts, in every row and dtype. */
START_TEST(wrong_elements_are_counted)
{
    enum { N = 4, CUT = 3, MOST = N * CUT };
    for (int r = 0; r < coll_nrows; r++)
        for (int d = 0; d < SPMD_DTYPE_COUNT; d++) {
            const coll_row *row = &coll_rows[r];
            coll_check check = {.n = N, .place = 2, .group = 1, .cut = CUT, .dtype = (spmd_dtype)d};
            unsigned char data[MOST * 8] = {0};
            spmd_view view = {.data = data, .dtype = check.dtype, .rank = 1, .shape = {row->out_cut ? CUT : MOST}};
            for (int64_t i = 0; i < view.shape[0]; i++)
                coll_put(view.dtype, data, i, row->expect(&check, i));
            ck_assert_int_eq(coll_count_wrong(row, &check, &view), 0);
            data[0] ^= 1;
            data[2 * spmd_dtype_size(view.dtype)] ^= 1;
            ck_assert_int_eq(coll_count_wrong(row, &check, &view), 2);
        }
}
END_TEST

START_TEST(barrier)
{
    static char text[TEXT];
    ck_assert_int_eq(run_bench("bench_collectives", "--barrier --devices 3 --json", false, text), 0);
    cJSON *object = cJSON_Parse(text);
    ck_assert_msg(cJSON_IsObject(object), "not a JSON object: %s", text);
    ck_assert(number(object, "bytes") == 1024);
    ck_assert(number(object, "us") > 0 && number(object, "barrier_us") > 0);
    ck_assert_double_eq_tol(number(object, "ratio"), number(object, "us") / number(object, "bound_us"), 1e-6);
    cJSON_Delete(object);
}
END_TEST

/* Whether rows of the table of ways make sense: teams grow to all devices, and what goes by mail fits. */
static void check_rows(const spmd_coll_limits *rows, int n)
{
    ck_assert_int_eq(rows[n - 1].members, SPMD_MAX_DEVICES);
    for (int k = 0; k < n; k++) {
        ck_assert(rows[k].mail >= 0 && rows[k].mail <= SPMD_MAIL_BYTES && rows[k].stream >= 1 << 20);
        ck_assert(k == 0 || rows[k].members > rows[k - 1].members);
    }
}

START_TEST(the_table_of_ways)
{
    check_rows(spmd__coll_limits, spmd__coll_nlimits);
}
END_TEST

static int64_t integer(const cJSON *object, const char *key)
{
    return (int64_t)number(object, key);
}

/* The table is measured again: for people the text that stands in select.c, for scripts lines. */
START_TEST(the_table_of_ways_is_made)
{
    static char text[TEXT];
    spmd_coll_limits rows[16];
    int n = 0;
    ck_assert_int_eq(run_bench("bench_collectives", _i ? "--choice -n 1 -w 0 -e 1M --json" : "--choice -n 1 -w 0 -e 1M",
                               false, text),
                     0);
    for (char *line = strtok(text, "\n"); line && n < 16; line = strtok(NULL, "\n")) {
        spmd_coll_limits *row = &rows[n], has = {0};
        long long mail, stream, has_mail, has_stream;
        if (_i) {
            cJSON *object = cJSON_Parse(line);
            ck_assert_msg(cJSON_IsObject(object), "not a JSON object: %s", line);
            *row = (spmd_coll_limits){(int)number(object, "members"), integer(object, "mail_bytes"),
                                      integer(object, "stream_bytes")};
            has = (spmd_coll_limits){row->members, integer(object, "table_mail_bytes"),
                                     integer(object, "table_stream_bytes")};
            cJSON_Delete(object);
        } else if (sscanf(line, "    {%d, %lld, %lld}, /* {%d, %lld, %lld} */", &row->members, &mail, &stream,
                          &has.members, &has_mail, &has_stream) == 6) {
            *row = (spmd_coll_limits){row->members, mail, stream};
            has = (spmd_coll_limits){has.members, has_mail, has_stream};
        } else {
            continue;
        }
        ck_assert_int_lt(n, spmd__coll_nlimits);
        const spmd_coll_limits *want = &spmd__coll_limits[n++];
        ck_assert_int_eq(row->members, want->members);
        ck_assert(has.members == want->members && has.mail == want->mail && has.stream == want->stream);
    }
    ck_assert_int_eq(n, spmd__coll_nlimits);
    check_rows(rows, n);
}
END_TEST

START_TEST(usage)
{
    static const usage_row rows[] = {
        {"--opp psum", "no option '--opp'; the nearest is --op"},
        {"--op psun", "no collective 'psun': psum, "},
        {"--op psum,psun", "no collective 'psun'"},
        {"--op", "--op needs a value"},
        {"-b 1X", "-b '1X': needs a whole number from 1"},
        {"-b -8", "-b '-8': needs a whole number"},
        {"-e 99999999999G", "-e '99999999999G'"},
        {"-f 1", "-f '1': needs a whole number from 2"},
        {"--devices 65", "--devices '65': needs a whole number from 1 to 64"},
        {"--devices 2 --mesh x=2", "give one"},
        {"--mesh x=2,y=2 --axes z", "'z' is not an axis"},
        {"--mesh x=2,y=2 --axes x,x", "twice"},
        {"--dtype f64", "f64"},
        {"--choice -e 64K", "--choice -e 65536: where caches end is looked for from 1M"},
        {"--choice --devices 2", "--choice measures on meshes of its own"},
        {"--json=yes", "--json takes no value"},
    };
    check_usage("bench_collectives", rows, sizeof rows / sizeof *rows);
}
END_TEST

SPMD_TEST_MAIN("bench_collectives", tcase_add_test(tc, lines_for_scripts);
               tcase_add_loop_test(tc, every_row_is_right, 0, 8 * 5); tcase_add_test(tc, wrong_elements_are_counted);
               tcase_add_test(tc, barrier); tcase_add_test(tc, the_table_of_ways);
               tcase_add_loop_test(tc, the_table_of_ways_is_made, 0, 2); tcase_add_test(tc, usage);)
