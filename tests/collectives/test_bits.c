/* The same bits: from run to run, on every shard, in a list or alone, in place or not, by mail or not, on all
 * backends; they are those of a plain loop in rank order that rounds once. And meshes leave nothing behind. */
#include "spmd/testing.h"
#include <dirent.h>
#include <stdio.h>
#include <time.h>

enum { PARTS = 8 };
static const struct {
    int64_t size;
    spmd_dtype dtype;
} parts[PARTS] = {{1, SPMD_F32},     {1000, SPMD_F32}, {17, SPMD_BF16},  {0, SPMD_F32},
                  {5003, SPMD_BF16}, {64, SPMD_F32},   {2049, SPMD_F16}, {5003, SPMD_F32}};

typedef struct way {
    bool list, donated;
} way;

static spmd_status sum_parts(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const way *w = user;
    spmd_tensor own[PARTS]; /* an input's memory cannot be donated, an op's result can */
    for (int k = 0; k < PARTS; k++) {
        own[k] = in[k];
        if (w->donated) {
            SPMD_TRY(spmd_slice(ctx, &in[k], 0, 0, in[k].shape[0], &own[k]));
            spmd_donate(&own[k]);
        }
    }
    if (w->list)
        return spmd_psum_list(ctx, own, PARTS, "x", out);
    for (int k = 0; k < PARTS; k++)
        SPMD_TRY(spmd_psum(ctx, &own[k], "x", &out[k]));
    return SPMD_OK;
}

static spmd_value sum_in_rank_order(const spmd_value *in, int n)
{
    spmd_value want = spmd_value_zeros(in->dtype, NULL, in->rank, in->shape);
    int64_t count = spmd_value_count(in) / n;
    for (int64_t i = 0; i < count; i++) {
        volatile float sum = (float)spmd_value_at(in, i);
        for (int k = 1; k < n; k++)
            sum = sum + (float)spmd_value_at(in, k * count + i);
        for (int k = 0; k < n; k++)
            spmd_value_set(&want, k * count + i, sum); /* to nearest even */
    }
    return want;
}

START_TEST(bits_are_the_same)
{
    static const int shards[] = {1, 2, 3, 5, 8};
    int n = shards[_i / 2], runs = spmd_test_timeout() > 60 ? 12 : 50; /* fewer where all is checked */
    char mesh[16];
    snprintf(mesh, sizeof mesh, "x=%d", n);
    setenv("SPMD_TEST_BACKEND", _i % 2 ? "host-strict" : "host", false); /* unless one is chosen */
    spmd_value in[PARTS], want[PARTS], out[PARTS];
    for (int k = 0; k < PARTS; k++) {
        in[k] = spmd_value_random(parts[k].dtype, "x", SPMD_SHAPE(n * parts[k].size), 1000, (unsigned)k + 1);
        want[k] = sum_in_rank_order(&in[k], n);
    }
    for (int run = 0; run < runs; run++) {
        way w = {run & 1, run & 2};
        for (int k = 0; k < PARTS; k++)
            out[k] = (spmd_value){.spec = "x"};
        ck_spmd_ok(spmd_test_run(mesh, sum_parts, &w, PARTS, in, PARTS, out));
        for (int k = 0; k < PARTS; k++)
            ck_assert_msg(spmd_value_count_wrong(&out[k], &want[k]) == 0, "%s run %d (list %d, donated %d) part %d",
                          mesh, run, w.list, w.donated, k);
        spmd_values_free(out, PARTS);
    }
    spmd_values_free(in, PARTS);
    spmd_values_free(want, PARTS);
}
END_TEST

