/* bench_step: training steps on synthetic data, each beside the step's own matrix products alone. Steps and products
 * take turns in one run, so a change of the machine's mood hits both; the share is the ratio of their medians. */
#include "bench/bench.h"
#include "bench/step_limit.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM = 3, FEWEST = 21, MOST = 1001 };
static const double SECONDS = 4; /* of steps and products together, if that allows more than the fewest */

typedef struct arguments {
    const char *model, *dtype, *mode, *backend;
    int64_t devices, batch, repeats, width, samples;
    bool eager, jit, json;
} arguments;

typedef struct bench {
    const bench_program *program;
    const arguments *args;
    spmd_train_options options;
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    step_limit *limit;
    float *x;
    int32_t *y;
    spmd_metrics last;
} bench;

typedef struct result {
    double first_step_s, first_step_end, ms, low, high, limit_ms, limit_low, flops; /* flops: of all devices */
    int64_t peak_rss;
    int samples;
} result;

static spmd_status step(bench *b, double *seconds)
{
    double start = bench_seconds();
    SPMD_TRY(spmd_trainer_step(b->trainer, b->x, b->y, &b->last));
    *seconds = bench_seconds() - start;
    return SPMD_OK;
}

/* The same batch for every step: numbers in [0, 1), labels in turn. */
static spmd_status make_batch(bench *b)
{
    int64_t batch = b->options.batch, count = batch * b->options.config.inputs;
    b->x = malloc((size_t)count * sizeof *b->x);
    b->y = malloc((size_t)batch * sizeof *b->y);
    SPMD_CHECK(b->x && b->y, SPMD_ENOMEM, "out of memory for a batch of %lld: use a smaller --batch-per-device",
               (long long)batch);
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        b->x[i] = (float)(state >> 8) * 0x1p-24f;
    }
    for (int64_t i = 0; i < batch; i++)
        b->y[i] = (int32_t)(i % b->options.config.classes);
    return SPMD_OK;
}

static int64_t peak_rss(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : -1;
}

/* Steps and products in turn, the order turning round as well. */
static spmd_status take_turns(bench *b, result *r, double *steps, double *products)
{
    for (int k = 0; k < r->samples; k++)
        for (int half = 0; half < 2; half++)
            SPMD_TRY((k + half) % 2 ? step_limit_run(b->limit, &products[k]) : step(b, &steps[k]));
    r->ms = 1e3 * bench_percentile(steps, r->samples, 50);
    r->low = 1e3 * bench_percentile(steps, r->samples, 10);
    r->high = 1e3 * bench_percentile(steps, r->samples, 90);
    r->limit_low = 1e3 * bench_percentile(products, r->samples, 10);
    r->limit_ms = 1e3 * bench_percentile(products, r->samples, 50);
    return SPMD_OK;
}

static spmd_status measure(bench *b, result *r)
{
    const spmd_train_options *o = &b->options;
    int64_t rows = o->batch / b->args->devices;
    double seconds = 0, limit = 0;
    SPMD_TRY(spmd_trainer_create(b->mesh, o, &b->trainer));
    SPMD_TRY(make_batch(b));
    SPMD_TRY(step(b, &seconds));
    r->first_step_end = bench_seconds();
    for (int k = 0; k < WARM; k++)
        SPMD_TRY(step(b, &seconds));
    r->first_step_s = r->first_step_end - bench_process_start() - seconds;
    r->peak_rss = peak_rss(); /* before the products take memory */
    SPMD_TRY(step_limit_create(b->mesh, o->model, &o->config, rows, &b->limit));
    for (int k = 0; k < WARM; k++)
        SPMD_TRY(step_limit_run(b->limit, &limit));
    r->flops = step_flops(o->model, &o->config, rows) * (double)b->args->devices;
    double fit = SECONDS / (seconds + limit);
    r->samples = b->args->samples ? (int)b->args->samples : fit < FEWEST ? FEWEST : fit > MOST ? MOST : (int)fit;
    double *times = malloc(2 * (size_t)r->samples * sizeof *times);
    SPMD_CHECK(times, SPMD_ENOMEM, "out of memory for %d samples", r->samples);
    spmd_status status = take_turns(b, r, times, times + r->samples);
    free(times);
    return status;
}

static int print_json(const bench *b, const result *r)
{
    const arguments *args = b->args;
    json line;
    if (!json_begin(&line))
        return bench_out_of_memory(b->program);
    json_text(&line, "model", args->model);
    json_integer(&line, "devices", args->devices);
    json_integer(&line, "batch_per_device", args->batch);
    json_integer(&line, "repeats", b->options.config.repeats);
    json_integer(&line, "width", b->options.config.width);
    json_text(&line, "dtype", args->dtype);
    json_text(&line, "mode", args->mode);
    json_bool(&line, "jit", !args->eager);
    json_number(&line, "ms_per_step", r->ms);
    json_number(&line, "ms_p10", r->low);
    json_number(&line, "ms_p90", r->high);
    json_number(&line, "examples_per_s", 1e3 * (double)b->options.batch / r->ms);
    json_number(&line, "gflops", r->flops / r->ms / 1e6);
    json_number(&line, "limit_gflops", r->flops / r->limit_ms / 1e6);
    json_number(&line, "share", r->limit_ms / r->ms);
    json_number(&line, "share_p10", r->limit_low / r->low);
    json_integer(&line, "peak_rss", r->peak_rss);
    json_number(&line, "first_step_s", r->first_step_s);
    json_number(&line, "first_step_end", r->first_step_end);
    json_integer(&line, "samples", r->samples);
    json_number(&line, "loss", b->last.loss);
    json_number(&line, "load", bench_load());
    return bench_print_line(b->program, &line);
}

