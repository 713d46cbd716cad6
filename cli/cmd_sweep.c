/* spmd sweep: the same step at several global batch sizes. A size that does not divide over the devices is skipped, one
 * that fails is reported, and the loop goes on. Ends with a table and a plot, which gnuplot draws. */
#include "cli/cli.h"
#include "cli/report/plot.h"
#include "spmd/spmdkit.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 64 };

typedef struct row {
    int64_t batch;
    const char *status; /* "ok", "skipped", "failed" */
    char reason[256];
    cli_timing timing;
} row;

static int parse_sizes(const char *text, row *rows)
{
    int n = 0;
    for (const char *p = text; *p;) {
        char *end;
        errno = 0;
        long long size = strtoll(p, &end, 10);
        if (end == p || errno || size < 1 || size > 1 << 24 || (*end && *end != ',') || n == MAX_SIZES) {
            cli_usage("--batches %s: expected at most %d sizes from 1 to %d, as in 256,512,1024 (at '%s')", text,
                      MAX_SIZES, 1 << 24, p);
            return -1;
        }
        rows[n++].batch = size;
        p = *end ? end + 1 : end;
    }
    return n;
}

static void run_size(const cli_options *o, const spmd_train_options *options, const char *axes, row *r)
{
    spmd_status status = cli_time_on(axes, o->backend, options, &r->timing, NULL);
    r->status = status == SPMD_OK ? "ok" : status == SPMD_EINVAL ? "skipped" : "failed";
    if (status != SPMD_OK)
        snprintf(r->reason, sizeof r->reason, "%s", spmd_last_error());
}

static void print_row(const cli_options *o, const row *r, FILE *people)
{
    if (!strcmp(r->status, "ok"))
        fprintf(people, "  %8lld %12.2f %14.0f\n", (long long)r->batch, r->timing.ms, r->timing.examples_per_s);
    else
        fprintf(people, "  %8lld %12s %14s  %s\n", (long long)r->batch, r->status, "-", r->reason);
    fflush(people);
    json line;
    if (!o->json || !json_begin(&line))
        return;
    json_integer(&line, "batch", r->batch);
    json_text(&line, "status", r->status);
    json_text(&line, "reason", r->reason);
    json_number(&line, "ms_per_step", !strcmp(r->status, "ok") ? r->timing.ms : (double)NAN);
    json_number(&line, "examples_per_s", !strcmp(r->status, "ok") ? r->timing.examples_per_s : (double)NAN);
    json_print(&line);
}

/* Both axes are logarithmic to base 2: twice the batch in twice the time is a straight line. */
static void draw(const cli_options *o, const row *rows, int n, FILE *people)
{
    page p = {.people = people};
    plot picture;
    snprintf(p.folder, sizeof p.folder, "%s", o->out ? o->out : ".");
    if (!plot_begin(&p, &picture, "sweep", 800, 500))
        return;
    fputs("$d << EOD\n", picture.script);
    for (int k = 0; k < n; k++)
        if (!strcmp(rows[k].status, "ok"))
            fprintf(picture.script, "%lld %g %g\n", (long long)rows[k].batch, rows[k].timing.ms,
                    rows[k].timing.examples_per_s);
    fputs("EOD\nset logscale xy 2\nset grid\nset key top left\nset xlabel 'global batch'\nset ylabel 'ms a step'\n"
          "set y2label 'examples/s'\nset logscale y2 2\nset ytics nomirror\nset y2tics\n"
          "plot $d using 1:2 with linespoints lw 2 title 'ms a step', "
          "$d using 1:3 axes x1y2 with linespoints lw 2 title 'examples/s (right)'\n",
          picture.script);
    if (plot_draw(&p, &picture, true) == PLOT_DRAWN)
        fprintf(people, "\nwritten: %s/sweep.svg, %s/sweep.png\n", p.folder, p.folder);
    else
        fprintf(people, "\nno plot: gnuplot is missing, or cannot write into %s\n", p.folder);
}

int cmd_sweep(const cli_options *o)
{
    int code = cli_check_generated(o, "sweep");
    if (code != CLI_OK)
        return code;
    row rows[MAX_SIZES] = {{0}};
    int n = parse_sizes(o->batches ? o->batches : "256,512,1024,2048,4096", rows), done = 0;
    if (n < 0)
        return CLI_USAGE;
    char axes[128];
    spmd_train_options options;
    spmd_status status = cli_choose(o, 64, &options, axes, sizeof axes);
    if (status != SPMD_OK)
        return cli_refused(o, status);
    FILE *people = o->json ? stderr : stdout;
    fprintf(people, "%s on %s, %s: median of 3 x 15 steps after 4\n\n  %8s %12s %14s\n", options.model->name, axes,
            spmd_dtype_name(options.config.compute), "batch", "ms/step", "examples/s");
    for (int k = 0; k < n; k++) {
        options.batch = rows[k].batch;
        run_size(o, &options, axes, &rows[k]);
        print_row(o, &rows[k], people);
        done += !strcmp(rows[k].status, "ok");
    }
    if (done)
        draw(o, rows, n, people);
    return done ? CLI_OK : CLI_FAILED;
}
