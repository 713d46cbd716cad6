/* Timing training steps: warm, several times, by the median. */
#include "cli/cli.h"
#include <stdlib.h>
#include <time.h>

enum { WARM = 4, REPEATS = 3, STEPS = 15 };

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static spmd_status run_steps(spmd_trainer *trainer, const float *x, const int32_t *y, int n)
{
    spmd_metrics metrics;
    for (int k = 0; k < n; k++)
        SPMD_TRY(spmd_trainer_step(trainer, x, y, &metrics));
    return SPMD_OK;
}

static spmd_status measure(spmd_trainer *trainer, const float *x, const int32_t *y, int64_t batch, cli_timing *out)
{
    double seconds[REPEATS];
    SPMD_TRY(run_steps(trainer, x, y, WARM));
    for (int r = 0; r < REPEATS; r++) {
        double start = cli_seconds();
        SPMD_TRY(run_steps(trainer, x, y, STEPS));
        seconds[r] = (cli_seconds() - start) / STEPS;
    }
    qsort(seconds, REPEATS, sizeof *seconds, ascending);
    *out = (cli_timing){.ms = seconds[REPEATS / 2] * 1e3, .examples_per_s = (double)batch / seconds[REPEATS / 2]};
    return SPMD_OK;
}

spmd_status cli_make_batch(const spmd_train_options *options, float **x, int32_t **y)
{
    size_t pixels = (size_t)(options->batch * options->config.inputs);
    *x = malloc(pixels * sizeof **x);
    *y = malloc((size_t)options->batch * sizeof **y);
    if (!*x || !*y) {
        free(*x);
        free(*y);
        return SPMD_FAIL(SPMD_ENOMEM, "out of memory for a batch of %lld", (long long)options->batch);
    }
    for (size_t i = 0; i < pixels; i++)
        (*x)[i] = (float)(i * 2654435761u % 256) / 255;
    for (int64_t i = 0; i < options->batch; i++)
        (*y)[i] = (int32_t)(i % options->config.classes);
    return SPMD_OK;
}

spmd_status cli_time_steps(spmd_trainer *trainer, const spmd_train_options *options, cli_timing *out)
{
    float *x;
    int32_t *y;
    SPMD_TRY(cli_make_batch(options, &x, &y));
    spmd_status status = measure(trainer, x, y, options->batch, out);
    free(x);
    free(y);
    return status;
}

spmd_status cli_time_on(const char *axes, const char *backend, const spmd_train_options *options, cli_timing *out,
                        spmd_program_info *program)
{
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    SPMD_TRY(spmd_mesh_create(axes, backend, &mesh));
    spmd_status status = spmd_trainer_create(mesh, options, &trainer);
    if (status == SPMD_OK) {
        status = cli_time_steps(trainer, options, out);
        if (status == SPMD_OK && program)
            status = spmd_jit_info(spmd_trainer_jit(trainer), 0, program);
        spmd_trainer_destroy(trainer);
    }
    spmd_mesh_destroy(mesh);
    return status;
}

const char *cli_scaling(int devices, double ratio)
{
    if (ratio > 1.1 * devices)
        return "More than that many devices can gain: the run on one was disturbed. Measure again.";
    return ratio > 0.8 * devices ? "It scales: the devices hardly wait for each other." : NULL;
}
