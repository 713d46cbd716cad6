/* Failures: a shard that fails, skips, waits on other axes, hangs; and who may call what from where. */
#include "spmd/testing.h"
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Log lines, one after the other; `user` is a buffer of LOG_SIZE or NULL. */
enum { LOG_SIZE = 8192 };

static void keep_line(void *user, const char *line)
{
    char *text = user;
    if (text)
        snprintf(text + strlen(text), LOG_SIZE - strlen(text), "%s\n", line);
}

static spmd_mesh *mesh_of(const char *axes)
{
    spmd_mesh *mesh;
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, keep_line, NULL);
    return mesh;
}

static spmd_status sum_ranks(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    SPMD_TRY(spmd_axis_index(ctx, "x", &out[0]));
    return spmd_psum(ctx, &out[0], "x", &out[0]);
}

/* runs fn without inputs, one replicated output */
static spmd_status run(spmd_mesh *mesh, spmd_shard_fn *fn, void *user, int32_t *result)
{
    spmd_array *y = NULL;
    spmd_job job = {
        .mesh = mesh, .fn = fn, .user = user, .nout = 1, .out = &y, .out_specs = (spmd_spec[]){SPMD_REPLICATED}};
    spmd_status status = spmd_shard_map(&job);
    if (status == SPMD_OK)
        status = spmd_unshard(y, result);
    spmd_array_destroy(y);
    return status;
}

static spmd_status fails_on_one(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    SPMD_CHECK(spmd_ctx_device(ctx) != *(int *)user, SPMD_EUSER, "my own trouble %d", 42);
    SPMD_TRY(spmd_axis_index(ctx, "x", &out[0]));
    return spmd_psum(ctx, &out[0], "x", &out[0]);
}

START_TEST(one_failing_shard_ends_the_launch_and_the_mesh_lives_on)
{
    spmd_mesh *mesh = mesh_of("x=8");
    int32_t got;
    for (int bad = 0; bad < 8; bad++) {
        ck_spmd_fails(run(mesh, fails_on_one, &bad, &got), SPMD_EUSER, "my own trouble 42");
        char shard[32];
        snprintf(shard, sizeof shard, "shard %d (x=%d)", bad, bad);
        ck_assert_msg(strstr(spmd_last_error(), shard), "%s", spmd_last_error());
        ck_spmd_ok(run(mesh, sum_ranks, NULL, &got));
        ck_assert_int_eq(got, 28);
    }
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

/* The failing launch leaves the given output as it was. */
START_TEST(a_failed_launch_changes_no_output)
{
    spmd_mesh *mesh = mesh_of("x=4");
    const int32_t before = 7;
    int32_t after;
    spmd_array *y;
    int bad = 3;
    ck_spmd_ok(spmd_shard(mesh, &before, SPMD_I32, SPMD_SCALAR, SPMD_REPLICATED, &y));
    spmd_job job = {.mesh = mesh,
                    .fn = fails_on_one,
                    .user = &bad,
                    .nout = 1,
                    .out = &y,
                    .out_specs = (spmd_spec[]){SPMD_REPLICATED}};
    ck_spmd_fails(spmd_shard_map(&job), SPMD_EUSER, "trouble");
    ck_spmd_ok(spmd_unshard(y, &after));
    ck_assert_int_eq(after, 7);
    spmd_array_destroy(y);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static spmd_status leaves_early(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_axis_index(ctx, "x", &out[0]));
    return spmd_ctx_device(ctx) == 1 ? spmd_full(ctx, 0, SPMD_I32, SPMD_SCALAR, &out[0])
                                     : sum_ranks(ctx, in, out, user);
}

START_TEST(a_shard_that_skips_a_collective_is_named)
{
    spmd_mesh *mesh = mesh_of(_i ? "x=2,y=2" : "x=2");
    int32_t got;
    ck_spmd_fails(run(mesh, leaves_early, NULL, &got), SPMD_EMISMATCH, "test_failures.c");
    ck_assert_msg(strstr(spmd_last_error(), _i ? "the end of the shard function" : "returned 1 output"), "%s",
                  spmd_last_error());
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static spmd_status crossed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    SPMD_TRY(spmd_axis_index(ctx, "x,y", &out[0]));
    bool first = spmd_ctx_device(ctx) == 0 || spmd_ctx_device(ctx) == 3; /* a ring of waits */
    SPMD_TRY(spmd_psum(ctx, &out[0], first ? "x" : "y", &out[0]));
    return spmd_psum(ctx, &out[0], first ? "y" : "x", &out[0]);
}

START_TEST(calls_on_different_axes_are_found_at_once)
{
    spmd_mesh *mesh = mesh_of("x=2,y=2");
    int32_t got;
    time_t start = time(NULL);
    ck_spmd_fails(run(mesh, crossed, NULL, &got), SPMD_EMISMATCH, "no shard can go on");
    ck_assert_msg(strstr(spmd_last_error(), "shard 3 waits in psum at"), "%s", spmd_last_error());
    ck_assert(time(NULL) - start < 10);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
} gate;

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static spmd_status hangs(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    gate *g = user;
    if (spmd_ctx_device(ctx) == 1) {
        pthread_mutex_lock(&g->lock);
        while (!g->open)
            pthread_cond_wait(&g->changed, &g->lock);
        pthread_mutex_unlock(&g->lock);
    }
    return sum_ranks(ctx, in, out, NULL);
}

START_TEST(a_shard_that_never_returns_loses_the_mesh_not_the_program)
{
    setenv("SPMD_TIMEOUT_MS", "300", 1);
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    spmd_mesh *mesh = mesh_of(_i ? "x=1,y=2" : "x=2");
    char log[LOG_SIZE] = "";
    int32_t got;
    spmd_mesh_set_log(mesh, keep_line, log);
    ck_spmd_fails(run(mesh, hangs, &g, &got), SPMD_ETIMEOUT, "shard 1 runs");
    spmd_mesh_set_log(mesh, keep_line, NULL);
    ck_assert_msg(strstr(log, "flight recorder, shard 0: #0 axis_index, #1 psum at tests/spmd/test_failures.c:"), "%s",
                  log);
    ck_assert_msg(strstr(log, "flight recorder, shard 1: no calls"), "%s", log);
    ck_spmd_fails(run(mesh, sum_ranks, NULL, &got), SPMD_EMESHLOST, "never came back");
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    gate_open(&g); /* the thread comes back to a mesh that only it still holds */
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}
END_TEST

static spmd_status nested(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    int32_t got;
    SPMD_TRY(sum_ranks(ctx, in, out, NULL));
    return run(user, sum_ranks, NULL, &got);
}

START_TEST(launches_do_not_nest)
{
    spmd_mesh *mesh = mesh_of("x=2"), *other = mesh_of("x=2");
    int32_t got;
    ck_spmd_fails(run(mesh, nested, mesh, &got), SPMD_EINVAL, "inside a shard function");
    ck_spmd_fails(run(mesh, nested, other, &got), SPMD_EINVAL, "inside a shard function");
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    ck_spmd_ok(spmd_mesh_destroy(other));
}
END_TEST

typedef struct busy {
    spmd_mesh *mesh;
    gate gate, running;
} busy;

static spmd_status waits(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    busy *b = user;
    gate_open(&b->running);
    return hangs(ctx, in, out, &b->gate);
}

static void *launch_in_thread(void *user)
{
    busy *b = user;
    int32_t got;
    return (void *)(intptr_t)run(b->mesh, waits, b, &got);
}

START_TEST(one_launch_at_a_time)
{
    busy b = {.gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false},
              .running = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}};
    b.mesh = mesh_of("x=2");
    pthread_t thread;
    pthread_create(&thread, NULL, launch_in_thread, &b);
    pthread_mutex_lock(&b.running.lock);
    while (!b.running.open)
        pthread_cond_wait(&b.running.changed, &b.running.lock);
    pthread_mutex_unlock(&b.running.lock);
    int32_t got;
    spmd_status second = run(b.mesh, sum_ranks, NULL, &got), destroyed = spmd_mesh_destroy(b.mesh);
    gate_open(&b.gate);
    void *first;
    pthread_join(thread, &first);
    ck_assert_int_eq(second, SPMD_EBUSY);
    ck_assert_int_eq(destroyed, SPMD_EBUSY);
    ck_assert_int_eq((intptr_t)first, SPMD_OK);
    ck_spmd_ok(spmd_mesh_destroy(b.mesh));
}
END_TEST

