/* bench_collectives: every collective over any axes of any mesh, checked, then timed beside its limits. One row a size;
 * options as in nccl-tests where they mean the same. */
#include "bench/bench.h"
#include "bench/coll_measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    const char *op, *mesh, *axes, *backend, *dtype;
    int64_t devices, begin, end, factor, calls, warm, check;
    bool out_of_place, barrier, choice, json;
} arguments;

typedef struct bench {
    const bench_program *program;
    const arguments *args;
    coll_setup setup;
    int64_t wrong;
} bench;

static bool begin_line(const bench *b, json *line, const char *op, int64_t bytes)
{
    const coll_setup *setup = &b->setup;
    if (!json_begin(line))
        return false;
    json_text(line, "op", op);
    json_integer(line, "devices", spmd_mesh_devices(setup->mesh));
    json_text(line, "mesh", b->args->mesh);
    json_text(line, "axes", setup->axes);
    json_integer(line, "group", setup->groups.n);
    json_text(line, "dtype", spmd_dtype_name(setup->dtype));
    json_integer(line, "bytes", bytes);
    return true;
}

/* GB/s; not for one shard, which moves nothing. */
static double algorithm_bandwidth(const bench *b, const coll_result *r)
{
    return b->setup.groups.n > 1 ? (double)r->bytes / r->us / 1e3 : (double)NAN;
}

static int print_json(const bench *b, const coll_row *row, const coll_result *r)
{
    json line;
    double algbw = algorithm_bandwidth(b, r);
    if (!begin_line(b, &line, row->name, r->bytes))
        return bench_out_of_memory(b->program);
    json_bool(&line, "in_place", r->in_place);
    json_number(&line, "us", r->us);
    json_number(&line, "us_p10", r->us_low);
    json_number(&line, "us_p90", r->us_high);
    json_number(&line, "algbw_gbs", algbw);
    json_number(&line, "busbw_gbs", algbw * row->bus(b->setup.groups.n));
    json_number(&line, "wrong", r->wrong < 0 ? (double)NAN : (double)r->wrong);
    json_number(&line, "stream_share", r->stream_us / r->us);
    json_number(&line, "stream_us", r->stream_us);
    json_number(&line, "honest_us", r->honest_us);
    json_number(&line, "write_read_us", r->write_read_us);
    json_integer(&line, "calls", r->calls);
    json_integer(&line, "samples", COLL_SAMPLES);
    json_number(&line, "load", bench_load());
    return bench_print_line(b->program, &line);
}

