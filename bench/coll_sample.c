/* One launch: it makes the shard's input, warms up, meets, repeats the calls, meets; device 0 holds the clock. */
#include "bench/coll_sample.h"
#include "bench/bench.h"
#include <string.h>

/* The input is made in the shard's own memory, so that it may be donated. */
static spmd_status input_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)in, (void)nin, (void)nout;
    const coll_sample *s = user;
    out->dtype = s->kind == COLL_STREAM ? SPMD_F32 : s->setup->dtype;
    out->rank = 1;
    out->shape[0] = s->in_count;
    return SPMD_OK;
}

static spmd_status input_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout;
    const coll_sample *s = user;
    const coll_groups *groups = &s->setup->groups;
    int device = *(const int32_t *)in->data;
    if (!s->exact)
        memset(out->data, 0, (size_t)s->in_count * spmd_dtype_size(out->dtype));
    for (int64_t i = 0; s->exact && i < s->in_count; i++)
        coll_put(out->dtype, out->data, i, coll_input(out->dtype, groups->group[device], groups->place[device], i));
    return SPMD_OK;
}

static spmd_status make(spmd_ctx *ctx, const coll_sample *s, const spmd_tensor *who, spmd_tensor *out)
{
    SPMD_TRY(spmd_custom(ctx, &s->input, who, 1, out, 1));
    return SPMD_OK;
}

typedef struct loop {
    spmd_tensor in, out;
    spmd_view from, to; /* COLL_STREAM: their memory */
    uint64_t pattern;   /* ones, and zeros in every other call: plain numbers in every dtype */
    uint64_t read;
} loop;

/* In place the output is the next input; it varies again because its owner writes to it. */
static spmd_status call(spmd_ctx *ctx, const coll_sample *s, loop *l)
{
    const coll_setup *setup = s->setup;
    if (!s->in_place)
        return s->row->run(ctx, &l->in, setup->axes, setup->groups.n, &l->out);
    uint8_t vary = l->in.vary;
    SPMD_TRY(s->row->run(ctx, spmd_donate(&l->in), setup->axes, setup->groups.n, &l->in));
    l->out = l->in;
    l->in.vary = vary; /* as spmd_pcast would do, which is another op */
    return SPMD_OK;
}

static int64_t words(const spmd_view *view)
{
    return spmd_view_count(view) * (int64_t)spmd_dtype_size(view->dtype) / (int64_t)sizeof(uint64_t);
}

static spmd_status step(spmd_ctx *ctx, const coll_sample *s, loop *l, int64_t k)
{
    spmd_view view;
    switch (s->kind) {
    case COLL_CALL:
        return call(ctx, s, l);
    case COLL_STREAM: {
        int n = s->setup->groups.n, reads = s->row->reduces ? n : 1;
        int writes = s->row->reduces && !s->row->out_cut ? n : 1;
        coll_stream(l->from.data, l->to.data, s->row->reduces ? s->in_count / n : s->in_count, reads, writes);
        return SPMD_OK;
    }
    default:
        SPMD_TRY(spmd_local(ctx, &l->in, &view));
        coll_write(view.data, words(&view), k % 2 ? l->pattern : 0);
        if (s->kind == COLL_HONEST)
            SPMD_TRY(call(ctx, s, l));
        SPMD_TRY(spmd_local(ctx, &l->out, &view));
        l->read += coll_read(view.data, words(&view));
        return SPMD_OK;
    }
}

static spmd_status meet(spmd_ctx *ctx, const coll_sample *s, const spmd_tensor *who)
{
    spmd_tensor sum;
    SPMD_TRY(spmd_psum(ctx, who, s->setup->all, &sum));
    spmd_view view;
    SPMD_TRY(spmd_local(ctx, &sum, &view)); /* waits, should the backend have a stream */
    return SPMD_OK;
}

/* Memory of the output's size for the kinds that do not call, or call only later. */
static spmd_status prepare(spmd_ctx *ctx, const coll_sample *s, const spmd_tensor *who, loop *l)
{
    SPMD_TRY(make(ctx, s, who, &l->in));
    l->out = l->in;
    if (!s->in_place && s->kind == COLL_STREAM)
        SPMD_TRY(make(ctx, s, who, &l->out));
    if (!s->in_place && s->kind == COLL_WRITE_READ)
        SPMD_TRY(call(ctx, s, l));
    SPMD_TRY(spmd_local(ctx, &l->in, &l->from));
    SPMD_TRY(spmd_local(ctx, &l->out, &l->to));
    for (size_t k = 0; k < sizeof l->pattern / spmd_dtype_size(s->setup->dtype); k++)
        coll_put(s->setup->dtype, &l->pattern, (int64_t)k, 1);
    return SPMD_OK;
}

static spmd_status check(spmd_ctx *ctx, coll_sample *s, loop *l)
{
    int device = spmd_ctx_device(ctx);
    const coll_groups *groups = &s->setup->groups;
    coll_check c = {groups->n, groups->place[device], groups->group[device], s->cut, s->setup->dtype};
    spmd_view view;
    SPMD_TRY(call(ctx, s, l));
    SPMD_TRY(spmd_local(ctx, &l->out, &view));
    if (s->setup->check)
        s->wrong[device] = coll_count_wrong(s->row, &c, &view);
    if (device == 0) {
        s->took_over = view.data == l->from.data;
        s->out_bytes = spmd_view_count(&view) * (int64_t)spmd_dtype_size(view.dtype);
    }
    return SPMD_OK;
}

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)out;
    coll_sample *s = user;
    loop l = {0};
    SPMD_TRY(prepare(ctx, s, in, &l));
    if (s->exact)
        return check(ctx, s, &l);
    for (int64_t k = 0; k < s->warm; k++)
        SPMD_TRY(step(ctx, s, &l, k));
    SPMD_TRY(meet(ctx, s, in));
    double start = bench_seconds();
    for (int64_t k = 0; k < s->calls; k++)
        SPMD_TRY(step(ctx, s, &l, k));
    SPMD_TRY(meet(ctx, s, in));
    if (spmd_ctx_device(ctx) == 0)
        s->seconds = bench_seconds() - start;
    s->read[spmd_ctx_device(ctx)] = l.read;
    return SPMD_OK;
}

spmd_status coll_make_who(const coll_setup *setup, spmd_array **out)
{
    int32_t device[SPMD_MAX_DEVICES];
    for (int d = 0; d < SPMD_MAX_DEVICES; d++)
        device[d] = d;
    spmd_spec spec = spmd_spec_make(1, (const char *const[]){setup->all});
    SPMD_TRY(spmd_shard(setup->mesh, device, SPMD_I32, 1, &(int64_t){spmd_mesh_devices(setup->mesh)}, spec, out));
    return SPMD_OK;
}

spmd_status coll_launch(coll_sample *s, spmd_array *who)
{
    spmd_job job = {.mesh = s->setup->mesh, .fn = body, .user = s, .nin = 1, .in = &who};
    s->input = (spmd_custom_op){.name = "input", .shape = input_shape, .host = input_host, .user = s};
    SPMD_TRY(spmd_shard_map(&job));
    return SPMD_OK;
}
