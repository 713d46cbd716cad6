/* bench_kernel: each kernel on one device's block, compared with backend host, then timed by the profile of eager
 * launches: the op alone, without the launch. Memory is warm: a launch works in the same places as the one before. */
#include "bench/bench.h"
#include "bench/kernel_rows.h"
#include "spmd/half.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 3, MOST_RESULTS = KERNEL_MOST_INPUTS + 1 };

typedef struct arguments {
    const char *op, *dtype, *backend;
    int64_t devices, rows, columns, samples, check;
    bool check_only, json;
} arguments;

typedef struct bench {
    const bench_program *program;
    const arguments *args;
    spmd_dtype dtype;
    spmd_mesh *mesh;
    spmd_profile *profile;
    int64_t wrong;
} bench;

/* One op of a row, a call on a device. */
typedef struct result {
    const char *op;
    double us, low, high, flops, bytes;
} result;

typedef struct launch {
    const kernel_row *row;
    bool checked;          /* result and gradients are outputs */
    const spmd_tensor *in; /* all of them; the gradient is for the floating ones among the first */
} launch;

static int count_inputs(const kernel_row *row)
{
    int n = 0;
    while (n < KERNEL_MOST_INPUTS && row->in[n] != KERNEL_NONE)
        n++;
    return n;
}

/* Floating inputs stand before the others. */
static int count_parameters(const kernel_row *row)
{
    int n = 0;
    while (n < KERNEL_MOST_INPUTS && row->in[n] != KERNEL_NONE && row->in[n] != KERNEL_INDICES)
        n++;
    return n;
}

static spmd_status loss(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *out)
{
    const launch *l = user;
    spmd_tensor in[KERNEL_MOST_INPUTS], y[3];
    for (int k = 0; k < KERNEL_MOST_INPUTS; k++)
        in[k] = k < n ? params[k] : l->in[k];
    SPMD_TRY(l->row->call(ctx, in, y));
    return spmd_sum(ctx, &y[0], NULL, 0, false, out);
}

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    launch l = *(const launch *)user;
    spmd_tensor padded[KERNEL_MOST_INPUTS] = {{0}}, grads[KERNEL_MOST_INPUTS], y[3];
    memcpy(padded, in, (size_t)count_inputs(l.row) * sizeof *in);
    l.in = padded;
    if (l.row->gradient)
        SPMD_TRY(spmd_value_and_grad(ctx, loss, &l, in, count_parameters(l.row), &y[0], grads));
    if (l.checked || !l.row->gradient)
        SPMD_TRY(l.row->call(ctx, in, y));
    if (!l.checked)
        return SPMD_OK;
    out[0] = y[0];
    if (l.row->gradient)
        memcpy(&out[1], grads, (size_t)count_parameters(l.row) * sizeof *grads);
    return SPMD_OK;
}

static spmd_status make_input(const bench *b, spmd_mesh *mesh, kernel_input kind, spmd_array **out)
{
    int64_t shape[] = {b->args->rows, b->args->columns}, *from = shape;
    int rank = kind == KERNEL_SCALAR ? 0 : kind == KERNEL_VECTOR || kind == KERNEL_INDICES ? 1 : 2;
    bool f32 = kind == KERNEL_F32 || kind == KERNEL_SCALAR;
    spmd_dtype dtype = kind == KERNEL_INDICES ? SPMD_I32 : f32 ? SPMD_F32 : b->dtype;
    if (kind == KERNEL_SQUARE)
        shape[0] = shape[1];
    from += kind == KERNEL_VECTOR;
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= from[d];
    char *data = malloc((size_t)count * spmd_dtype_size(dtype));
    SPMD_CHECK(data, SPMD_ENOMEM, "out of memory for %lld elements: use fewer --rows or --columns", (long long)count);
    for (int64_t i = 0; i < count; i++) { /* 0.5 .. 1.5, with the upper half of an f32's bits as bf16 */
        float x = rank ? 0.5f + (float)(i * 37 % 64) / 64 : 1.0f;
        const int32_t index = (int32_t)(i % b->args->columns);
        const char *bits = kind == KERNEL_INDICES ? (const char *)&index : (const char *)&x;
        memcpy(data + (size_t)i * spmd_dtype_size(dtype), bits + 4 - spmd_dtype_size(dtype), spmd_dtype_size(dtype));
    }
    spmd_status status = spmd_shard(mesh, data, dtype, rank, from, SPMD_REPLICATED, out);
    free(data);
    return status;
}

