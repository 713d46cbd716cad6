/* Replaying a program on backend cuda. Runs of local calls become CUDA graphs, one launch each; collectives stay calls
 * between them, because the host meets around each. The first replay runs call by call, so that every op has made what
 * it keeps on the device; the second captures. A run that cannot be captured is called as before, with a notice.
 *
 * Graphs hold addresses, and addresses decide what runs beside what: when the job's arrays are others, all of it is
 * made again. */
#include "spmd/cuda/cuda_overlap.h"
#include "spmd/cuda/cuda_range.h"
#include "spmd/host/meet.h"

/* Calls first .. end-1. */
typedef struct segment {
    int first, end;
    cudaGraphExec_t graph; /* NULL: call by call */
} segment;

typedef struct graphs {
    bool tried;        /* the segments were captured, as far as they can be */
    uint32_t bindings; /* for which addresses */
    spmd_cuda_order *order;
    int n;
    segment segments[]; /* room for one a call */
} graphs;

/* Fewer kernels than this gain nothing. */
enum { SHORTEST = 2 };

static bool capturable(const spmd_call *call)
{
    const spmd_custom_op *custom = call->attr.definition;
    return call->op->view || (!spmd__meets(call) && call->op->cuda && (!custom || custom->cuda));
}

static int kernels_in(const spmd_program *p, const segment *s)
{
    int n = 0;
    for (int i = s->first; i < s->end; i++)
        n += !p->calls[i].op->view;
    return n;
}

/* The segment that begins with call `first`: a run that can be captured, or a single call. It crosses neither the first
 * update of an output nor a call that waits for a collective beside it, since a capture knows no events of outside. */
static segment next_segment(const spmd_program *p, const spmd_cuda_order *order, int first)
{
    segment s = {.first = first, .end = first};
    while (s.end < p->n && (s.end == first || (s.end != p->commit && order[s.end].after < 0)) &&
           capturable(&p->calls[s.end]))
        s.end++;
    s.end += s.end == first;
    return s;
}

static void drop(graphs *g)
{
    for (int k = 0; k < g->n; k++) {
        if (g->segments[k].graph)
            (void)cudaGraphExecDestroy(g->segments[k].graph);
        g->segments[k].graph = NULL;
    }
    g->tried = false;
}

static void forget(void *captured)
{
    graphs *g = captured;
    drop(g);
    spmd__free(g->order);
    spmd__free(g);
}

/* For the present addresses. */
static void arrange(graphs *g, spmd_program *p)
{
    drop(g);
    g->bindings = p->bindings;
    g->n = 0;
    p->info.beside = spmd__cuda_order(p, g->order);
    for (int i = 0; i < p->n; i = g->segments[g->n++].end)
        g->segments[g->n] = next_segment(p, g->order, i);
}

static graphs *new_graphs(spmd_program *p)
{
    graphs *g = spmd__alloc(p->mesh, sizeof *g + (size_t)p->n * sizeof *g->segments);
    if (!g)
        return NULL;
    *g = (graphs){.order = spmd__alloc(p->mesh, (size_t)p->n * sizeof *g->order + 1)};
    if (g->order) {
        arrange(g, p);
        return g;
    }
    spmd__free(g);
    return NULL;
}

/* A profile wants each op's own time: nothing runs beside another then. */
static spmd_status run_calls(spmd_program *p, spmd_ctx *ctx, const graphs *g, const segment *s)
{
    for (int i = s->first; i < s->end; i++)
        SPMD_TRY(ctx->mesh->job.profile ? spmd__program_step(p, ctx, i) : spmd__cuda_step(p, ctx, i, g->order));
    return SPMD_OK;
}

