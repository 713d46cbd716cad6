/* spmd watch: trainings as they run, from their logs, side by side; spmd report: the same as a page. */
#include "cli/lesson/lesson.h"
#include "cli/run_log.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 64, HEIGHT = 14, PAUSE_US = 300000 };

static volatile sig_atomic_t stopped;

static void on_stop(int signal)
{
    (void)signal;
    stopped = 1;
}

typedef struct watched {
    const char *path;
    FILE *file;
    run_log log;
} watched;

/* Reads what has come since; false: out of memory, said. */
static bool read_log(watched *run)
{
    run_log_read(&run->log, run->file);
    if (run->log.failed)
        fprintf(stderr, "spmd: out of memory for the log '%s'\n", run->path);
    return !run->log.failed;
}

static bool open_logs(const cli_options *o, watched *runs)
{
    for (int k = 0; k < o->nwords; k++) {
        runs[k].path = o->words[k];
        run_log_begin(&runs[k].log);
        runs[k].file = fopen(o->words[k], "r");
        if (!runs[k].file) {
            fprintf(stderr, "spmd: cannot read the log '%s': %s. A training writes one with --log FILE\n", o->words[k],
                    strerror(errno));
            return false;
        }
        if (!read_log(&runs[k]))
            return false;
    }
    return true;
}

static void close_logs(watched *runs, int n)
{
    for (int k = 0; k < n; k++) {
        if (runs[k].file)
            fclose(runs[k].file);
        run_log_free(&runs[k].log);
    }
}

static char letter(int k)
{
    return (char)('a' + k);
}

/* A number that the log may not have. */
static void known(double x, int digits, char text[24])
{
    if (isfinite(x))
        snprintf(text, 24, "%.*f", digits, x);
    else
        snprintf(text, 24, "-");
}

static void print_table(const watched *runs, int n)
{
    printf("   %-28s %8s %10s %9s %10s %12s %9s  %s\n", "run", "step", "loss", "accuracy", "grad norm", "examples/s",
           "test", "state");
    for (int k = 0; k < n; k++) {
        const run_log *log = &runs[k].log;
        size_t length = strlen(runs[k].path);
        const char *name = length > 28 ? runs[k].path + length - 28 : runs[k].path;
        if (log->course.count == 0) {
            printf(" %c %-28s %8s\n", letter(k), name, "-");
            continue;
        }
        const spmd_metrics *m = &log->course.rows[log->course.count - 1];
        char rate[24], test[24];
        known(log->examples_per_s, 0, rate);
        known(log->test_accuracy, 4, test);
        printf(" %c %-28s %8lld %10.5f %9.4f %10.4f %12s %9s  %s\n", letter(k), name, (long long)m->step, m->loss,
               m->accuracy, m->grad_norm, rate, test, log->done ? "done" : "running");
        if (log->bad)
            printf("   %lld lines are no steps\n", (long long)log->bad);
    }
}

/* The largest step and loss of all runs; a loss that is not finite has no place. */
static void limits(const watched *runs, int n, double *steps, double *loss)
{
    *steps = 1;
    *loss = 1e-9;
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < runs[k].log.course.count; i++) {
            const spmd_metrics *m = &runs[k].log.course.rows[i];
            *steps = fmax(*steps, (double)m->step);
            if (isfinite(m->loss))
                *loss = fmax(*loss, m->loss);
        }
}

static void print_chart(const watched *runs, int n)
{
    char cells[HEIGHT][WIDTH + 1];
    double steps, loss;
    limits(runs, n, &steps, &loss);
    for (int row = 0; row < HEIGHT; row++) {
        memset(cells[row], ' ', WIDTH);
        cells[row][WIDTH] = 0;
    }
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < runs[k].log.course.count; i++) {
            const spmd_metrics *m = &runs[k].log.course.rows[i];
            int column = (int)((double)(m->step - 1) * (WIDTH - 1) / fmax(steps - 1, 1));
            if (!isfinite(m->loss) || m->loss < 0)
                continue;
            char *cell = &cells[HEIGHT - 1 - (int)(m->loss / loss * (HEIGHT - 1))][column];
            *cell = *cell == ' ' || *cell == letter(k) ? letter(k) : '*'; /* several runs */
        }
    printf("\n   loss\n");
    for (int row = 0; row < HEIGHT; row++)
        printf("%9.3f |%s\n", loss * (HEIGHT - 1 - row) / (HEIGHT - 1), cells[row]);
    printf("%9s +%.*s\n%10s 1%*lld steps\n", "", WIDTH,
           "----------------------------------------------------------------------", "", WIDTH - 2, (long long)steps);
}

static bool all_done(const watched *runs, int n)
{
    for (int k = 0; k < n; k++)
        if (!runs[k].log.done)
            return false;
    return true;
}