START_TEST(a_forked_child_is_told)
{
    spmd_mesh *mesh = mesh_of("x=2");
    pid_t child = fork();
    if (child == 0) {
        int32_t got;
        bool told = run(mesh, sum_ranks, NULL, &got) == SPMD_EFORK && strstr(spmd_last_error(), "CK_FORK=no") &&
                    spmd_mesh_destroy(mesh) == SPMD_EFORK;
        _exit(told ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

typedef struct foreign {
    spmd_ctx *ctx;
    spmd_tensor tensor;
    spmd_status status;
} foreign;

static void *use_foreign_context(void *user)
{
    foreign *f = user;
    f->status = spmd_neg(f->ctx, &f->tensor, &f->tensor);
    return NULL;
}

static spmd_status spawns(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    foreign f = {.ctx = ctx};
    SPMD_TRY(spmd_full(ctx, 1, SPMD_F32, SPMD_SCALAR, &f.tensor));
    pthread_t thread;
    SPMD_CHECK(!pthread_create(&thread, NULL, use_foreign_context, &f), SPMD_EUSER, "no thread");
    pthread_join(thread, NULL);
    return spmd_full(ctx, f.status, SPMD_I32, SPMD_SCALAR, &out[0]);
}

START_TEST(only_the_shards_own_thread_may_use_its_context)
{
    spmd_mesh *mesh = mesh_of("x=2");
    int32_t got;
    ck_spmd_ok(run(mesh, spawns, NULL, &got));
    ck_assert_int_eq(got, SPMD_EINVAL);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("failures", tcase_add_test(tc, one_failing_shard_ends_the_launch_and_the_mesh_lives_on);
               tcase_add_test(tc, a_failed_launch_changes_no_output);
               tcase_add_loop_test(tc, a_shard_that_skips_a_collective_is_named, 0, 2);
               tcase_add_test(tc, calls_on_different_axes_are_found_at_once);
               tcase_add_loop_test(tc, a_shard_that_never_returns_loses_the_mesh_not_the_program, 0, 2);
               tcase_add_test(tc, launches_do_not_nest); tcase_add_test(tc, one_launch_at_a_time);
               tcase_add_test(tc, a_forked_child_is_told);
               tcase_add_test(tc, only_the_shards_own_thread_may_use_its_context);)