/* Result and gradients of a row on a mesh, by one launch. */
static spmd_status run_checked(const bench *b, spmd_mesh *mesh, const kernel_row *row, spmd_array **out)
{
    static const spmd_spec replicated[MOST_RESULTS];
    spmd_array *in[KERNEL_MOST_INPUTS] = {NULL};
    launch l = {.row = row, .checked = true};
    spmd_job job = {.mesh = mesh, .fn = body, .user = &l, .nin = count_inputs(row), .in = in, .out = out};
    job.nout = row->gradient ? 1 + count_parameters(row) : 1;
    job.out_specs = replicated;
    spmd_status status = SPMD_OK;
    for (int k = 0; k < job.nin && status == SPMD_OK; k++)
        status = make_input(b, mesh, row->in[k], &in[k]);
    if (status == SPMD_OK)
        status = spmd_shard_map(&job);
    for (int k = 0; k < job.nin; k++)
        spmd_array_destroy(in[k]);
    return status;
}

static double value(const void *data, spmd_dtype dtype, int64_t i)
{
    if (dtype == SPMD_I32)
        return ((const int32_t *)data)[i];
    return (double)(dtype == SPMD_BF16 ? spmd__bf16_widen(((const uint16_t *)data)[i]) : ((const float *)data)[i]);
}

/* Elements that are farther apart than sums in another order are; of a gradient that is almost zero everywhere, not
 * relative to that. */
static spmd_status compare(const spmd_array *mine, const spmd_array *host, int64_t *wrong)
{
    int64_t n = spmd_array_count(host);
    spmd_dtype dtype = spmd_array_dtype(host);
    void *a = malloc((size_t)n * spmd_dtype_size(dtype)), *b = malloc((size_t)n * spmd_dtype_size(dtype));
    spmd_status status = a && b ? spmd_unshard(mine, a)
                                : SPMD_FAIL(SPMD_ENOMEM, "out of memory for %lld elements", (long long)n);
    if (status == SPMD_OK)
        status = spmd_unshard(host, b);
    double largest = 1, allowed = dtype == SPMD_BF16 ? 2e-2 : 1e-5;
    for (int64_t i = 0; i < n && status == SPMD_OK; i++) { /* not by fmax: gcc 12 for aarch64 crashes there */
        double size = fabs(value(b, dtype, i));
        largest = size > largest ? size : largest;
    }
    for (int64_t i = 0; i < n && status == SPMD_OK; i++) /* a NaN is wrong, too */
        *wrong += !(fabs(value(a, dtype, i) - value(b, dtype, i)) <= allowed * largest);
    free(a);
    free(b);
    return status;
}

/* Wrong elements of a row, against a mesh of backend host; -1: not checked. */
static spmd_status check(const bench *b, const kernel_row *row, int64_t *wrong)
{
    spmd_mesh *host = NULL;
    spmd_array *mine[MOST_RESULTS] = {NULL}, *theirs[MOST_RESULTS] = {NULL};
    *wrong = b->args->check ? 0 : -1;
    if (!b->args->check)
        return SPMD_OK;
    SPMD_TRY(spmd_mesh_create("x=1", "host", &host));
    spmd_status status = run_checked(b, b->mesh, row, mine);
    if (status == SPMD_OK)
        status = run_checked(b, host, row, theirs);
    for (int k = 0; k < MOST_RESULTS && theirs[k] && status == SPMD_OK; k++)
        status = compare(mine[k], theirs[k], wrong);
    for (int k = 0; k < MOST_RESULTS; k++) {
        spmd_array_destroy(mine[k]);
        spmd_array_destroy(theirs[k]);
    }
    spmd_mesh_destroy(host);
    return status;
}

/* The op's time in the last launch, a call on a device; 0: it did not run. */
static double read_profile(const bench *b, result *r)
{
    enum { MOST = 32 };
    spmd_profile_row rows[MOST];
    int n = spmd_profile_rows(b->profile, rows, MOST);
    for (int k = 0; k < n; k++)
        if (strcmp(rows[k].op, r->op) == 0) {
            r->flops = rows[k].flops / (double)rows[k].calls;
            r->bytes = rows[k].bytes / (double)rows[k].calls;
            return rows[k].us / (double)rows[k].calls;
        }
    return 0;
}

static spmd_status run_samples(const bench *b, const kernel_row *row, spmd_array **in, result *results, int n,
                               double *times)
{
    int64_t samples = b->args->samples;
    launch l = {.row = row};
    const spmd_job job = {
        .mesh = b->mesh, .fn = body, .user = &l, .nin = count_inputs(row), .in = in, .profile = b->profile};
    for (int64_t s = -WARM; s < samples; s++) {
        spmd_profile_clear(b->profile);
        SPMD_TRY(spmd_shard_map(&job));
        for (int k = 0; k < n && s >= 0; k++)
            times[k * samples + s] = read_profile(b, &results[k]);
    }
    for (int k = 0; k < n; k++) {
        double *own = times + k * samples;
        results[k].us = bench_percentile(own, (int)samples, 50);
        results[k].low = bench_percentile(own, (int)samples, 10);
        results[k].high = bench_percentile(own, (int)samples, 90);
    }
    return SPMD_OK;
}

