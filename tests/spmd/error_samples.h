/* Calls that fail, one in the way of every status code; for test_errors.c alone. */
#ifndef TESTS_ERROR_SAMPLES_H
#define TESTS_ERROR_SAMPLES_H

#include "models/safetensors.h"
#include "models/train.h"
#include "spmd/testing.h"
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = 1024 };

/* --- shard functions: each fails in its way; `user` is a buffer of TEXT bytes --- */

static spmd_status nothing(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out, (void)user;
    return SPMD_OK;
}

static spmd_status exp_of(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_exp(ctx, in, out);
}

static spmd_status sum_over_nope(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum(ctx, in, "nope", out);
}

static spmd_status axis_index(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    return spmd_axis_index(ctx, "data", out);
}

static spmd_status pmax_loss(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    return spmd_pmax(ctx, &params[0], "data", loss);
}

static spmd_status grad_of_pmax(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_grad(ctx, pmax_loss, user, in, 1, out);
}

static spmd_status read_first(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)out, (void)user;
    spmd_view view;
    return spmd_local(ctx, &in[0], &view);
}

static spmd_status only_shard_0_sums(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    if (spmd_ctx_device(ctx) == 0)
        return spmd_psum(ctx, in, "data", out);
    out[0] = in[0];
    return SPMD_OK;
}

static spmd_status shard_1_fails(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_CHECK(spmd_ctx_device(ctx) == 0, SPMD_EUSER, "the loader has no batch %d: expected 0 to %d", 7, 6);
    return spmd_psum(ctx, in, "data", out);
}

/* What the waiting shard got stays in its own thread; it becomes the launch's own error here. */
static spmd_status shard_0_tells(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_status status = shard_1_fails(ctx, in, out, user);
    if (spmd_ctx_device(ctx) == 0)
        snprintf(user, TEXT, "%s", status == SPMD_EABORTED ? spmd_last_error() : "");
    return status;
}

/* --- host calls; `text` is filled only where the text is not this thread's last one --- */

static spmd_status no_devices(char *text)
{
    (void)text;
    spmd_mesh *mesh;
    return spmd_mesh_create("data=0", NULL, &mesh);
}

static spmd_status unknown_backend(char *text)
{
    (void)text;
    spmd_mesh *mesh;
    return spmd_mesh_create("data=2", "tpu", &mesh);
}

static spmd_status open_parenthesis(char *text)
{
    (void)text;
    spmd_spec spec;
    return spmd_spec_parse("(data,-", &spec);
}

static spmd_status mismatch(char *text)
{
    (void)text;
    spmd_value x = spmd_value_zeros(SPMD_F32, NULL, 0, NULL), out = {0};
    spmd_status status = spmd_test_run("data=2", only_shard_0_sums, NULL, 1, &x, 1, &out);
    spmd_value_free(&x);
    return status;
}

static spmd_status uneven_blocks(char *text)
{
    (void)text;
    spmd_value x = spmd_value_zeros(SPMD_F32, "data,model", SPMD_SHAPE(3, 5));
    spmd_status status = spmd_test_run("data=2,model=2", nothing, NULL, 1, &x, 0, NULL);
    spmd_value_free(&x);
    return status;
}

