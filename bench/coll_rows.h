/* The collectives under the bench: one row of callbacks each, after the example of nccl-tests. */
#ifndef BENCH_COLL_ROWS_H
#define BENCH_COLL_ROWS_H

#include "spmd/spmdkit.h"

/* Who is who: a shard's place along the measured axes, and which of the groups that run side by side it is in. */
typedef struct coll_groups {
    int n; /* members of a group */
    int place[SPMD_MAX_DEVICES], group[SPMD_MAX_DEVICES];
} coll_groups;

/* What a check knows: every shard's input is given by coll_input. */
typedef struct coll_check {
    int n, place, group;
    int64_t cut; /* elements of a block of which n make up the size */
    spmd_dtype dtype;
} coll_check;

/* "bytes" is the size of the larger one of input and output, per shard; the other may be an n-th of it (cut). */
typedef struct coll_row {
    const char *name;
    double (*bus)(int n); /* bus bandwidth / algorithm bandwidth, as nccl-tests counts */
    const char *bus_formula;
    bool in_cut, out_cut;
    bool cuts;     /* the size is divided by n */
    bool reduces;  /* a shard reads n blocks for each one it makes; else it only copies */
    bool in_place; /* works in its input's memory if that is donated */
    spmd_status (*run)(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out);
    double (*expect)(const coll_check *check, int64_t i); /* element i of this shard's output */
} coll_row;

extern const coll_row coll_rows[];
extern const int coll_nrows;
const coll_row *coll_find(const char *name, size_t length); /* NULL: no such row */

/* As all_to_all; every call makes its tables anew, by two small ops. */
spmd_status coll_run_ragged(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out);

/* Element i of the input of the shard at `place` of `group`: 0..4, so that the sum of 64 shards is exact in every
 * dtype (in i8 and u8 it wraps, as it should); 0 or 1 for bool. */
double coll_input(spmd_dtype dtype, int group, int place, int64_t i);
/* Element i of `data` becomes x, rounded to the dtype or wrapped. */
void coll_put(spmd_dtype dtype, void *data, int64_t i, double x);
/* Elements of `out` that differ in any bit from what the row expects. */
int64_t coll_count_wrong(const coll_row *row, const coll_check *check, const spmd_view *out);

#endif