static void print_json(const watched *runs, int n)
{
    for (int k = 0; k < n; k++) {
        json line;
        const course *c = &runs[k].log.course;
        const spmd_metrics *m = c->count ? &c->rows[c->count - 1] : &(const spmd_metrics){.loss = NAN};
        if (!json_begin(&line))
            return;
        json_text(&line, "run", runs[k].path);
        json_integer(&line, "step", m->step);
        json_number(&line, "loss", m->loss);
        json_number(&line, "accuracy", m->accuracy);
        json_number(&line, "test_accuracy", runs[k].log.test_accuracy);
        json_bool(&line, "done", runs[k].log.done);
        json_print(&line);
    }
}

/* On a terminal until all runs are done or Ctrl-C; elsewhere once. */
int cmd_watch(const cli_options *o)
{
    watched runs[CLI_WORDS] = {{0}};
    if (o->nwords == 0)
        return cli_usage("watch: which run? Give the files of spmd train --log, as in spmd watch run.jsonl");
    bool good = open_logs(o, runs), live = isatty(fileno(stdout)) && !o->json;
    const struct sigaction action = {.sa_handler = on_stop};
    if (live)
        sigaction(SIGINT, &action, NULL);
    while (good) {
        if (live)
            fputs("\033[H\033[J", stdout);
        if (o->json) {
            print_json(runs, o->nwords);
        } else {
            print_table(runs, o->nwords);
            print_chart(runs, o->nwords);
        }
        fflush(stdout);
        if (!live || stopped || all_done(runs, o->nwords))
            break;
        usleep(PAUSE_US);
        for (int k = 0; k < o->nwords && good; k++)
            good = read_log(&runs[k]);
    }
    close_logs(runs, o->nwords);
    return good ? CLI_OK : CLI_FAILED;
}

static void summary(page *p, const watched *runs, int n)
{
    page_section(p, "summary", "The runs");
    page_table(p, "run|model|mesh|dtype|data|optimizer|steps|loss|accuracy|test accuracy|examples/s|state");
    for (int k = 0; k < n; k++) {
        const run_log *log = &runs[k].log;
        const spmd_metrics none = {.loss = NAN, .accuracy = NAN};
        const spmd_metrics *m = log->course.count ? &log->course.rows[log->course.count - 1] : &none;
        char rate[24], test[24];
        known(log->examples_per_s, 0, rate);
        known(log->test_accuracy, 4, test);
        page_row(p, "%s|%s|%s|%s|%s|%s|%lld|%.5f|%.4f|%s|%s|%s", runs[k].path, log->model, log->mesh, log->dtype,
                 log->dataset, log->optimizer, (long long)m->step, m->loss, m->accuracy, test, rate,
                 log->done ? "done" : "not ended");
    }
    page_table_end(p);
    for (int k = 0; k < n; k++)
        if (runs[k].log.bad)
            page_text(p, "%s: %lld lines are no steps and were passed over.", runs[k].path, (long long)runs[k].log.bad);
}

/* About twenty steps of a run. */
static void steps_table(page *p, const watched *run)
{
    const course *c = &run->log.course;
    int64_t every = c->count / 20 + 1;
    page_text(p, "%s:", run->path);
    page_table(p, "step|loss|accuracy|gradient norm|learning rate");
    for (int64_t i = 0; i < c->count; i++)
        if (i % every == 0 || i == c->count - 1)
            page_row(p, "%lld|%.5f|%.4f|%.4f|%.6f", (long long)c->rows[i].step, c->rows[i].loss, c->rows[i].accuracy,
                     c->rows[i].grad_norm, c->rows[i].rate);
    page_table_end(p);
}

int cmd_report(const cli_options *o)
{
    watched runs[CLI_WORDS] = {{0}};
    page p;
    json line;
    if (o->nwords == 0)
        return cli_usage("report: of which run? Give the files of spmd train --log, as in spmd report run.jsonl");
    bool good = open_logs(o, runs) && lesson_page_open(&p, o, "spmdkit: training report");
    if (good) {
        char name[32] = "curve";
        summary(&p, runs, o->nwords);
        page_section(&p, "curve", "Loss and accuracy");
        for (int k = 0; k < o->nwords; k++) {
            snprintf(name, sizeof name, "curve-%c", letter(k));
            lesson_curve_plot(&p, &runs[k].log.course, name, runs[k].path);
        }
        page_section(&p, "steps", "Steps");
        for (int k = 0; k < o->nwords; k++)
            steps_table(&p, &runs[k]);
        good = page_close(&p);
        if (good && o->json && json_begin(&line)) {
            json_text(&line, "event", "done");
            json_text(&line, "report", p.path);
            json_integer(&line, "runs", o->nwords);
            json_print(&line);
        }
        if (good && o->open)
            cli_open_report(p.path);
    }
    close_logs(runs, o->nwords);
    return good ? CLI_OK : CLI_FAILED;
}
