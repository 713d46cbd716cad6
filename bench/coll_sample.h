/* Private to the bench of collectives: one launch of a sample. */
#ifndef BENCH_COLL_SAMPLE_H
#define BENCH_COLL_SAMPLE_H

#include "bench/coll_measure.h"

typedef enum coll_kind { COLL_CALL, COLL_HONEST, COLL_WRITE_READ, COLL_STREAM, COLL_KINDS } coll_kind;

typedef struct coll_sample {
    const coll_setup *setup;
    const coll_row *row;
    coll_kind kind;
    int64_t count, cut, in_count; /* elements */
    int64_t calls, warm;          /* of this launch */
    bool in_place;
    bool exact; /* fill the input, call once, check the output; no clock */
    spmd_custom_op input;
    /* written by device 0 */
    double seconds;
    bool took_over;    /* the output is where the input was */
    int64_t out_bytes; /* of one output */
    /* written by each device */
    int64_t wrong[SPMD_MAX_DEVICES];
    uint64_t read[SPMD_MAX_DEVICES]; /* sum of what was read, so that reading is not optimized away */
} coll_sample;

/* `who` holds every device's number, cut over all axes. */
spmd_status coll_make_who(const coll_setup *setup, spmd_array **out);
spmd_status coll_launch(coll_sample *s, spmd_array *who);

#endif