static spmd_status aborted(char *text)
{
    spmd_value x = spmd_value_zeros(SPMD_F32, NULL, 0, NULL), out = {0};
    spmd_status status = spmd_test_run("data=2", shard_0_tells, text, 1, &x, 1, &out);
    spmd_value_free(&x);
    return status == SPMD_EUSER && text[0] ? SPMD_EABORTED : status;
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static spmd_status stuck(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out;
    while (!atomic_load((atomic_bool *)user))
        nap(10);
    return SPMD_OK;
}

/* A launch that never ends, and (`again`) one more on its mesh. */
static spmd_status launch_stuck(bool again)
{
    atomic_bool release = false;
    spmd_mesh *mesh;
    setenv("SPMD_TIMEOUT_MS", "50", 1);
    spmd_status status = spmd_mesh_create("data=1", NULL, &mesh);
    unsetenv("SPMD_TIMEOUT_MS");
    SPMD_TRY(status);
    spmd_job job = {.mesh = mesh, .fn = stuck, .user = &release};
    status = spmd_shard_map(&job);
    if (again)
        status = spmd_shard_map(&job);
    atomic_store(&release, true);
    nap(100); /* the thread still reads `release` */
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return status;
}

static spmd_status times_out(char *text)
{
    (void)text;
    return launch_stuck(false);
}

static spmd_status lost_mesh(char *text)
{
    (void)text;
    return launch_stuck(true);
}

static spmd_status destroys_mesh(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out;
    return spmd_mesh_destroy(*(spmd_mesh **)user);
}

static spmd_status destroyed_while_running(char *text)
{
    (void)text;
    spmd_mesh *mesh;
    SPMD_TRY(spmd_mesh_create("data=1", NULL, &mesh));
    spmd_status status = spmd_shard_map(&(spmd_job){.mesh = mesh, .fn = destroys_mesh, .user = &mesh});
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return status;
}

static spmd_status used_in_child(char *text)
{
    spmd_mesh *mesh;
    int channel[2];
    SPMD_TRY(spmd_mesh_create("data=1", NULL, &mesh));
    ck_assert_int_eq(pipe(channel), 0);
    pid_t child = fork();
    if (child == 0) {
        spmd_status status = spmd_shard_map(&(spmd_job){.mesh = mesh, .fn = nothing});
        size_t length = strlen(spmd_last_error());
        _exit(write(channel[1], spmd_last_error(), length) == (ssize_t)length ? (int)status : 0);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert(read(channel[0], text, TEXT - 1) > 0);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return (spmd_status)WEXITSTATUS(status);
}

static bool refuse(void *user, spmd_operation operation, size_t bytes)
{
    if (operation != SPMD_ALLOCATION)
        return true;
    (void)user, (void)bytes;
    return false;
}

static spmd_status refused_memory(char *text)
{
    (void)text;
    spmd_mesh *mesh;
    spmd_array *array;
    SPMD_TRY(spmd_mesh_create("data=1", NULL, &mesh));
    spmd_mesh_set_fault_hook(mesh, refuse, NULL);
    spmd_status status = spmd_shard(mesh, NULL, SPMD_F32, 1, (int64_t[]){4}, SPMD_REPLICATED, &array);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return status;
}

static spmd_status missing_file(char *text)
{
    (void)text;
    spmd_safetensors *file;
    return spmd_safetensors_open("no/such.safetensors", &file);
}

static spmd_status short_file(char *text)
{
    (void)text;
    spmd_safetensors *opened;
    FILE *file = fopen("short.safetensors", "w");
    ck_assert_ptr_nonnull(file);
    fputs("abc", file);
    fclose(file);
    spmd_status status = spmd_safetensors_open("short.safetensors", &opened);
    remove("short.safetensors");
    return status;
}

static spmd_status infinite_input(char *text)
{
    (void)text;
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_options options;
    spmd_metrics metrics;
    float x[2 * 4] = {INFINITY};
    int32_t y[2] = {0};
    SPMD_TRY(spmd_train_defaults("mlp", &options));
    options.config.inputs = options.config.width = 4;
    options.batch = 2;
    SPMD_TRY(spmd_mesh_create("data=1", NULL, &mesh));
    SPMD_TRY(spmd_trainer_create(mesh, &options, &trainer));
    spmd_status status = spmd_trainer_step(trainer, x, y, &metrics);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return status;
}

static spmd_status read_while_recording(char *text)
{
    (void)text;
    spmd_mesh *mesh;
    spmd_jit *jit = NULL;
    spmd_array *x = NULL;
    SPMD_TRY(spmd_mesh_create("data=1", NULL, &mesh));
    spmd_status status = spmd_jit_create(mesh, &jit);
    if (status == SPMD_OK)
        status = spmd_shard(mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &x);
    if (status == SPMD_OK)
        status = spmd_shard_map(&(spmd_job){.mesh = mesh, .fn = read_first, .nin = 1, .in = &x, .jit = jit});
    spmd_array_destroy(x);
    spmd_jit_destroy(jit);
    spmd_mesh_destroy(mesh);
    return status;
}

#endif