static void print_row(const bench *b, const result *r)
{
    const arguments *args = b->args;
    printf("%-11s %7s %5s %7s %9s %9s %9s %11s %8s %8s %7s %7s %9s %8s\n", "model", "devices", "dtype", "batch", "ms",
           "p10", "p90", "examples/s", "GFLOP/s", "limit", "share", "p10", "peak MiB", "first s");
    printf("%-11s %7lld %5s %7lld %9.2f %9.2f %9.2f %11.0f %8.1f %8.1f %5.1f %% %5.1f %% %9.0f %8.3f\n", args->model,
           (long long)args->devices, args->dtype, (long long)b->options.batch, r->ms, r->low, r->high,
           1e3 * (double)b->options.batch / r->ms, r->flops / r->ms / 1e6, r->flops / r->limit_ms / 1e6,
           100 * r->limit_ms / r->ms, 100 * r->limit_low / r->low, (double)r->peak_rss / (1 << 20), r->first_step_s);
}

static spmd_status set_options(bench *b)
{
    const arguments *args = b->args;
    spmd_train_options *o = &b->options;
    SPMD_TRY(spmd_train_defaults(args->model, o));
    SPMD_TRY(spmd_dtype_parse(args->dtype, &o->config.compute));
    o->batch = args->batch * args->devices;
    o->schedule = spmd_schedule_constant(3e-4);
    o->eager = args->eager;
    o->automatic = strcmp(args->mode, "auto") == 0;
    if (args->width)
        o->config.width = args->width;
    if (args->repeats >= 0)
        o->config.repeats = (int)args->repeats;
    return SPMD_OK;
}

static int run(bench *b)
{
    const arguments *args = b->args;
    char axes[32];
    result r = {0};
    snprintf(axes, sizeof axes, "data=%lld", (long long)args->devices);
    spmd_status status = set_options(b);
    if (status == SPMD_OK)
        status = spmd_mesh_create(axes, args->backend, &b->mesh);
    if (status == SPMD_OK)
        status = measure(b, &r);
    int code = CLI_OK;
    if (status != SPMD_OK) {
        code = bench_failed(b->program, status);
    } else {
        FILE *people = args->json ? stderr : stdout;
        bench_print_machine(people);
        fprintf(
            people,
            "%s, %s, on %s: medians of %d samples after %d warm-up steps; limit: the step's own products alone, "
            "in turn with the steps; p10: the share of the fast steps and products, for a noisy machine; first: from "
            "the start of the program to the end of the first step, less a later step\n",
            args->eager ? "eager" : "jit", args->mode, spmd_mesh_backend(b->mesh), r.samples, WARM + 1);
        if (args->json)
            code = print_json(b, &r);
        else
            print_row(b, &r);
    }
    step_limit_destroy(b->limit);
    spmd_trainer_destroy(b->trainer);
    spmd_mesh_destroy(b->mesh);
    free(b->x);
    free(b->y);
    return code;
}

int main(int argc, char **argv)
{
    arguments a = {
        .model = "shared-mlp", .dtype = "f32", .mode = "explicit", .devices = 2, .batch = 256, .repeats = -1};
    const bench_option options[] = {
        {"--model", "NAME", "shared-mlp (default) or mlp", BENCH_TEXT, &a.model, 0, 0},
        {"--devices", "N", "devices, as one mesh axis \"data\" (default 2)", BENCH_NUMBER, &a.devices, 1,
         SPMD_MAX_DEVICES},
        {"--batch-per-device", "B", "examples a device and step (default 256)", BENCH_NUMBER, &a.batch, 1, 1 << 20},
        {"--repeats", "L", "of shared-mlp's block (default 128)", BENCH_NUMBER, &a.repeats, 0, 1 << 16},
        {"--width", "W", "of the hidden layers (default: the model's)", BENCH_NUMBER, &a.width, 1, 1 << 16},
        {"--dtype", "NAME", "f32 (default) or bf16: what the model computes in", BENCH_TEXT, &a.dtype, 0, 0},
        {"--mode", "NAME", "explicit (default): collectives by hand; auto: found by the library", BENCH_TEXT, &a.mode,
         0, 0},
        {"--backend", "NAME", "host (default) or host-strict", BENCH_TEXT, &a.backend, 0, 0},
        {"--eager", NULL, "run every op as it is called", BENCH_FLAG, &a.eager, 0, 0},
        {"--jit", NULL, "record the step once and replay it (default)", BENCH_FLAG, &a.jit, 0, 0},
        {"-n", "SAMPLES", "steps measured (default: 21, or as many as 4 s allow)", BENCH_NUMBER, &a.samples, 1,
         1000000},
        {"--json", NULL, "one JSON object on stdout, text for people on stderr", BENCH_FLAG, &a.json, 0, 0},
    };
    const bench_program program = {"bench_step", "Times training steps beside their own matrix products.", options,
                                   sizeof options / sizeof *options};
    int code = bench_parse(&program, argc, argv);
    if (code != CLI_OK)
        return code < 0 ? CLI_OK : code;
    if (a.eager && a.jit)
        return bench_usage(&program, "--eager and --jit: give one");
    if (strcmp(a.mode, "explicit") != 0 && strcmp(a.mode, "auto") != 0)
        return bench_usage(&program, "--mode '%s': explicit or auto", a.mode);
    bench b = {.program = &program, .args = &a};
    return run(&b);
}
