/* Measuring one collective at one size: its calls, and beside them what they can be compared with. */
#ifndef BENCH_COLL_MEASURE_H
#define BENCH_COLL_MEASURE_H

#include "bench/coll_rows.h"
#include "collectives/coll.h"

enum { COLL_SAMPLES = 11 };

typedef struct coll_setup {
    spmd_mesh *mesh;
    const char *axes; /* over which the collective runs; groups along the other axes run side by side */
    const char *all;  /* the mesh's axes */
    coll_groups groups;
    spmd_dtype dtype;
    bool in_place, check;
    int64_t calls; /* of a sample; 0: as many as take a few milliseconds */
    int64_t warm;  /* calls before the clock starts, in every launch */
} coll_setup;

/* Times in us a call: medians of COLL_SAMPLES samples, of which each kind takes one in turn. */
typedef struct coll_result {
    int64_t count, bytes; /* of the larger one of input and output, a shard */
    bool in_place;
    int64_t calls, wrong;       /* of a sample; elements, all shards (-1: not checked) */
    double us, us_low, us_high; /* the call alone, repeated; 10th and 90th percentile */
    double honest_us;           /* write the own input, call, read the own result */
    double write_read_us;       /* the same without the call */
    double stream_us;           /* the same traffic by a plain loop in every shard's own memory, no meeting */
} coll_result;

/* Places and groups of the devices for `axes`. */
spmd_status coll_find_groups(const spmd_mesh *mesh, const char *axes, coll_groups *out);
/* `bytes` is rounded up to a size that the group can cut. */
spmd_status coll_measure(const coll_setup *setup, const coll_row *row, int64_t bytes, coll_result *out);

/* The same calls two ways, in turns; as programs make them: write the own input, call, read the own result. */
typedef struct coll_race {
    spmd_way ways[2];
    double us[2]; /* medians of COLL_SAMPLES samples */
} coll_race;
/* Errors: also EDATA, a result that is wrong. */
spmd_status coll_run_race(const coll_setup *setup, const coll_row *row, int64_t bytes, coll_race *out);

/* 10,000 psums of 1 KiB a sample beside as many empty meetings at a barrier that only has to be correct, on the same
 * threads. A psum of this size meets once (collectives/host/select.c), so the barrier is its bound; a barrier moves no
 * bytes. */
typedef struct coll_barrier_result {
    double us, barrier_us;
} coll_barrier_result;
spmd_status coll_measure_barrier(const coll_setup *setup, coll_barrier_result *out);

/* The limits of row k of collectives/host/select.c's table, found by races around them; footprints up to `largest`.
 *   tell   called with every race: what ran, by how many, and the message or the footprint in bytes
 * Of the setup: dtype, calls, warm, check. */
typedef void coll_race_fn(void *user, const char *op, int members, int64_t bytes, const coll_race *race);
spmd_status coll_find_limits(const coll_setup *setup, int k, int64_t largest, coll_race_fn *tell, void *user,
                             spmd_coll_limits *out);

/* --- plain loops --- */
/* dst[w] = src[0] + ... + src[reads - 1] for every w < writes, of `count` floats; the parts lie one after the other.
 * dst may be src. One read and one write: a copy. */
void coll_stream(const float *src, float *dst, int64_t count, int reads, int writes);
void coll_write(uint64_t *words, int64_t n, uint64_t pattern);
uint64_t coll_read(const uint64_t *words, int64_t n);

#endif