/* --- the boxes of mail are used again and again, by shards that now and then are late to read them --- */
static spmd_status late_readers(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    (void)user;
    static const struct {
        const char *axes;
        double sum; /* of index + 1 over the axes */
    } turns[] = {{"x,y", 36}, {"y", 3}, {"x", 10}};
    spmd_tensor wrong, index;
    SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, &wrong));
    for (int k = 1; k <= 300; k++) {
        spmd_tensor sum, expected;
        SPMD_TRY(spmd_axis_index(ctx, turns[k % 3].axes, &index));
        SPMD_TRY(spmd_cast(ctx, &index, SPMD_F32, &index));
        SPMD_TRY(spmd_full(ctx, 1, SPMD_F32, SPMD_SCALAR, &sum));
        SPMD_TRY(spmd_add(ctx, &index, &sum, &sum));
        SPMD_TRY(spmd_scale(ctx, &sum, k, &sum)); /* another value every time */
        SPMD_TRY(spmd_psum(ctx, &sum, turns[k % 3].axes, &sum));
        SPMD_TRY(spmd_full(ctx, k * turns[k % 3].sum, SPMD_F32, SPMD_SCALAR, &expected));
        SPMD_TRY(spmd_sub(ctx, &sum, &expected, &sum));
        SPMD_TRY(spmd_square(ctx, &sum, &sum));
        SPMD_TRY(spmd_add(ctx, &wrong, &sum, &wrong));
        if ((k + spmd_ctx_device(ctx)) % 7 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return spmd_psum(ctx, &wrong, "x,y", out);
}

START_TEST(mail_waits_for_late_readers)
{
    spmd_value wrong = {.spec = NULL};
    ck_spmd_ok(spmd_test_run("x=4,y=2", late_readers, NULL, 0, NULL, 1, &wrong));
    ck_assert_msg(spmd_value_at(&wrong, 0) == 0, "off by %g", spmd_value_at(&wrong, 0));
    spmd_value_free(&wrong);
}
END_TEST

/* --- a thousand meshes: as many threads and open files as before --- */
static int entries(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* A joined thread's entry may stay a moment longer, under qemu in any case: the least of what is seen within a second,
 * or as soon as no more than `enough`. */
static int threads_left(int enough)
{
    int least = entries("/proc/self/task");
    for (int tries = 0; least > enough && tries < 1000; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        int now = entries("/proc/self/task");
        least = now < least ? now : least;
    }
    return least;
}

static spmd_status one_sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    (void)user;
    SPMD_TRY(spmd_axis_index(ctx, "x", out));
    return spmd_psum(ctx, out, "x", out);
}

START_TEST(meshes_leave_nothing_behind)
{
    const char *backend = _i ? "host-strict" : "host";
    int cycles = spmd_test_timeout() > 60 ? 100 : 1000, threads = 0, files = 0; /* fewer under sanitizers */
    const spmd_spec specs[] = {SPMD_REPLICATED};
    setenv("SPMD_SEED", "1", true);
    for (int cycle = 0; cycle <= cycles; cycle++) {
        spmd_mesh *mesh;
        spmd_array *out = NULL;
        ck_spmd_ok(spmd_mesh_create("x=3", backend, &mesh));
        spmd_mesh_set_log(mesh, NULL, NULL);
        ck_spmd_ok(
            spmd_shard_map(&(spmd_job){.mesh = mesh, .fn = one_sum, .nout = 1, .out = &out, .out_specs = specs}));
        spmd_array_destroy(out);
        ck_spmd_ok(spmd_mesh_destroy(mesh));
        if (cycle == 0) {              /* the first may open what stays, such as a sanitizer's thread */
            threads = threads_left(2); /* what a folder lists for no thread at all */
            files = entries("/proc/self/fd");
        }
    }
    ck_assert_int_eq(threads_left(threads), threads);
    ck_assert_int_eq(entries("/proc/self/fd"), files);
}
END_TEST

SPMD_TEST_MAIN("bits", tcase_add_loop_test(tc, bits_are_the_same, 0, 10);
               tcase_add_test(tc, mail_waits_for_late_readers);
               tcase_add_loop_test(tc, meshes_leave_nothing_behind, 0, 2);)
