/* Options, clock, statistics and the machine's line of the benches. */
#include "bench/bench.h"
#include "spmd/host/pin.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int bench_usage(const bench_program *program, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program->name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_USAGE;
}

int bench_failed(const bench_program *program, spmd_status status)
{
    fprintf(stderr, "%s: %s: %s\n", program->name, spmd_status_name(status), spmd_last_error());
    bool argument = status == SPMD_EINVAL || status == SPMD_EAXIS || status == SPMD_EUNSUPPORTED;
    return argument ? CLI_USAGE : CLI_FAILED;
}

int bench_out_of_memory(const bench_program *program)
{
    fprintf(stderr, "%s: out of memory\n", program->name);
    return CLI_FAILED;
}

int bench_print_line(const bench_program *program, json *line)
{
    char *text = json_end(line);
    if (!text)
        return bench_out_of_memory(program);
    fputs(text, stdout);
    free(text);
    return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

static void help(const bench_program *program)
{
    printf("usage: %s [options]\n%s\n", program->name, program->about);
    for (int k = 0; k < program->n; k++) {
        char left[40];
        const bench_option *option = &program->options[k];
        snprintf(left, sizeof left, "%s %s", option->name, option->value ? option->value : "");
        printf("  %-18s %s\n", left, option->help);
    }
}

static const bench_option *find(const bench_program *program, const char *name, size_t length)
{
    for (int k = 0; k < program->n; k++)
        if (strlen(program->options[k].name) == length && memcmp(program->options[k].name, name, length) == 0)
            return &program->options[k];
    return NULL;
}

static int unknown(const bench_program *program, const char *argument)
{
    enum { MOST = 32 };
    const char *names[MOST + 1] = {NULL};
    char name[64];
    for (int k = 0; k < program->n && k < MOST; k++)
        names[k] = program->options[k].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    return bench_usage(program, "no option '%s'; the nearest is %s. All options: %s --help", name,
                       cli_nearest(name, names), program->name);
}

/* A whole number, for sizes with K, M or G behind it; false if it is anything else or out of range. */
static bool read_number(const bench_option *option, const char *text, int64_t *out)
{
    static const char units[] = "KMG";
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    const char *unit = option->kind == BENCH_SIZE && *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    end += unit != NULL;
    if (end == text || *end || errno || number < option->min || number > option->max >> shift)
        return false;
    *out = (int64_t)number << shift;
    return *out >= option->min;
}

static int set(const bench_program *program, const bench_option *option, const char *value)
{
    if (option->kind == BENCH_TEXT) {
        *(const char **)option->place = value;
        return CLI_OK;
    }
    if (read_number(option, value, option->place))
        return CLI_OK;
    return bench_usage(program, "%s '%s': needs a whole number from %lld to %lld%s", option->name, value,
                       (long long)option->min, (long long)option->max,
                       option->kind == BENCH_SIZE ? ", like 8, 1K, 64M" : "");
}

int bench_parse(const bench_program *program, int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        const char *argument = argv[k];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            help(program);
            return -1;
        }
        size_t length = strcspn(argument, "=");
        const bench_option *option = find(program, argument, length);
        if (!option)
            return unknown(program, argument);
        if (option->kind == BENCH_FLAG) {
            if (argument[length])
                return bench_usage(program, "%s takes no value, got '%s'", option->name, argument);
            *(bool *)option->place = true;
            continue;
        }
        const char *value = argument[length] ? argument + length + 1 : k + 1 < argc ? argv[++k] : NULL;
        if (!value)
            return bench_usage(program, "%s needs a value: %s %s (%s)", option->name, option->name, option->value,
                               option->help);
        int code = set(program, option, value);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

double bench_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* /proc/self/stat counts from boot; its second field, the name, may hold anything, also ')'. */
double bench_process_start(void)
{
    enum { STARTED = 22 };
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    line[n] = '\0';
    const char *field = strrchr(line, ')');
    for (int k = 2; field && k < STARTED; k++)
        field = strchr(field + 1, ' ');
    struct timespec boot;
    if (!field || clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return (double)NAN;
    double age = (double)boot.tv_sec + 1e-9 * (double)boot.tv_nsec - strtod(field, NULL) / (double)sysconf(_SC_CLK_TCK);
    return bench_seconds() - age;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *x, int n, double p)
{
    if (n == 0)
        return (double)NAN;
    qsort(x, (size_t)n, sizeof *x, ascending);
    double place = p / 100 * (n - 1);
    int low = (int)place, high = low + 1 < n ? low + 1 : low;
    return x[low] + (place - low) * (x[high] - x[low]);
}

double bench_load(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? load : (double)NAN;
}

/* /proc/cpuinfo of x86-64 has a "model name"; that of other machines often has none. */
static void read_cpu_name(char name[96])
{
    char line[256];
    snprintf(name, 96, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, 96, "%.95s", strchr(line, ':') + 1 + strspn(strchr(line, ':') + 1, " "));
            break;
        }
    fclose(file);
}

void bench_print_machine(FILE *file)
{
    char name[96];
    int cores = spmd__allowed_cores();
    double load = bench_load();
    read_cpu_name(name);
    fprintf(file, "machine: %d core%s of %s, load %.1f", cores, cores == 1 ? "" : "s", name, load);
    if (load > 0.5 * cores)
        fputs(" (others are working here: expect noise)", file);
    fputc('\n', file);
}

const char *bench_size_text(int64_t bytes, char text[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, "%lld %s", (long long)bytes, units[unit]);
    return text;
}