static void print_row(const bench *b, const coll_row *row, const coll_result *r)
{
    char size[24], wrong[24] = "-";
    double algbw = algorithm_bandwidth(b, r);
    if (r->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%lld", (long long)r->wrong);
    printf("%-17s %10s %9.2f %9.2f %9.2f %8.2f %8.2f %5.0f %% %10.2f %10.2f %6lld %6s\n", row->name,
           bench_size_text(r->bytes, size), r->us, r->us_low, r->us_high, algbw, algbw * row->bus(b->setup.groups.n),
           100 * r->stream_us / r->us, r->honest_us, r->write_read_us, (long long)r->calls, wrong);
    fflush(stdout);
}

static int run_op(bench *b, const coll_row *row)
{
    const arguments *args = b->args;
    if (!args->json)
        printf("\n%-17s %10s %9s %9s %9s %8s %8s %7s %10s %10s %6s %6s   busbw = algbw * %s\n", "op", "size", "us",
               "p10", "p90", "algbw", "busbw", "share", "honest us", "wr+rd us", "calls", "wrong", row->bus_formula);
    for (int64_t bytes = args->begin; bytes <= args->end; bytes *= args->factor) {
        coll_result result;
        spmd_status status = coll_measure(&b->setup, row, bytes, &result);
        if (status != SPMD_OK)
            return bench_failed(b->program, status);
        b->wrong += result.wrong > 0 ? result.wrong : 0;
        if (!args->json)
            print_row(b, row, &result);
        else if (print_json(b, row, &result) != CLI_OK)
            return CLI_FAILED;
    }
    return CLI_OK;
}

static int run_barrier(bench *b)
{
    coll_barrier_result r;
    spmd_status status = coll_measure_barrier(&b->setup, &r);
    if (status != SPMD_OK)
        return bench_failed(b->program, status);
    if (!b->args->json) {
        printf(
            "\npsum of 1 KiB, 10,000 in a row: %.2f us; a bare barrier, which moves no bytes: %.2f us; psum / barrier: "
            "%.2f\n",
            r.us, r.barrier_us, r.us / r.barrier_us);
        return CLI_OK;
    }
    json line;
    if (!begin_line(b, &line, "psum", 1024))
        return bench_out_of_memory(b->program);
    json_number(&line, "us", r.us);
    json_number(&line, "barrier_us", r.barrier_us);
    json_number(&line, "bound_us", r.barrier_us);
    json_number(&line, "ratio", r.us / r.barrier_us);
    json_number(&line, "load", bench_load());
    return bench_print_line(b->program, &line);
}

static int unknown_op(const bench *b, const char *name, size_t length)
{
    char known[512] = "";
    for (int k = 0; k < coll_nrows; k++) {
        strcat(known, coll_rows[k].name);
        strcat(known, ", ");
    }
    return bench_usage(b->program, "no collective '%.*s': %sor all", (int)length, name, known);
}

/* "psum,all_gather" or "all"; an unknown name is found before anything is measured. */
static int run_ops(bench *b)
{
    const char *list = b->args->op;
    bool all = strcmp(list, "all") == 0;
    for (int measuring = 0; measuring < 2; measuring++) {
        for (int k = 0; all && measuring && k < coll_nrows; k++) {
            int code = run_op(b, &coll_rows[k]);
            if (code != CLI_OK)
                return code;
        }
        for (const char *name = list; !all && *name; name += strspn(name, ",")) {
            size_t length = strcspn(name, ",");
            const coll_row *row = coll_find(name, length);
            if (!row)
                return unknown_op(b, name, length);
            int code = measuring ? run_op(b, row) : CLI_OK;
            if (code != CLI_OK)
                return code;
            name += length;
        }
    }
    return CLI_OK;
}

static int run_on_mesh(bench *b, const char *all)
{
    const arguments *args = b->args;
    b->setup.all = all;
    b->setup.axes = args->axes ? args->axes : all;
    spmd_status status = coll_find_groups(b->setup.mesh, b->setup.axes, &b->setup.groups);
    if (status != SPMD_OK)
        return bench_failed(b->program, status);
    FILE *people = args->json ? stderr : stdout;
    bench_print_machine(people);
    fprintf(people, "mesh %s on %s, over '%s' (groups of %d), %s, reductions %s; medians of %d samples\n", args->mesh,
            spmd_mesh_backend(b->setup.mesh), b->setup.axes, b->setup.groups.n, spmd_dtype_name(b->setup.dtype),
            args->out_of_place ? "out of place" : "in place", COLL_SAMPLES);
    if (!args->barrier)
        fputs("share: of a plain loop with the same traffic; honest: write input, call, read result; wr+rd: the same "
              "without the call\n",
              people);
    int code = args->barrier ? run_barrier(b) : run_ops(b);
    if (code == CLI_OK && b->wrong) {
        fprintf(stderr, "%s: %lld wrong elements\n", b->program->name, (long long)b->wrong);
        return CLI_FAILED;
    }
    return code;
}

static void print_race(void *user, const char *op, int members, int64_t bytes, const coll_race *race)
{
    static const char *const names[] = {"any", "by mail", "direct", "past the caches"};
    const arguments *args = user;
    char size[24];
    fprintf(args->json ? stderr : stdout, "  %2d members  %-13s %10s  %s %.2f us, %s %.2f us\n", members, op,
            bench_size_text(bytes, size), names[race->ways[0]], race->us[0], names[race->ways[1]], race->us[1]);
}

static int print_choice_json(const bench *b, const spmd_coll_limits *found, const spmd_coll_limits *table)
{
    json line;
    if (!json_begin(&line))
        return bench_out_of_memory(b->program);
    json_integer(&line, "members", found->members);
    json_integer(&line, "mail_bytes", found->mail);
    json_integer(&line, "stream_bytes", found->stream);
    json_integer(&line, "table_mail_bytes", table->mail);
    json_integer(&line, "table_stream_bytes", table->stream);
    json_number(&line, "load", bench_load());
    return bench_print_line(b->program, &line);
}

/* Measures the table of collectives/host/select.c again, and prints it as it stands there. */
static int run_choice(bench *b)
{
    enum { MOST_ROWS = 16 };
    const arguments *args = b->args;
    spmd_coll_limits found[MOST_ROWS];
    FILE *people = args->json ? stderr : stdout;
    bench_print_machine(people);
    for (int k = 0; k < spmd__coll_nlimits && k < MOST_ROWS; k++) {
        spmd_status status = coll_find_limits(&b->setup, k, args->end, print_race, (void *)args, &found[k]);
        if (status != SPMD_OK)
            return bench_failed(b->program, status);
        if (args->json && print_choice_json(b, &found[k], &spmd__coll_limits[k]) != CLI_OK)
            return CLI_FAILED;
    }
    fputs("\nrows for spmd__coll_limits in collectives/host/select.c, and what it has:\n", people);
    for (int k = 0; k < spmd__coll_nlimits && k < MOST_ROWS; k++)
        fprintf(people, "    {%d, %lld, %lld}, /* {%d, %lld, %lld} */\n", found[k].members, (long long)found[k].mail,
                (long long)found[k].stream, spmd__coll_limits[k].members, (long long)spmd__coll_limits[k].mail,
                (long long)spmd__coll_limits[k].stream);
    return CLI_OK;
}

static int run(bench *b)
{
    const arguments *args = b->args;
    char all[SPMD_MAX_AXES * (SPMD_MAX_AXIS_NAME + 1)] = "";
    b->setup.in_place = !args->out_of_place;
    b->setup.check = args->check != 0;
    b->setup.calls = args->calls;
    b->setup.warm = args->warm;
    spmd_status status = spmd_dtype_parse(args->dtype, &b->setup.dtype);
    if (status == SPMD_OK && args->choice)
        return run_choice(b);
    if (status == SPMD_OK)
        status = spmd_mesh_create(args->mesh, args->backend, &b->setup.mesh);
    if (status != SPMD_OK)
        return bench_failed(b->program, status);
    for (int a = 0; a < spmd_mesh_axes(b->setup.mesh); a++) {
        strcat(all, a ? "," : "");
        strcat(all, spmd_mesh_axis_name(b->setup.mesh, a));
    }
    int code = run_on_mesh(b, all);
    spmd_mesh_destroy(b->setup.mesh);
    return code;
}

int main(int argc, char **argv)
{
    const int64_t most = (int64_t)1 << 40;
    arguments a = {.op = "psum", .dtype = "f32", .begin = 1 << 10, .end = 64 << 20, .factor = 4, .warm = 2, .check = 1};
    const bench_option options[] = {
        {"--op", "NAMES", "psum (default), pmean, ... separated by commas, or all", BENCH_TEXT, &a.op, 0, 0},
        {"--devices", "N", "devices, as one mesh axis \"data\" (default 2)", BENCH_NUMBER, &a.devices, 1,
         SPMD_MAX_DEVICES},
        {"--mesh", "AXES", "the mesh instead, e.g. x=2,y=4", BENCH_TEXT, &a.mesh, 0, 0},
        {"--axes", "NAMES", "over which axes (default: all); groups along the others run at once", BENCH_TEXT, &a.axes,
         0, 0},
        {"--backend", "NAME", "host (default) or host-strict", BENCH_TEXT, &a.backend, 0, 0},
        {"--dtype", "NAME", "f32 (default), bf16, f16, i8, i32, i64, u8, bool", BENCH_TEXT, &a.dtype, 0, 0},
        {"-b", "BYTES", "smallest size (default 1K): the larger one of a shard's input and output", BENCH_SIZE,
         &a.begin, 1, most},
        {"-e", "BYTES", "largest size (default 64M)", BENCH_SIZE, &a.end, 1, most},
        {"-f", "FACTOR", "from one size to the next (default 4)", BENCH_NUMBER, &a.factor, 2, 1 << 20},
        {"-n", "CALLS", "calls a sample (default: as many as take about 4 ms)", BENCH_NUMBER, &a.calls, 1, 10000000},
        {"-w", "CALLS", "warm-up calls of every launch (default 2)", BENCH_NUMBER, &a.warm, 0, 10000000},
        {"-c", "0|1", "check the results (default 1)", BENCH_NUMBER, &a.check, 0, 1},
        {"--out-of-place", NULL, "reductions into fresh memory, like the other collectives", BENCH_FLAG,
         &a.out_of_place, 0, 0},
        {"--barrier", NULL, "10,000 psums of 1 KiB against bare barriers of as many threads", BENCH_FLAG, &a.barrier, 0,
         0},
        {"--choice", NULL, "the limits between ways of going: the table in collectives/host/select.c, measured again",
         BENCH_FLAG, &a.choice, 0, 0},
        {"--json", NULL, "one JSON object a line on stdout, text for people on stderr", BENCH_FLAG, &a.json, 0, 0},
    };
    const bench_program program = {"bench_collectives",
                                   "Checks and times collectives, beside a plain loop with the same traffic.", options,
                                   sizeof options / sizeof *options};
    int code = bench_parse(&program, argc, argv);
    if (code != CLI_OK)
        return code < 0 ? CLI_OK : code;
    if (a.choice && (a.mesh || a.devices || a.axes || a.backend || a.barrier))
        return bench_usage(&program, "--choice measures on meshes of its own: leave out --devices, --mesh, --axes, "
                                     "--backend and --barrier");
    if (a.choice && a.end < 1 << 20)
        return bench_usage(&program, "--choice -e %lld: where caches end is looked for from 1M up to -e",
                           (long long)a.end);
    if (a.mesh && a.devices)
        return bench_usage(&program, "--devices %lld and --mesh %s: give one", (long long)a.devices, a.mesh);
    char devices[32];
    snprintf(devices, sizeof devices, "data=%lld", a.devices ? (long long)a.devices : 2);
    if (!a.mesh)
        a.mesh = devices;
    bench b = {.program = &program, .args = &a};
    return run(&b);
}
