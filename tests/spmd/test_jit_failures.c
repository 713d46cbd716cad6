/* Programs and failures: what a failed replay leaves behind, whose a jit is, and threads that never come back. */
#include "spmd/testing.h"
#include <stdatomic.h>
#include <time.h>

/* A kernel that doubles its input, and fails, or waits, on one shard when it is told to. */
typedef struct trouble {
    atomic_int fail, hang, left; /* left: kernels that came through */
} trouble;

static spmd_status doubled_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    out[0].dtype = in[0].dtype;
    out[0].rank = in[0].rank;
    memcpy(out[0].shape, in[0].shape, sizeof out[0].shape);
    return SPMD_OK;
}

static spmd_status doubled_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout;
    trouble *t = user;
    const float *x = in[0].data;
    float *y = out[0].data;
    bool first = x[0] < 1; /* the block of shard 0 begins with 0 */
    while (first && atomic_load(&t->hang))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    SPMD_CHECK(!first || !atomic_load(&t->fail), SPMD_EUSER, "the kernel has trouble");
    for (int64_t i = 0; i < spmd_view_count(&in[0]); i++)
        y[i] = 2 * x[i];
    atomic_fetch_add(&t->left, 1);
    return SPMD_OK;
}

typedef struct fixture {
    trouble trouble;
    spmd_custom_op op;
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_profile *profile;
    spmd_array *x, *z, *y[2];
} fixture;

static const float start[] = {0, 1, 2, 3};

/* y[0] is x updated in place; y[1] comes from the kernel, after it (`late`) or before it. */
static spmd_status early(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_custom(ctx, &((fixture *)user)->op, &in[1], 1, &out[1], 1));
    SPMD_TRY(spmd_neg(ctx, &out[1], &out[1])); /* the kernel's own result is no output's block */
    return spmd_sub(ctx, &in[0], &out[1], &out[0]);
}

static spmd_status late(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_neg(ctx, &in[0], &out[0]));
    return spmd_custom(ctx, &((fixture *)user)->op, &in[1], 1, &out[1], 1);
}

static void open_fixture(fixture *f)
{
    memset(f, 0, sizeof *f);
    f->op = (spmd_custom_op){.name = "doubled", .shape = doubled_shape, .host = doubled_host, .user = &f->trouble};
    ck_spmd_ok(spmd_mesh_create("x=2", spmd_test_backend(), &f->mesh));
    spmd_mesh_set_log(f->mesh, NULL, NULL);
    ck_spmd_ok(spmd_jit_create(f->mesh, &f->jit));
    ck_spmd_ok(spmd_profile_create(f->mesh, 100, &f->profile));
    ck_spmd_ok(spmd_shard(f->mesh, start, SPMD_F32, SPMD_SHAPE(4), SPMD_P("x"), &f->x));
    ck_spmd_ok(spmd_shard(f->mesh, start, SPMD_F32, SPMD_SHAPE(4), SPMD_P("x"), &f->z));
    f->y[0] = f->x;
}

static void close_fixture(fixture *f)
{
    spmd_array_destroy(f->x);
    spmd_array_destroy(f->z);
    spmd_array_destroy(f->y[1]);
    spmd_jit_destroy(f->jit);
    spmd_profile_destroy(f->profile);
    ck_spmd_ok(spmd_mesh_destroy(f->mesh));
}

static spmd_status launch(fixture *f, spmd_shard_fn *fn)
{
    spmd_job job = {.mesh = f->mesh,
                    .fn = fn,
                    .user = f,
                    .nin = 2,
                    .in = (spmd_array *[]){f->x, f->z},
                    .nout = 2,
                    .out = f->y,
                    .out_specs = (spmd_spec[]){SPMD_P("x"), SPMD_P("x")},
                    .jit = f->jit,
                    .profile = f->profile};
    return spmd_shard_map(&job);
}

START_TEST(a_failure_before_the_first_update_changes_nothing)
{
    fixture f;
    float got[4];
    open_fixture(&f);
    for (int recorded = 0; recorded < 2; recorded++) {
        atomic_store(&f.trouble.fail, 1);
        ck_spmd_fails(launch(&f, early), SPMD_EUSER, "the kernel has trouble");
        ck_assert_msg(!strstr(spmd_last_error(), "undefined"), "%s", spmd_last_error());
        ck_spmd_ok(spmd_unshard(f.x, got));
        ck_assert_mem_eq(got, start, sizeof got);
        atomic_store(&f.trouble.fail, 0);
        ck_spmd_ok(launch(&f, early));
        ck_spmd_ok(spmd_shard_update(f.x, start));
    }
    close_fixture(&f);
}
END_TEST

