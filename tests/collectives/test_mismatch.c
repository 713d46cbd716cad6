/* One shard calls something else than all others: every kind of difference with every collective. The error names both
 * calls, comes at once, and the mesh works afterwards. docs/mismatches.md shows what users then read. */
#include "spmd/testing.h"
#include <stdio.h>
#include <time.h>

/* The contexts that calls are made with: their sites are what the messages must name. */
static const char *const usual = "usual.c:1", *const odd = "odd.c:2", *const last = "last.c:3";

typedef enum collective {
    PSUM,
    PMEAN,
    PMAX,
    PMIN,
    LIST,
    GATHER,
    SCATTER,
    EXCHANGE,
    PERMUTE,
    SHUFFLE,
    BROADCAST,
    RAGGED
} collective;
enum { OPS = RAGGED + 1 };

/* What is different; each a bit, since a call is described by the set of its differences. */
typedef enum kind {
    DTYPE = 1,
    COUNT = 2,
    SHAPE = 4,
    OPTIONS = 8, /* dimension and tiling; pairs; permutation; source; number of tensors */
    AXES_ORDER = 16,
    GROUPS = 32,
    AXES = 64,
    OTHER_OP = 128, /* among them another reduction */
    SKIPPED = 256,
    RETURNED = 512,
    SWAPPED = 1024,
} kind;
enum { KINDS = 11 };
static const char *const kind_names[KINDS] = {"dtype", "count", "shape",   "options",  "axes order", "groups",
                                              "axes",  "op",    "skipped", "returned", "swapped"};

/* Tensors of [4, 4, 3] over 4 shards; then one of another dtype, count, shape. */
static const int64_t shapes[4][3] = {{4, 4, 3}, {4, 4, 3}, {4, 2, 3}, {4, 3, 4}};

static const spmd_tensor *input(const spmd_tensor *in, unsigned how)
{
    return &in[how & DTYPE ? 1 : how & COUNT ? 2 : how & SHAPE ? 3 : 0];
}

static spmd_status reduce(spmd_ctx *ctx, collective op, const spmd_tensor *t, unsigned how, const char *axes,
                          spmd_tensor *out)
{
    static spmd_status (*const plain[])(spmd_ctx *, const spmd_tensor *, const char *,
                                        spmd_tensor *) = {spmd_psum, spmd_pmean, spmd_pmax, spmd_pmin};
    static spmd_status (*const grouped[])(spmd_ctx *, const spmd_tensor *, const char *, const char *,
                                          spmd_tensor *) = {spmd_psum_groups, spmd_pmean_groups, spmd_pmax_groups,
                                                            spmd_pmin_groups};
    return how & GROUPS ? grouped[op](ctx, t, axes, "0,1;2,3", out) : plain[op](ctx, t, axes, out);
}

static spmd_status ragged(spmd_ctx *ctx, const spmd_tensor *t, const char *axes, spmd_tensor *out)
{
    spmd_tensor zeros;
    int n;
    SPMD_TRY(spmd_axis_size(ctx, axes, &n));
    SPMD_TRY(spmd_full(ctx, 0, SPMD_I32, SPMD_SHAPE(n), &zeros)); /* nothing is sent */
    return (spmd_ragged_all_to_all)(ctx, t, t, &zeros, &zeros, &zeros, &zeros, axes, out);
}

static spmd_status call(spmd_ctx *ctx, collective op, const spmd_tensor *in, unsigned how, const char *site)
{
    const char *axes = how & AXES ? "x" : how & AXES_ORDER ? "y,x" : "x,y";
    const char *groups = how & GROUPS ? "0,1;2,3" : NULL;
    const spmd_tensor *t = input(in, how);
    bool other = how & OPTIONS;
    spmd_tensor out[2];
    if (how & OTHER_OP)
        op = (op + 1) % OPS;
    spmd_ctx_at(ctx, site);
    switch (op) {
    case LIST:
        return (spmd_psum_list)(ctx, (const spmd_tensor[]){*t, in[0]}, other ? 1 : 2, axes, out);
    case GATHER:
        return (spmd_all_gather)(ctx, t, axes, &(spmd_gather_opts){.dim = other, .groups = groups}, out);
    case SCATTER:
        return (spmd_psum_scatter)(ctx, t, axes, &(spmd_scatter_opts){0, groups || !other, groups}, out);
    case EXCHANGE:
        return (spmd_all_to_all)(ctx, t, axes, &(spmd_exchange_opts){0, 0, groups || !other, groups}, out);
    case PERMUTE:
        return (spmd_ppermute)(ctx, t, axes, (const int[][2]){{other, 1}}, 1, out);
    case SHUFFLE:
        return (spmd_pshuffle)(ctx, t, axes, other ? (const int[]){1, 0, 2, 3} : (const int[]){0, 1, 2, 3},
                               how & AXES ? 2 : 4, out);
    case BROADCAST:
        return (spmd_pbroadcast)(ctx, t, axes, other, out);
    case RAGGED:
        return ragged(ctx, t, axes, out);
    default:
        return reduce(ctx, op, t, how, axes, out);
    }
}

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
};

static void check_words(collective op, int k)
{
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        if (words[w].kind != 1 << k || (words[w].op >= 0 && words[w].op != (int)op))
            continue;
        char text[96];
        bool first = strstr(spmd_last_error(), odd) < strstr(spmd_last_error(), usual);
        snprintf(text, sizeof text, words[w].format, first ? words[w].odd : words[w].usual,
                 first ? words[w].usual : words[w].odd);
        check_named(op, k, text);
    }
}

static void check_kind(collective op, int k, spmd_job *job, run_args *args)
{
    *args = (run_args){op, 1u << k, (int)(op + (unsigned)k) % 4};
    double start = seconds();
    spmd_status status = spmd_shard_map(job);
    ck_assert_msg(status == SPMD_EMISMATCH, "op %d, %s: %s: %s", op, kind_names[k], spmd_status_name(status),
                  spmd_last_error());
    ck_assert_msg(seconds() - start < 5, "op %d, %s: %g s", op, kind_names[k], seconds() - start);
    check_named(op, k, usual);
    check_words(op, k);
    check_named(op, k, 1u << k == SKIPPED ? last : 1u << k == RETURNED ? "returned 1 outputs" : odd);
    ck_assert_ptr_null(job->out[0]);
    args->how = 0;
    ck_spmd_ok(spmd_shard_map(job));
    float sum[48];
    ck_spmd_ok(spmd_unshard(job->out[0], sum));
    ck_assert(sum[0] == 4 && sum[47] == 4);
    spmd_array_destroy(job->out[0]);
    job->out[0] = NULL;
}

START_TEST(differences_are_reported_and_survived)
{
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
            check_kind((collective)_i, k, &job, &args);
    for (int k = 0; k < 4; k++)
        spmd_array_destroy(in[k]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
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
               tcase_add_test(tc, axes_of_a_sum_have_no_order);)
