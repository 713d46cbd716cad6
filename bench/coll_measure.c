/* The measuring: first the check, then samples of the four kinds in turn (the order turns round as well), so that a
 * change of the machine's mood hits all.
 *
 * Results that are not made in place take fresh memory in every call of a launch. A launch makes so few of them that
 * they stay in a core's cache, as the one result would that a library with buffers of the caller's writes again and
 * again; a sample of short calls has several launches. */
#include "bench/coll_sample.h"
#include "bench/bench.h"
#include <string.h>

enum { MOST_CALLS = 10000, MOST_LAUNCHES = 16, LAUNCH_BYTES = 1 << 20 };
static const double SAMPLE_SECONDS = 4e-3;

spmd_status coll_find_groups(const spmd_mesh *mesh, const char *axes, coll_groups *out)
{
    memset(out, 0, sizeof *out);
    out->n = 1;
    uint8_t used[SPMD_MAX_AXES] = {0};
    for (const char *name = axes; *name; name += strspn(name, ",")) {
        size_t length = strcspn(name, ",");
        int axis = 0;
        while (axis < spmd_mesh_axes(mesh) && (strlen(spmd_mesh_axis_name(mesh, axis)) != length ||
                                               memcmp(spmd_mesh_axis_name(mesh, axis), name, length) != 0))
            axis++;
        SPMD_CHECK(axis < spmd_mesh_axes(mesh) && !used[axis], SPMD_EAXIS,
                   "axes '%s': '%.*s' is not an axis of the mesh, or is there twice", axes, (int)length, name);
        used[axis] = 1;
        out->n *= spmd_mesh_axis_size(mesh, axis);
        for (int d = 0; d < spmd_mesh_devices(mesh); d++)
            out->place[d] = out->place[d] * spmd_mesh_axis_size(mesh, axis) + spmd_mesh_coord(mesh, d, axis);
        name += length;
    }
    for (int axis = 0; axis < spmd_mesh_axes(mesh); axis++)
        for (int d = 0; d < spmd_mesh_devices(mesh) && !used[axis]; d++)
            out->group[d] = out->group[d] * spmd_mesh_axis_size(mesh, axis) + spmd_mesh_coord(mesh, d, axis);
    return SPMD_OK;
}

/* Seconds a call of `kind`, over as many launches as the calls need. */
static spmd_status take(const coll_sample *base, spmd_array *who, coll_kind kind, int64_t calls, double *us)
{
    coll_sample s = *base;
    s.kind = kind;
    if (kind == COLL_STREAM) { /* floats of the same size, of which each shard sums its share */
        int n = s.setup->groups.n;
        int64_t floats = s.count * (int64_t)spmd_dtype_size(s.setup->dtype) / (int64_t)sizeof(float);
        s.in_count = floats < n ? n : floats / n * n;
    }
    double seconds = 0;
    for (int64_t left = calls; left > 0; left -= s.calls) {
        s.calls = left < base->calls ? left : base->calls;
        SPMD_TRY(coll_launch(&s, who));
        seconds += s.seconds;
    }
    *us = 1e6 * seconds / (double)calls;
    return SPMD_OK;
}

/* One call with numbers of which the result is known; also finds out whether the op works in place. */
static spmd_status verify(coll_sample *s, spmd_array *who, int64_t *wrong)
{
    s->exact = true;
    SPMD_TRY(coll_launch(s, who));
    s->exact = false;
    *wrong = s->setup->check ? 0 : -1;
    for (int d = 0; d < spmd_mesh_devices(s->setup->mesh); d++)
        *wrong += s->wrong[d];
    return SPMD_OK;
}

/* How many calls a launch and a sample have. */
static spmd_status plan(coll_sample *s, spmd_array *who, int64_t *calls)
{
    int64_t outputs = LAUNCH_BYTES / s->out_bytes, most = s->in_place ? MOST_CALLS : outputs > 1 ? outputs : 1;
    s->warm = !s->in_place && s->setup->warm > outputs ? outputs : s->setup->warm;
    s->calls = most < MOST_CALLS ? most : MOST_CALLS;
    *calls = s->setup->calls;
    if (*calls)
        return SPMD_OK;
    double us = 0;
    for (int k = 0; k < 2; k++) /* the first one meets cold memory */
        SPMD_TRY(take(s, who, COLL_CALL, s->calls < 8 ? s->calls : 8, &us));
    double fit = 1e6 * SAMPLE_SECONDS / us, bound = (double)s->calls * MOST_LAUNCHES;
    bound = bound < MOST_CALLS ? bound : MOST_CALLS;
    *calls = fit < 1 ? 1 : (int64_t)(fit < bound ? fit : bound);
    return SPMD_OK;
}