static spmd_status measure(const bench *b, const kernel_row *row, result *results, int *n)
{
    spmd_array *in[KERNEL_MOST_INPUTS] = {NULL};
    spmd_status status = SPMD_OK;
    for (*n = 0; *n < KERNEL_MOST_OPS && row->ops[*n]; ++*n)
        results[*n] = (result){.op = row->ops[*n]};
    if (*n == 0)
        results[(*n)++] = (result){.op = row->name};
    double *times = malloc((size_t)(*n * b->args->samples) * sizeof *times);
    if (!times)
        status = SPMD_FAIL(SPMD_ENOMEM, "out of memory for %lld samples", (long long)b->args->samples);
    for (int k = 0; k < count_inputs(row) && status == SPMD_OK; k++)
        status = make_input(b, b->mesh, row->in[k], &in[k]);
    if (status == SPMD_OK)
        status = run_samples(b, row, in, results, *n, times);
    for (int k = 0; k < count_inputs(row); k++)
        spmd_array_destroy(in[k]);
    free(times);
    return status;
}

static int print_json(const bench *b, const kernel_row *row, const result *r, int64_t wrong)
{
    json line;
    char shape[48];
    if (!json_begin(&line))
        return bench_out_of_memory(b->program);
    json_text(&line, "kernel", row->name);
    json_text(&line, "op", r->op);
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)b->args->rows, (long long)b->args->columns);
    json_text(&line, "shape", shape);
    json_text(&line, "dtype", b->args->dtype);
    json_integer(&line, "devices", b->args->devices);
    json_integer(&line, "rows", b->args->rows);
    json_integer(&line, "columns", b->args->columns);
    json_number(&line, "us", r->us);
    json_number(&line, "us_p10", r->low);
    json_number(&line, "us_p90", r->high);
    json_number(&line, "ns_per_element", 1e3 * r->us / (double)(b->args->rows * b->args->columns));
    json_number(&line, "gbs", r->bytes / r->us / 1e3);
    json_number(&line, "gflops", r->flops / r->us / 1e3);
    json_number(&line, "wrong", wrong < 0 ? (double)NAN : (double)wrong);
    json_integer(&line, "samples", b->args->samples);
    json_number(&line, "load", bench_load());
    return bench_print_line(b->program, &line);
}

static void print_row(const bench *b, const kernel_row *row, const result *r, int64_t wrong)
{
    char text[24] = "-";
    if (wrong >= 0)
        snprintf(text, sizeof text, "%lld", (long long)wrong);
    printf("%-22s %-27s %10.2f %10.2f %10.2f %9.3f %8.1f %9.1f %6s\n", row->name, r->op, r->us, r->low, r->high,
           1e3 * r->us / (double)(b->args->rows * b->args->columns), r->bytes / r->us / 1e3, r->flops / r->us / 1e3,
           text);
    fflush(stdout);
}

static int run_row(bench *b, const kernel_row *row)
{
    result results[KERNEL_MOST_OPS] = {{.op = row->name, .us = NAN, .low = NAN, .high = NAN}};
    int n = 1;
    int64_t wrong;
    spmd_status status = check(b, row, &wrong);
    if (status == SPMD_OK && !b->args->check_only)
        status = measure(b, row, results, &n);
    if (status != SPMD_OK)
        return bench_failed(b->program, status);
    b->wrong += wrong > 0 ? wrong : 0;
    for (int k = 0; k < n; k++)
        if (!b->args->json)
            print_row(b, row, &results[k], wrong);
        else if (print_json(b, row, &results[k], wrong) != CLI_OK)
            return CLI_FAILED;
    return CLI_OK;
}

static const kernel_row *find(const char *name, size_t length)
{
    for (int k = 0; k < kernel_nrows; k++)
        if (strlen(kernel_rows[k].name) == length && memcmp(kernel_rows[k].name, name, length) == 0)
            return &kernel_rows[k];
    return NULL;
}

