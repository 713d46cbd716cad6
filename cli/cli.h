/* The program `spmd`: what its files share. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "models/train.h"
#include "spmd/jit.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes. An interrupted training has finished its step and said what it reached; 130 is a shell's code for it. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* --- arguments --- */
enum { CLI_WORDS = 8 };
typedef struct cli_options {
    const char *model;            /* what is trained: the first word after the command */
    const char *words[CLI_WORDS]; /* all of them */
    int nwords;
    const char *mesh, *backend, *dtype, *dataset, *mode, *schedule, *optimizer, *log, *batches, *out,
        *checkpoint;                                                  /* NULL: not given */
    int64_t devices, seed, batch, steps, width, repeats, every, keep; /* -1: not given */
    double rate;                                                      /* negative: not given */
    bool json, eval, quick, full, open, all, resume;
} cli_options;

/* Which commands use an option is a set of these. */
enum {
    CLI_TRAIN = 1 << 0,
    CLI_COMPARE = 1 << 1,
    CLI_SWEEP = 1 << 2,
    CLI_LESSON = 1 << 3,
    CLI_EVAL = 1 << 4,
    CLI_SHOW = 1 << 5, /* predictions, confusion */
    CLI_REPORT = 1 << 6,
    CLI_WATCH = 1 << 7,
    CLI_INFO = 1 << 8,
    CLI_ALL = (1 << 9) - 1
};

typedef struct cli_command {
    const char *name;
    unsigned id; /* one of the above */
    int words;   /* at most, besides the options */
    int (*run)(const cli_options *options);
} cli_command;

/* Reads the options of `command` from argv[first..]; false after it has said what is wrong: an option that it does not
 * have or does not use, a value that is none. */
bool cli_parse(const cli_command *command, int argc, char **argv, int first, cli_options *out);
void cli_print_options(unsigned commands, FILE *file); /* those that any of them uses */
/* The one of `names` (ended by NULL) that takes the fewest edits to become `text`. */
const char *cli_nearest(const char *text, const char *const *names);
/* "spmd: ..." to stderr; returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The library's last error to stderr, and as a line of JSON where asked for; returns CLI_FAILED. */
int cli_failed(const cli_options *options, spmd_status status);
/* The same while the options are being put to use: CLI_USAGE for one that does not fit (EINVAL, EAXIS). */
int cli_refused(const cli_options *options, spmd_status status);

/* --- commands --- */
int cmd_info(const cli_options *options);
int cmd_train(const cli_options *options);
int cmd_sweep(const cli_options *options);
int cmd_compare(const cli_options *options);
int cmd_lesson(const cli_options *options);
int cmd_eval(const cli_options *options);
int cmd_predictions(const cli_options *options);
int cmd_confusion(const cli_options *options);
int cmd_watch(const cli_options *options);
int cmd_report(const cli_options *options);
/* Shows the page in the browser; says where it is if there is none. */
void cli_open_report(const char *path);

/* --- what commands that train share --- */
/* Names that do not exist, whatever the command: CLI_OK, or CLI_USAGE after saying what is wrong. */
int cli_check(const cli_options *options);
/* For what computes on generated data: CLI_OK, or CLI_USAGE after saying that --dataset asks for another. */
int cli_check_generated(const cli_options *options, const char *command);
/* The training and the mesh's axes that the options ask for. */
spmd_status cli_choose(const cli_options *options, int64_t steps, spmd_train_options *out, char *axes, size_t size);

/* --- measuring steps --- */
typedef struct cli_timing {
    double ms, examples_per_s; /* median of the repeats */
} cli_timing;
/* 4 steps that do not count, then the median of 3 x 15, on generated data. */
spmd_status cli_time_steps(spmd_trainer *trainer, const spmd_train_options *options, cli_timing *out);
/* The same on a mesh and with a trainer of its own; what the step's program does into *program, unless it is NULL. */
spmd_status cli_time_on(const char *axes, const char *backend, const spmd_train_options *options, cli_timing *out,
                        spmd_program_info *program);
/* What N devices being `ratio` times as fast as one means, in a sentence; NULL: it falls short of N, for reasons that
 * the caller looks for. */
const char *cli_scaling(int devices, double ratio);
/* A clock that only goes forward. */
double cli_seconds(void);
/* A generated batch of the training's size; free both. */
spmd_status cli_make_batch(const spmd_train_options *options, float **x, int32_t **y);
/* Two texts line by line, side by side where they differ; long equal runs are counted. Value numbers do not count. */
void cli_print_diff(const char *left_name, char *left, const char *right_name, char *right, FILE *file);

/* --- differences: a NaN is never lost --- */
double cli_larger(double a, double b);
double cli_relative(double a, double b); /* to the larger of the two */
/* The largest difference of two float32 arrays of the same count, and the largest size of a value of `a`. */
spmd_status cli_compare_arrays(const spmd_array *a, const spmd_array *b, double *difference, double *size);

/* --- one line of JSON --- */
typedef struct json {
    FILE *file;
    char *text;
    size_t size;
    bool first; /* no comma before the next key */
} json;
bool json_begin(json *line); /* false: out of memory */
void json_text(json *line, const char *key, const char *value);
void json_integer(json *line, const char *key, int64_t value);
void json_number(json *line, const char *key, double value); /* null if not finite, which JSON cannot say */
void json_bool(json *line, const char *key, bool value);
void json_open(json *line, const char *key, char bracket); /* '{' or '['; key NULL: an element of a list */
void json_close(json *line, char bracket);                 /* '}' or ']' */
char *json_end(json *line);                                /* the line with its newline, to be freed; NULL: no memory */
bool json_print(json *line);                               /* ends it, onto stdout; false: no memory, or not written */

/* --- where a training reports to: people, a script (--json), a file (--log) --- */
typedef struct cli_report {
    const cli_options *options;
    const char *model;
    FILE *people; /* stdout; stderr with --json */
    bool terminal;
    int64_t steps, batch;
    int64_t first_step; /* of this run: a resumed one does not begin with 1 */
    double first_end;   /* when that one was done */
    FILE *log;
    bool failed; /* a file could not be written; said */
} cli_report;

bool cli_report_open(cli_report *report, const cli_options *options, int64_t steps, int64_t batch);
bool cli_report_step(cli_report *report, const spmd_metrics *metrics); /* false: a file could not be written */
bool cli_report_line(cli_report *report, json *line, bool to_script);  /* ends `line`; to the log, and to stdout */
bool cli_report_close(cli_report *report);                             /* false: a file could not be written */
bool cli_download_progress(void *report, const char *file, int64_t done, int64_t total);

/* One array in words, for tables. */
typedef struct cli_array_text {
    const char *dtype;
    char global[64], block[64], spec[64], devices[64];
} cli_array_text;
void cli_describe_array(const spmd_array *array, cli_array_text *out);
/* Spec, sizes and which device holds what, as the array prints itself; says so where there is no drawing. */
void cli_draw_array(const spmd_array *array, FILE *file);
/* Every array: name, dtype, shape, spec, block, devices; then the mesh, the batch and one parameter as drawings. */
void cli_print_placement(const spmd_trainer *trainer, const spmd_mesh *mesh, FILE *file);

#endif