/* Records the segment's work instead of doing it. */
static spmd_status capture(spmd_program *p, spmd_ctx *ctx, segment *s)
{
    cudaStream_t stream = spmd__cuda_stream(ctx);
    cudaGraph_t graph = NULL;
    SPMD_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    spmd_status status = SPMD_OK;
    for (int i = s->first; i < s->end && status == SPMD_OK; i++)
        status = spmd__program_step(p, ctx, i);
    cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (ended != cudaSuccess && !graph)
        (void)cudaStreamEndCapture(stream, &graph); /* if it did not end */
    if (status == SPMD_OK)
        status = spmd__cuda_check(ended, "cudaStreamEndCapture");
    if (status == SPMD_OK)
        status = spmd__cuda_check(cudaGraphInstantiate(&s->graph, graph, 0), "cudaGraphInstantiate");
    if (graph)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError(); /* what could not be captured is called, and fails then if it must */
    return status;
}

static void capture_all(spmd_program *p, spmd_ctx *ctx, graphs *g)
{
    uint64_t calls = atomic_load(&ctx->device->recorder.calls);
    for (int k = 0; k < g->n; k++) {
        segment *s = &g->segments[k];
        if (kernels_in(p, s) < SHORTEST || !capturable(&p->calls[s->first]))
            continue;
        if (capture(p, ctx, s) != SPMD_OK) {
            s->graph = NULL;
            spmd__log(ctx->mesh, "graph", "jit: calls %d to %d are not part of a CUDA graph: %s", s->first, s->end - 1,
                      spmd_last_error());
        }
    }
    g->tried = true;
    atomic_store(&ctx->device->recorder.calls, calls); /* nothing has run yet */
}

/* Graphs are made while no device is in a collective: they take memory. Every shard says whether it wants to. */
static spmd_status make_graphs(spmd_program *p, spmd_ctx *ctx, graphs *g, bool wanted)
{
    spmd_group group;
    spmd_post posts[SPMD_MAX_DEVICES];
    bool any = false;
    spmd__group_all(ctx, &group);
    spmd_signature signature = {.op = "replay", .count = p->n};
    spmd_ctx_at(ctx, "the beginning of a program");
    SPMD_TRY(spmd__meet(ctx, &group, &signature, (spmd_post){wanted ? g : NULL, NULL}, posts));
    for (int k = 0; k < group.n; k++)
        any |= posts[k].data != NULL;
    if (wanted)
        capture_all(p, ctx, g);
    return any ? spmd__meet(ctx, &group, &signature, (spmd_post){0}, NULL) : SPMD_OK;
}

static spmd_status run_segment(spmd_program *p, spmd_ctx *ctx, const graphs *g, const segment *s)
{
    if (!s->graph || ctx->mesh->job.profile)
        return run_calls(p, ctx, g, s);
    for (int i = s->first; i < s->end; i++)
        if (!p->calls[i].op->view)
            spmd__record(&ctx->device->recorder, p->calls[i].op->name, NULL);
    SPMD_TRY(spmd__cuda_await(ctx, g->order[s->first].after));
    spmd__range_begin("graph");
    cudaError_t error = cudaGraphLaunch(s->graph, spmd__cuda_stream(ctx));
    spmd__range_end();
    return spmd__cuda_check(error, "cudaGraphLaunch");
}

spmd_status spmd__cuda_replay(spmd_program *p, spmd_ctx *ctx, spmd_status (*before_commit)(spmd_ctx *))
{
    graphs *g = p->captured;
    bool first = !g;
    if (first) {
        g = p->captured = new_graphs(p);
        p->forget = forget;
        if (!g)
            return SPMD_ENOMEM;
    }
    if (g->bindings != p->bindings)
        arrange(g, p);
    SPMD_TRY(make_graphs(p, ctx, g, !first && !ctx->mesh->job.profile && !g->tried));
    for (int k = 0; k < g->n; k++) {
        const segment *s = &g->segments[k];
        if (s->first == p->commit)
            SPMD_TRY(before_commit(ctx));
        SPMD_TRY(run_segment(p, ctx, g, s));
    }
    return spmd__sync(ctx);
}
