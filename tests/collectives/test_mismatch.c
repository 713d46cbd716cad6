/* One shard calls something else than all others: every kind of difference with every collective. The error names both
 * calls, comes at once, and the mesh works afterwards. docs/mismatches.md shows what users then read. */
#include "tests/collectives/mismatch_calls.h"
#include <limits.h>
#include <stdio.h>
#include <time.h>

enum { KINDS = 11 };
static const char *const kind_names[KINDS] = {"dtype",         "count",    "shape",  "options",
                                              "order of axes", "groups",   "axes",   "another call",
                                              "left out",      "returned", "swapped"};
static const char *const op_names[OPS] = {"psum",      "pmean",      "pmax",         "pmin",
                                          "psum_list", "all_gather", "psum_scatter", "all_to_all",
                                          "ppermute",  "pshuffle",   "pbroadcast",   "ragged_all_to_all"};

typedef struct run_args {
    collective op;
    unsigned how; /* what the odd shard does; 0: nothing is wrong */
    int shard;    /* the odd one */
} run_args;

static spmd_status run(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const run_args *a = user;
    bool is_odd = a->how && spmd_ctx_device(ctx) == a->shard;
    const char *site = is_odd ? odd : usual;
    out[0] = in[0];
    if (is_odd && a->how == RETURNED)
        return SPMD_OK;
    if (is_odd && a->how == SWAPPED) {
        SPMD_TRY((spmd_psum)(spmd_ctx_at(ctx, odd), &in[3], "x,y", &out[0]));
        return call(ctx, a->op, in, 0, odd);
    }
    if (!(is_odd && a->how == SKIPPED))
        SPMD_TRY(call(ctx, a->op, in, is_odd ? a->how : 0, site));
    return (spmd_psum)(spmd_ctx_at(ctx, last), &in[3], "x,y", &out[0]);
}

/* Differences that a collective does not have: no such option, or (the order of a sum's axes) one without a meaning. */
static bool applies(collective op, unsigned how)
{
    bool reduces = op <= PMIN, ordered = op > LIST;
    switch (how) {
    case OPTIONS:
        return !reduces && op != RAGGED;
    case AXES_ORDER:
        return ordered;
    case GROUPS:
        return reduces || op == GATHER || op == SCATTER || op == EXCHANGE;
    default:
        return true;
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check_named(collective op, int k, const char *what)
{
    ck_assert_msg(strstr(spmd_last_error(), what) != NULL, "op %d, %s: no '%s' in: %s", op, kind_names[k], what,
                  spmd_last_error());
}

/* The words for a difference that only the options show: with both values, in the order of the report. */
static const struct {
    int op, kind; /* a negative op: every one */
    const char *format, *odd, *usual;
} words[] = {
    {-1, SHAPE, "(shapes %s and %s)", "[4,3,4]", "[4,4,3]"},
    {-1, AXES_ORDER, "(axes '%s' and '%s')", "y,x", "x,y"},
    {-1, GROUPS, "(groups %s and %s)", "0,1;2,3", "none"},
    {LIST, OPTIONS, "(lists of %s and %s tensors)", "1", "2"},
    {GATHER, OPTIONS, "(dim %s and %s)", "1", "0"},
    {SCATTER, OPTIONS, "(tiled %s and %s)", "0", "1"},
    {EXCHANGE, OPTIONS, "(tiled %s and %s)", "0", "1"},
    {PERMUTE, OPTIONS, "(shard 1 receives from %s and from %s)", "1", "0"},
    {SHUFFLE, OPTIONS, "(shard 0 receives from %s and from %s)", "1", "0"},
    {BROADCAST, OPTIONS, "(source %s and %s)", "1", "0"},
    /* The next call is a psum of other tensors, the next collective after ppermute one as well. */
    {PSUM, SKIPPED, "(shapes %s and %s)", "[4,3,4]", "[4,4,3]"},
    {PSUM, SWAPPED, "(shapes %s and %s)", "[4,3,4]", "[4,4,3]"},
    {LIST, SKIPPED, "(lists of %s and %s tensors)", "1", "2"},
    {LIST, SWAPPED, "(lists of %s and %s tensors)", "1", "2"},
    {PERMUTE, OTHER_OP, "(shard 0 receives from %s and from %s)", "0", "nobody"},
};

/* Checks them, and leaves them in `text` as they are if the usual call is named first; "" if none are due. */
static void check_words(collective op, int k, char text[96])
{
    *text = 0;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        if (words[w].kind != 1 << k || (words[w].op >= 0 && words[w].op != (int)op))
            continue;
        const char *other = 1u << k == SKIPPED ? last : odd;
        bool first = strstr(spmd_last_error(), other) < strstr(spmd_last_error(), usual);
        snprintf(text, 96, words[w].format, first ? words[w].odd : words[w].usual,
                 first ? words[w].usual : words[w].odd);
        check_named(op, k, text);
        snprintf(text, 96, words[w].format, words[w].usual, words[w].odd);
    }
}

/* "shard 1 psum f32[48] at a.c:1": from the call on, up to `end`. */
static void copy_call(const char *from, const char *end, char text[192])
{
    from = strchr(from + strlen("shard "), ' ') + 1;
    snprintf(text, 192, "%.*s", (int)(end - from), from);
}

/* The report as docs/mismatches.md has it: which of two shards noticed is chance, so they are A and B there, the usual
 * call first. */
static void expect_documented(const char *page, collective op, int k, const char *why)
{
    char line[1024], call[2][192];
    const char *text = strstr(spmd_last_error(), "no shard can go on: ");
    if (text) {
        snprintf(line, sizeof line, "\n%s, %s: %.*s\n", op_names[op], kind_names[k],
                 (int)(strstr(text, "; every shard") - text), text);
    } else {
        const char *a = strstr(spmd_last_error(), "calls: ") + strlen("calls: "), *b = strstr(a, ", shard ") + 2;
        const char *end = strpbrk(strstr(b, " at ") ? strstr(b, " at ") + 4 : strstr(b, " outputs") + 1, " ");
        copy_call(a, b - 2, call[0]);
        copy_call(b, end ? end : b + strlen(b), call[1]);
        bool told = end && end[1] == '(';
        ck_assert_msg(told == (*why != 0), "op %d, %s: other words: %s", op, kind_names[k], spmd_last_error());
        int first = strstr(call[0], usual) ? 0 : 1;
        snprintf(line, sizeof line, "\n%s, %s: shard A %s, shard B %s%s%s\n", op_names[op], kind_names[k], call[first],
                 call[1 - first], *why ? " " : "", why);
    }
    ck_assert_msg(strstr(page, line) != NULL, "docs/mismatches.md has no line:%s", line);
}

static void check_kind(collective op, int k, spmd_job *job, run_args *args, const char *page)
{
    char why[96];
    *args = (run_args){op, 1u << k, (int)(op + (unsigned)k) % 4};
    double start = seconds();
    spmd_status status = spmd_shard_map(job);
    ck_assert_msg(status == SPMD_EMISMATCH, "op %d, %s: %s: %s", op, kind_names[k], spmd_status_name(status),
                  spmd_last_error());
    ck_assert_msg(seconds() - start < 5, "op %d, %s: %g s", op, kind_names[k], seconds() - start);
    check_named(op, k, usual);
    check_words(op, k, why);
    check_named(op, k, 1u << k == SKIPPED ? last : 1u << k == RETURNED ? "returned 1 outputs" : odd);
    expect_documented(page, op, k, why);
    ck_assert_ptr_null(job->out[0]);
    args->how = 0;
    ck_spmd_ok(spmd_shard_map(job));
    float sum[48];
    ck_spmd_ok(spmd_unshard(job->out[0], sum));
    ck_assert(sum[0] == 4 && sum[47] == 4);
    spmd_array_destroy(job->out[0]);
    job->out[0] = NULL;
}

static char *read_page(void)
{
    char path[PATH_MAX];
    const char *golden = getenv("SPMD_GOLDEN_DIR");
    ck_assert_msg(golden != NULL, "SPMD_GOLDEN_DIR is not set: run it by ctest");
    snprintf(path, sizeof path, "%.3000s/../../docs/mismatches.md", golden);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "no file %s", path);
    char *page = calloc(1, 1 << 16);
    ck_assert_uint_lt(fread(page, 1, 1 << 16, file), 1 << 16);
    fclose(file);
    return page;
}

