/* A training's reports while it runs: a bar on a terminal, else a row now and then; lines of JSON for scripts and for
 * the log. Every write to the log is checked, so that a full disk is an error and not a short file. */
#include "cli/cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW_EVERY = 25, BAR = 24 };

bool cli_report_open(cli_report *report, const cli_options *options, int64_t steps, int64_t batch)
{
    FILE *people = options->json ? stderr : stdout;
    *report = (cli_report){
        .options = options, .people = people, .terminal = isatty(fileno(people)), .steps = steps, .batch = batch};
    if (!options->log)
        return true;
    report->log = fopen(options->log, options->resume ? "a" : "w");
    if (report->log)
        return true;
    const char *slash = strrchr(options->log, '/');
    fprintf(stderr, "spmd: cannot write the log '%s': %s. ", options->log, strerror(errno));
    if (errno == ENOENT && slash)
        fprintf(stderr, "Make its folder first: mkdir -p '%.*s'\n", (int)(slash - options->log), options->log);
    else
        fprintf(stderr, "Choose another file for --log\n");
    return false;
}

static bool log_failed(cli_report *report)
{
    if (!report->failed)
        fprintf(stderr, "%sspmd: cannot write the log '%s': %s. Free some space or choose another file for --log\n",
                report->terminal ? "\n" : "", report->options->log, strerror(errno));
    report->failed = true;
    return false;
}

bool cli_report_line(cli_report *report, json *line, bool to_script)
{
    char *text = json_end(line);
    if (!text) {
        fprintf(stderr, "spmd: out of memory for a line of JSON\n");
        report->failed = true;
        return false;
    }
    if (to_script) {
        fputs(text, stdout);
        fflush(stdout);
    }
    bool good = !report->log || (fputs(text, report->log) >= 0 && fflush(report->log) == 0);
    free(text);
    return good || log_failed(report);
}

static void show_bar(const cli_report *report, const spmd_metrics *m, const char *rate)
{
    int done = (int)(BAR * m->step / report->steps);
    fprintf(report->people, "\r\033[K[%.*s%.*s] %lld/%lld  loss %.4f  accuracy %.3f  grad %.3f  %s examples/s ", done,
            "########################", BAR - done, "........................", (long long)m->step,
            (long long)report->steps, m->loss, m->accuracy, m->grad_norm, rate);
    if (m->step == report->steps)
        fputc('\n', report->people);
}

static void show_row(const cli_report *report, const spmd_metrics *m, const char *rate)
{
    if (m->step == report->first_step)
        fprintf(report->people, "%8s %10s %10s %10s %12s\n", "step", "loss", "accuracy", "grad_norm", "examples/s");
    fprintf(report->people, "%8lld %10.5f %10.4f %10.4f %12s\n", (long long)m->step, m->loss, m->accuracy, m->grad_norm,
            rate);
}

static void show(const cli_report *report, const spmd_metrics *m, bool row)
{
    char rate[32] = "-"; /* the first step is not counted */
    if (m->step > report->first_step)
        snprintf(rate, sizeof rate, "%.0f",
                 (double)(m->step - report->first_step) * (double)report->batch / (cli_seconds() - report->first_end));
    if (report->terminal)
        show_bar(report, m, rate);
    else if (row)
        show_row(report, m, rate);
    fflush(report->people);
}

bool cli_report_step(cli_report *report, const spmd_metrics *m)
{
    if (!report->first_step) {
        report->first_step = m->step;
        report->first_end = cli_seconds();
    }
    bool row = m->step == report->first_step || m->step % ROW_EVERY == 0 || m->step == report->steps;
    show(report, m, row);
    bool to_script = report->options->json && row;
    if (!to_script && !report->log)
        return true;
    json line;
    if (!json_begin(&line)) {
        fprintf(stderr, "spmd: out of memory for a line of JSON\n");
        report->failed = true;
        return false;
    }
    json_text(&line, "event", "step");
    json_integer(&line, "step", m->step);
    json_number(&line, "loss", m->loss);
    json_number(&line, "accuracy", m->accuracy);
    json_number(&line, "grad_norm", m->grad_norm);
    json_number(&line, "rate", m->rate);
    return cli_report_line(report, &line, to_script);
}

bool cli_report_close(cli_report *report)
{
    if (report->log && fclose(report->log) != 0)
        log_failed(report);
    report->log = NULL;
    return !report->failed;
}

bool cli_download_progress(void *user, const char *file, int64_t done, int64_t total)
{
    const cli_report *report = user;
    if (report->terminal)
        fprintf(report->people, "\rdownloading %s: %.1f of %.1f MB%s", file, (double)done / 1e6, (double)total / 1e6,
                done >= total ? "\n" : "");
    else if (done >= total)
        fprintf(report->people, "downloaded %s (%.1f MB)\n", file, (double)total / 1e6);
    fflush(report->people);
    return true;
}