static int unknown(const bench *b, const char *name, size_t length)
{
    char names[1024] = "";
    for (int k = 0; k < kernel_nrows; k++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", kernel_rows[k].name);
    return bench_usage(b->program, "no kernel '%.*s': %sor all", (int)length, name, names);
}

/* "add,gelu" or "all"; an unknown name is found before anything is measured. */
static int run_rows(bench *b)
{
    const char *list = b->args->op;
    bool all = strcmp(list, "all") == 0;
    for (const char *name = list; !all && *name; name += strcspn(name, ","), name += strspn(name, ","))
        if (!find(name, strcspn(name, ",")))
            return unknown(b, name, strcspn(name, ","));
    if (!b->args->json)
        printf("%-22s %-27s %10s %10s %10s %9s %8s %9s %6s\n", "kernel", "op", "us", "p10", "p90", "ns/elem", "GB/s",
               "GFLOP/s", "wrong");
    int code = CLI_OK;
    for (int k = 0; all && k < kernel_nrows && code == CLI_OK; k++)
        code = run_row(b, &kernel_rows[k]);
    for (const char *name = list; !all && *name && code == CLI_OK;
         name += strcspn(name, ","), name += strspn(name, ","))
        code = run_row(b, find(name, strcspn(name, ",")));
    if (code == CLI_OK && b->wrong) {
        fprintf(stderr, "%s: %lld wrong elements\n", b->program->name, (long long)b->wrong);
        return CLI_FAILED;
    }
    return code;
}

static int run(bench *b)
{
    enum { EVENTS = 256 };
    const arguments *args = b->args;
    char axes[32];
    snprintf(axes, sizeof axes, "x=%lld", (long long)args->devices);
    spmd_status status = spmd_dtype_parse(args->dtype, &b->dtype);
    if (status == SPMD_OK && b->dtype != SPMD_F32 && b->dtype != SPMD_BF16)
        return bench_usage(b->program, "--dtype '%s': f32 or bf16", args->dtype);
    if (status == SPMD_OK)
        status = spmd_mesh_create(axes, args->backend, &b->mesh);
    if (status == SPMD_OK)
        status = spmd_profile_create(b->mesh, EVENTS, &b->profile);
    int code;
    if (status != SPMD_OK) {
        code = bench_failed(b->program, status);
    } else {
        FILE *people = args->json ? stderr : stdout;
        bench_print_machine(people);
        fprintf(people,
                "%lld device%s at once on %s, blocks of %lld x %lld, %s; medians of %lld samples; ns/elem: of that "
                "block\n",
                (long long)args->devices, args->devices == 1 ? "" : "s", spmd_mesh_backend(b->mesh),
                (long long)args->rows, (long long)args->columns, args->dtype, (long long)args->samples);
        code = run_rows(b);
    }
    spmd_profile_destroy(b->profile);
    spmd_mesh_destroy(b->mesh);
    return code;
}

int main(int argc, char **argv)
{
    arguments a = {.op = "all", .dtype = "f32", .devices = 1, .rows = 256, .columns = 1024, .samples = 41, .check = 1};
    const bench_option options[] = {
        {"--op", "NAMES", "all (default), or add, gelu, ... separated by commas", BENCH_TEXT, &a.op, 0, 0},
        {"--dtype", "NAME", "f32 (default) or bf16", BENCH_TEXT, &a.dtype, 0, 0},
        {"--rows", "R", "of the block (default 256)", BENCH_SIZE, &a.rows, 1, 1 << 24},
        {"--columns", "C", "of the block (default 1024); weights are [C, C]", BENCH_SIZE, &a.columns, 1, 1 << 20},
        {"--devices", "N", "the same on N devices at once (default 1)", BENCH_NUMBER, &a.devices, 1, SPMD_MAX_DEVICES},
        {"--backend", "NAME", "host (default), host-strict, cuda", BENCH_TEXT, &a.backend, 0, 0},
        {"-n", "SAMPLES", "launches measured (default 41)", BENCH_NUMBER, &a.samples, 1, 1000000},
        {"-c", "0|1", "compare results and gradients with backend host's (default 1)", BENCH_NUMBER, &a.check, 0, 1},
        {"--check", NULL, "only that, no times", BENCH_FLAG, &a.check_only, 0, 0},
        {"--json", NULL, "one JSON object a line on stdout, text for people on stderr", BENCH_FLAG, &a.json, 0, 0},
    };
    const bench_program program = {"bench_kernel",
                                   "Compares each kernel with backend host, and times it, on one block.", options,
                                   sizeof options / sizeof *options};
    int code = bench_parse(&program, argc, argv);
    if (code != CLI_OK)
        return code < 0 ? CLI_OK : code;
    if (a.check_only && !a.check)
        return bench_usage(&program, "--check and -c 0 contradict each other: give one");
    bench b = {.program = &program, .args = &a};
    return run(&b);
}