static spmd_status take_turns(const coll_sample *s, spmd_array *who, coll_result *out)
{
    double us[COLL_KINDS][COLL_SAMPLES];
    for (int turn = 0; turn <= COLL_SAMPLES; turn++) /* the last one overwrites the first: it was cold */
        for (int k = 0; k < COLL_KINDS; k++) {
            int kind = turn % 2 ? COLL_KINDS - 1 - k : k;
            SPMD_TRY(take(s, who, (coll_kind)kind, out->calls, &us[kind][turn % COLL_SAMPLES]));
        }
    out->us = bench_percentile(us[COLL_CALL], COLL_SAMPLES, 50);
    out->us_low = bench_percentile(us[COLL_CALL], COLL_SAMPLES, 10);
    out->us_high = bench_percentile(us[COLL_CALL], COLL_SAMPLES, 90);
    out->honest_us = bench_percentile(us[COLL_HONEST], COLL_SAMPLES, 50);
    out->write_read_us = bench_percentile(us[COLL_WRITE_READ], COLL_SAMPLES, 50);
    out->stream_us = bench_percentile(us[COLL_STREAM], COLL_SAMPLES, 50);
    return SPMD_OK;
}

static coll_sample sample_of(const coll_setup *setup, const coll_row *row, int64_t bytes)
{
    int n = setup->groups.n;
    int64_t size = (int64_t)spmd_dtype_size(setup->dtype), fit = (bytes + size - 1) / size;
    coll_sample s = {.setup = setup, .row = row, .in_place = setup->in_place && row->in_place};
    s.cut = (fit + n - 1) / n;
    s.count = row->cuts ? s.cut * n : fit;
    s.in_count = row->in_cut ? s.cut : s.count;
    return s;
}

static spmd_status measure(const coll_setup *setup, const coll_row *row, spmd_array *who, coll_result *out)
{
    coll_sample s = sample_of(setup, row, out->bytes);
    SPMD_TRY(verify(&s, who, &out->wrong));
    s.in_place = s.in_place && s.took_over; /* psum of bool is i32: never in place */
    SPMD_TRY(plan(&s, who, &out->calls));
    out->count = s.count;
    out->bytes = s.count * (int64_t)spmd_dtype_size(setup->dtype);
    out->in_place = s.in_place;
    return take_turns(&s, who, out);
}

spmd_status coll_measure(const coll_setup *setup, const coll_row *row, int64_t bytes, coll_result *out)
{
    spmd_array *who;
    SPMD_TRY(coll_make_who(setup, &who));
    *out = (coll_result){.bytes = bytes};
    spmd_status status = measure(setup, row, who, out);
    spmd_array_destroy(who);
    return status;
}

static spmd_status race(coll_sample *s, spmd_array *who, coll_race *race)
{
    double us[2][COLL_SAMPLES];
    int64_t calls, wrong;
    for (int k = 0; k < 2; k++) {
        spmd__force_way(s->setup->mesh, race->ways[k]);
        SPMD_TRY(verify(s, who, &wrong));
        SPMD_CHECK(wrong <= 0, SPMD_EDATA, "%s has %lld wrong elements one way", s->row->name, (long long)wrong);
    }
    s->in_place = s->in_place && s->took_over;
    SPMD_TRY(plan(s, who, &calls));
    for (int turn = 0; turn <= COLL_SAMPLES; turn++) /* the last one overwrites the first: it was cold */
        for (int k = 0; k < 2; k++) {
            int way = (turn + k) % 2;
            spmd__force_way(s->setup->mesh, race->ways[way]);
            SPMD_TRY(take(s, who, COLL_HONEST, calls, &us[way][turn % COLL_SAMPLES]));
        }
    for (int k = 0; k < 2; k++)
        race->us[k] = bench_percentile(us[k], COLL_SAMPLES, 50);
    return SPMD_OK;
}

spmd_status coll_run_race(const coll_setup *setup, const coll_row *row, int64_t bytes, coll_race *out)
{
    spmd_array *who;
    coll_sample s = sample_of(setup, row, bytes);
    SPMD_TRY(coll_make_who(setup, &who));
    spmd_status status = race(&s, who, out);
    spmd__force_way(setup->mesh, SPMD_WAY_ANY);
    spmd_array_destroy(who);
    return status;
}
