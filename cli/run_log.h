/* Private: a training's log (spmd train --log), read as it grows. */
#ifndef CLI_RUN_LOG_H
#define CLI_RUN_LOG_H

#include "models/train.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Every step of a training. */
typedef struct course {
    spmd_metrics *rows;
    int64_t count, room;
} course;

bool course_add(course *c, const spmd_metrics *m); /* false: no memory */

/* A log holds an object a line: "event": "step" with step, loss, accuracy, grad_norm, rate; at the end "done". Lines
 * that are something else are counted, not believed. */
typedef struct run_log {
    course course;
    char model[32], mesh[64], dtype[16], dataset[32], optimizer[32];
    bool done, failed;                    /* "done" or "error" was there; out of memory */
    double examples_per_s, test_accuracy; /* NaN: not known */
    int64_t bad;                          /* lines that are no such object */
    char *rest;                           /* a line whose end has not come yet */
    size_t nrest;
} run_log;

void run_log_begin(run_log *log);
void run_log_feed(run_log *log, const char *text, size_t size); /* the next bytes of the file, cut anywhere */
void run_log_free(run_log *log);
/* Reads on from where `file` stands. */
void run_log_read(run_log *log, FILE *file);

#endif