START_TEST(differences_are_reported_and_survived)
{
    char *page = read_page();
    spmd_mesh *mesh;
    spmd_array *in[4], *out = NULL;
    run_args args;
    const spmd_spec specs[] = {SPMD_REPLICATED};
    ck_spmd_ok(spmd_mesh_create("x=2,y=2", spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL); /* sums of replicated values are wanted here */
    for (int k = 0; k < 4; k++) {
        ck_spmd_ok(spmd_shard(mesh, NULL, k == 1 ? SPMD_I32 : SPMD_F32, 3, shapes[k], SPMD_REPLICATED, &in[k]));
        if (k == 3)
            ck_spmd_ok(spmd_array_set(in[k], 1));
    }
    spmd_job job = {
        .mesh = mesh, .fn = run, .user = &args, .nin = 4, .nout = 1, .in = in, .out = &out, .out_specs = specs};
    for (int k = 0; k < KINDS; k++)
        if (applies((collective)_i, 1u << k))
            check_kind((collective)_i, k, &job, &args, page);
    for (int k = 0; k < 4; k++)
        spmd_array_destroy(in[k]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    free(page);
}
END_TEST

/* The page has no line of what cannot be. */
START_TEST(the_page_has_no_other_lines)
{
    char *page = read_page(), name[64];
    for (int op = 0; op < OPS; op++)
        for (int k = 0; k < KINDS; k++) {
            bool due = applies((collective)op, 1u << k);
            snprintf(name, sizeof name, "\n%s, %s: ", op_names[op], kind_names[k]);
            const char *line = strstr(page, name);
            ck_assert_msg((line != NULL) == due, "docs/mismatches.md: the line '%s' is %s", name + 1,
                          due ? "missing" : "one too many");
            ck_assert_msg(!line || !strstr(line + 1, name), "docs/mismatches.md has '%s' twice", name + 1);
        }
    free(page);
}
END_TEST

/* The order in which the axes of a reduction are named has no meaning: it may differ. */
static spmd_status other_order(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum(ctx, in, spmd_ctx_device(ctx) ? "x,y" : "y,x", out);
}

START_TEST(axes_of_a_sum_have_no_order)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "(x,y)", SPMD_SHAPE(4), 1), y = {.spec = NULL};
    ck_spmd_ok(spmd_test_run("x=2,y=2", other_order, NULL, 1, &x, 1, &y));
    ck_assert(spmd_value_at(&y, 0) ==
              spmd_value_at(&x, 0) + spmd_value_at(&x, 1) + spmd_value_at(&x, 2) + spmd_value_at(&x, 3));
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

SPMD_TEST_MAIN("mismatch", tcase_add_loop_test(tc, differences_are_reported_and_survived, 0, OPS);
               tcase_add_test(tc, the_page_has_no_other_lines); tcase_add_test(tc, axes_of_a_sum_have_no_order);)
