/* What the benches share: options, the clock, percentiles, and the line that says on what machine a figure was taken.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "cli/cli.h" /* the JSON line, exit codes, the nearest name */

/* One option of a program; the table of them makes parsing, help and suggestions. */
typedef struct bench_option {
    const char *name, *value, *help; /* value NULL: a flag */
    enum { BENCH_FLAG, BENCH_TEXT, BENCH_NUMBER, BENCH_SIZE } kind;
    void *place;      /* a bool, const char *, or int64_t (a size: 8, 1K, 64M, 2G) */
    int64_t min, max; /* of numbers and sizes */
} bench_option;

typedef struct bench_program {
    const char *name, *about;
    const bench_option *options;
    int n;
} bench_program;

/* CLI_OK: go on. CLI_USAGE: it has been said what is wrong. -1: help was asked for and printed. */
int bench_parse(const bench_program *program, int argc, char **argv);
/* "<program>: ..." to stderr; returns CLI_USAGE. */
int bench_usage(const bench_program *program, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The library's last error to stderr; returns CLI_USAGE for an argument that does not fit, else CLI_FAILED. */
int bench_failed(const bench_program *program, spmd_status status);

/* Says that there is no memory; returns CLI_FAILED. */
int bench_out_of_memory(const bench_program *program);
/* Ends the line, onto stdout; returns an exit code. */
int bench_print_line(const bench_program *program, json *line);

double bench_seconds(void);       /* monotonic */
double bench_process_start(void); /* on the same clock, to a hundredth; NaN if unknown */
/* The p-th percentile (0..100), between neighbours; sorts `x`. */
double bench_percentile(double *x, int n, double p);
double bench_load(void); /* runnable threads, mean of the last minute; NaN if unknown */
void bench_print_machine(FILE *file);
/* "1 KiB", "64 MiB", "1000 B"; returns text. */
const char *bench_size_text(int64_t bytes, char text[24]);

#endif
