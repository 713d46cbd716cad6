/* Reading a training's log: whole lines are parsed, a half one waits for its end. */
#include "cli/run_log.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 1 << 16 };

bool course_add(course *c, const spmd_metrics *m)
{
    if (c->count == c->room) {
        int64_t room = c->room ? 2 * c->room : 512;
        spmd_metrics *more = realloc(c->rows, (size_t)room * sizeof *more);
        if (!more)
            return false;
        c->rows = more;
        c->room = room;
    }
    c->rows[c->count++] = *m;
    return true;
}

void run_log_begin(run_log *log)
{
    *log = (run_log){.examples_per_s = NAN, .test_accuracy = NAN};
}

void run_log_free(run_log *log)
{
    free(log->course.rows);
    free(log->rest);
    *log = (run_log){0};
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static void text(const cJSON *object, const char *key, char *out, size_t size)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    if (value)
        snprintf(out, size, "%s", value);
}

static bool add_step(run_log *log, const cJSON *o)
{
    double step = number(o, "step");
    if (!(step >= 1 && step <= 9e15))
        return false;
    const spmd_metrics m = {.step = (int64_t)step,
                            .loss = number(o, "loss"),
                            .accuracy = number(o, "accuracy"),
                            .grad_norm = number(o, "grad_norm"),
                            .rate = number(o, "rate")};
    /* A resumed run writes again what the broken one did after its last checkpoint. */
    while (log->course.count > 0 && log->course.rows[log->course.count - 1].step >= m.step)
        log->course.count--;
    log->done = false;
    if (!course_add(&log->course, &m))
        log->failed = true;
    return true;
}

static void add_done(run_log *log, const cJSON *o)
{
    log->done = true;
    log->examples_per_s = number(o, "examples_per_s");
    log->test_accuracy = number(o, "test_accuracy");
    text(o, "model", log->model, sizeof log->model);
    text(o, "mesh", log->mesh, sizeof log->mesh);
    text(o, "dtype", log->dtype, sizeof log->dtype);
    text(o, "dataset", log->dataset, sizeof log->dataset);
    text(o, "optimizer", log->optimizer, sizeof log->optimizer);
}

static void add_line(run_log *log, const char *line, size_t length)
{
    if (length == 0)
        return;
    cJSON *o = cJSON_ParseWithLength(line, length);
    const char *event = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "event"));
    bool good = true;
    if (event && strcmp(event, "step") == 0)
        good = add_step(log, o);
    else if (event && strcmp(event, "done") == 0)
        add_done(log, o);
    else if (event && strcmp(event, "error") == 0)
        log->done = true;
    else
        good = false;
    log->bad += !good;
    cJSON_Delete(o);
}

void run_log_feed(run_log *log, const char *bytes, size_t size)
{
    while (size > 0) {
        const char *end = memchr(bytes, '\n', size);
        size_t n = end ? (size_t)(end - bytes) : size;
        if (log->nrest + n > LONGEST_LINE) { /* no line of ours: passed over, its parts are counted as bad */
            log->nrest = 0;
            log->bad++;
        } else {
            char *more = realloc(log->rest, log->nrest + n + 1);
            if (!more) {
                log->failed = true;
                return;
            }
            memcpy(more + log->nrest, bytes, n);
            more[log->nrest += n] = 0;
            log->rest = more;
            if (end) {
                add_line(log, log->rest, log->nrest);
                log->nrest = 0;
            }
        }
        bytes += n + (end != NULL);
        size -= n + (end != NULL);
    }
}

void run_log_read(run_log *log, FILE *file)
{
    char part[8192];
    clearerr(file); /* the end that was reached before may have moved */
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;)
        run_log_feed(log, part, n);
}