START_TEST(a_failure_after_an_update_says_that_arrays_are_undefined)
{
    fixture f;
    open_fixture(&f);
    ck_spmd_ok(launch(&f, late));
    atomic_store(&f.trouble.fail, 1);
    ck_spmd_fails(launch(&f, late), SPMD_EUSER, "output arrays are now undefined: shard 0");
    atomic_store(&f.trouble.fail, 0);
    ck_spmd_ok(launch(&f, late));
    close_fixture(&f);
}
END_TEST

START_TEST(a_jit_serves_its_own_mesh_only)
{
    fixture f, other;
    open_fixture(&f);
    open_fixture(&other);
    spmd_jit *own = f.jit;
    f.jit = other.jit;
    ck_spmd_fails(launch(&f, late), SPMD_EINVAL, "another mesh");
    f.jit = own;
    ck_spmd_ok(launch(&f, late));
    close_fixture(&f);
    close_fixture(&other);
}
END_TEST

START_TEST(a_stuck_thread_keeps_its_program)
{
    fixture f;
    setenv("SPMD_TIMEOUT_MS", "200", 1);
    open_fixture(&f);
    ck_spmd_ok(launch(&f, late));
    int before = atomic_load(&f.trouble.left);
    atomic_store(&f.trouble.hang, 1);
    ck_spmd_fails(launch(&f, late), SPMD_ETIMEOUT, "shard 0");
    close_fixture(&f);
    atomic_store(&f.trouble.hang, 0); /* the thread comes back to arrays and a program that only it still needs */
    for (int tries = 0; tries < 1000 && atomic_load(&f.trouble.left) < before + 2; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    ck_assert_int_eq(atomic_load(&f.trouble.left), before + 2);
}
END_TEST

/* Shards that record different calls are told which, with both places. */
static spmd_status one_shard_differs(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    if (spmd_ctx_device(ctx) == 1)
        return spmd_pmax(ctx, in, "x", out);
    return spmd_pmin(ctx, in, "x", out);
}

START_TEST(different_recordings_are_named)
{
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *x, *y = NULL;
    spmd_spec cut = SPMD_P("x"), replicated = SPMD_REPLICATED;
    ck_spmd_ok(spmd_mesh_create("x=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_jit_create(mesh, &jit));
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SHAPE(4), cut, &x));
    spmd_job job = {.mesh = mesh,
                    .fn = one_shard_differs,
                    .nin = 1,
                    .in = &x,
                    .nout = 1,
                    .out = &y,
                    .out_specs = &replicated,
                    .jit = jit};
    ck_spmd_fails(spmd_shard_map(&job), SPMD_EMISMATCH, "call 0 is pm");
    ck_assert_msg(strstr(spmd_last_error(), "pmax at ") && strstr(spmd_last_error(), "pmin at "), "%s",
                  spmd_last_error());
    spmd_array_destroy(x);
    spmd_jit_destroy(jit);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(programs_that_are_not_there)
{
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_program_info info;
    ck_spmd_ok(spmd_mesh_create("x=1", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_jit_create(mesh, &jit));
    ck_assert_int_eq(spmd_jit_programs(NULL), 0);
    ck_spmd_fails(spmd_jit_info(NULL, 0, &info), SPMD_EINVAL, "no program 0: 0 are recorded");
    ck_spmd_fails(spmd_jit_info(jit, 0, &info), SPMD_EINVAL, "no program 0: 0 are recorded");
    ck_spmd_fails(spmd_jit_info(jit, 0, NULL), SPMD_EINVAL, "out must not be NULL");
    ck_spmd_fails(spmd_jit_print(NULL, -1, stderr), SPMD_EINVAL, "no program -1: 0 are recorded");
    ck_spmd_fails(spmd_jit_print(jit, 0, NULL), SPMD_EINVAL, "file must not be NULL");
    spmd_jit_destroy(jit);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("jit failures", tcase_add_test(tc, programs_that_are_not_there);
               tcase_add_test(tc, different_recordings_are_named);
               tcase_add_test(tc, a_failure_before_the_first_update_changes_nothing);
               tcase_add_test(tc, a_failure_after_an_update_says_that_arrays_are_undefined);
               tcase_add_test(tc, a_jit_serves_its_own_mesh_only);
               tcase_add_test(tc, a_stuck_thread_keeps_its_program);)
