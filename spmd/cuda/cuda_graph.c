/* Replaying a program on backend cuda. What can be captured becomes CUDA graphs, one launch each: runs of local calls,
 * and the collectives that go over NCCL. Those over peer memory stay calls between the graphs, because the host meets
 * around each. The first replay runs call by call, so that every op has made what it keeps on the device, and shows
 * which collectives NCCL does; the second captures. What cannot be captured is called as before, with a notice.
 *
 * Every device captures for itself, the same calls in the same order; what they are was compared when the program was
 * recorded. All take the graphs with collectives, or none does. Before such a graph is launched all meet.
 *
 * Graphs hold addresses, and addresses decide what runs beside what: when the job's arrays are others, all of it is
 * made again. They hold communicators, too, and go before those do. */
#include "spmd/cuda/cuda_overlap.h"
#include "spmd/cuda/cuda_range.h"
#include "spmd/host/meet.h"

/* Calls first .. end-1. */
typedef struct segment {
    int first, end;
    bool across;           /* some are collectives */
    cudaGraphExec_t graph; /* NULL: call by call */
} segment;

typedef struct spmd_cuda_graphs {
    spmd_cuda_device *device;
    struct spmd_cuda_graphs *next; /* of the device */
    bool learned;                  /* `order` says which calls use NCCL: all have run with these communicators */
    bool tried;                    /* the segments were captured, as far as they can be */
    bool local;                    /* collectives are not captured: a device could not */
    uint32_t bindings;             /* for which addresses */
    spmd_cuda_order *order;
    int n;
    segment segments[]; /* room for one a call */
} graphs;

/* Fewer kernels than this gain nothing. */
enum { SHORTEST = 2 };

static bool capturable(const graphs *g, const spmd_program *p, int i)
{
    const spmd_call *call = &p->calls[i];
    const spmd_custom_op *custom = call->attr.definition;
    if (call->op->view)
        return true;
    if (spmd__meets(call))
        return g->order[i].nccl && !g->local;
    return call->op->cuda && (!custom || custom->cuda) && !g->order[i].nccl;
}

static int kernels_in(const spmd_program *p, const segment *s)
{
    int n = 0;
    for (int i = s->first; i < s->end; i++)
        n += !p->calls[i].op->view;
    return n;
}

/* The segment that begins with call `first`: a run that can be captured, or a single call. It crosses neither the first
 * update of an output nor a call that waits for a collective beside it, unless that is part of the segment: a capture
 * knows no events of outside. */
static segment next_segment(const graphs *g, const spmd_program *p, int first)
{
    segment s = {.first = first, .end = first};
    for (; s.end < p->n && capturable(g, p, s.end); s.end++) {
        int after = g->order[s.end].after;
        if (s.end > first && (s.end == p->commit || (after >= 0 && after < first)))
            break;
        s.across |= spmd__meets(&p->calls[s.end]);
    }
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
    graphs *g = captured, **at = &g->device->graphs;
    drop(g);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    spmd__free(g->order);
    spmd__free(g);
}

void spmd__cuda_drop_graphs(spmd_cuda_device *cuda)
{
    for (graphs *g = cuda->graphs; g; g = g->next) {
        drop(g);
        g->learned = false;
        g->bindings = 0;
    }
}

/* For the present addresses. */
static void arrange(graphs *g, spmd_program *p)
{
    drop(g);
    g->bindings = p->bindings;
    g->n = 0;
    p->info.beside = spmd__cuda_order(p, g->order);
    for (int i = 0; i < p->n; i = g->segments[g->n++].end)
        g->segments[g->n] = next_segment(g, p, i);
}

static graphs *new_graphs(spmd_program *p)
{
    spmd_cuda_order *order = spmd__alloc(p->mesh, (size_t)p->n * sizeof *order + 1);
    graphs *g = spmd__alloc(p->mesh, sizeof *g + (size_t)p->n * sizeof *g->segments);
    if (!g || !order) {
        spmd__free(g);
        spmd__free(order);
        return NULL;
    }
    for (int i = 0; i < p->n; i++)
        order[i].nccl = false;
    spmd_cuda_device *cuda = spmd__cuda_of(p->device);
    *g = (graphs){.device = cuda, .next = cuda->graphs, .order = order};
    cuda->graphs = g;
    return g;
}

/* A profile wants each op's own time: nothing runs beside another then. */
static spmd_status run_calls(spmd_program *p, spmd_ctx *ctx, graphs *g, const segment *s)
{
    for (int i = s->first; i < s->end; i++)
        SPMD_TRY(ctx->mesh->job.profile ? spmd__program_step(p, ctx, i) : spmd__cuda_step(p, ctx, i, g->order, 0));
    return SPMD_OK;
}

/* Puts the segment's work on the streams, which keep it for the graph. */
static spmd_status record(spmd_program *p, spmd_ctx *ctx, graphs *g, const segment *s)
{
    for (int i = s->first; i < s->end; i++)
        SPMD_TRY(spmd__cuda_step(p, ctx, i, g->order, s->first));
    return spmd__cuda_join(ctx);
}

static spmd_status capture(spmd_program *p, spmd_ctx *ctx, graphs *g, segment *s)
{
    cudaStream_t stream = spmd__cuda_stream(ctx);
    cudaGraph_t graph = NULL;
    SPMD_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    g->device->capturing = true;
    spmd_status status = record(p, ctx, g, s);
    g->device->capturing = g->device->beside = false;
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

/* False: a segment with collectives could not be captured. */
static bool capture_all(spmd_program *p, spmd_ctx *ctx, graphs *g)
{
    uint64_t calls = atomic_load(&ctx->device->recorder.calls);
    bool complete = true;
    for (int k = 0; k < g->n; k++) {
        segment *s = &g->segments[k];
        if (kernels_in(p, s) < SHORTEST || !capturable(g, p, s->first))
            continue;
        if (capture(p, ctx, g, s) == SPMD_OK) {
            for (int i = s->first; i < s->end; i++)
                g->order[i].turn = -1; /* the graph ends after it: nobody else waits */
            continue;
        }
        s->graph = NULL;
        complete &= !s->across;
        spmd__log(ctx->mesh, "graph", "jit: calls %d to %d are not part of a CUDA graph: %s", s->first, s->end - 1,
                  spmd_last_error());
    }
    g->tried = true;
    atomic_store(&ctx->device->recorder.calls, calls); /* nothing has run yet */
    return complete;
}

static spmd_status meet_all(spmd_ctx *ctx, int count, spmd_post post, spmd_post *posts)
{
    return spmd__meet(ctx, spmd__group_all(ctx), &(spmd_signature){.op = "replay", .count = count}, post, posts);
}

/* Graphs are made while no device is in a collective: they take memory. Every shard says whether it wants to, and
 * whether it could: with collectives all make them, or none. */
static spmd_status make_graphs(spmd_program *p, spmd_ctx *ctx, graphs *g, bool wanted)
{
    spmd_post posts[SPMD_MAX_DEVICES];
    bool any = false, all = true;
    spmd_ctx_at(ctx, "the beginning of a program");
    SPMD_TRY(meet_all(ctx, p->n, (spmd_post){wanted ? g : NULL, g->learned ? g : NULL}, posts));
    for (int d = 0; d < ctx->mesh->ndevices; d++) {
        any |= posts[d].data != NULL;
        all &= posts[d].out != NULL;
    }
    if (!any || !all)
        return SPMD_OK;
    arrange(g, p);
    all = capture_all(p, ctx, g);
    SPMD_TRY(meet_all(ctx, p->n, (spmd_post){all ? g : NULL, NULL}, posts));
    for (int d = 0; d < ctx->mesh->ndevices; d++)
        all &= posts[d].data != NULL;
    if (all)
        return SPMD_OK;
    g->local = true;
    arrange(g, p);
    capture_all(p, ctx, g);
    return meet_all(ctx, p->n, (spmd_post){0}, NULL);
}

/* What the calls of a graph leave in the flight recorder and the statistics. */
static void note_calls(const spmd_program *p, spmd_ctx *ctx, const segment *s)
{
    for (int i = s->first; i < s->end; i++) {
        const spmd_call *call = &p->calls[i];
        int64_t bytes = 0;
        if (call->op->view)
            continue;
        spmd__record(&ctx->device->recorder, call->op->name, spmd__meets(call) ? call->site : NULL);
        if (!spmd__meets(call))
            continue;
        for (int k = 0; k < call->nin; k++)
            bytes += (int64_t)spmd__tensor_bytes(&call->in[k]);
        ctx->transposing = call->implied;
        spmd__count_collective(ctx, spmd__group(ctx, &call->attr.axes)->mask, bytes);
    }
}

static spmd_status launch(spmd_program *p, spmd_ctx *ctx, graphs *g, const segment *s)
{
    note_calls(p, ctx, s);
    if (s->across) { /* in the order of all collectives, and at the same time as the others */
        SPMD_TRY(spmd__cuda_join(ctx));
        spmd_ctx_at(ctx, "a CUDA graph with collectives");
        SPMD_TRY(meet_all(ctx, s->first, (spmd_post){0}, NULL));
        g->device->collective = true;
    } else
        SPMD_TRY(spmd__cuda_await(ctx, g->order, g->order[s->first].after));
    spmd__range_begin("graph");
    cudaError_t error = cudaGraphLaunch(s->graph, spmd__cuda_stream(ctx));
    spmd__range_end();
    return spmd__cuda_check(error, "cudaGraphLaunch");
}

spmd_status spmd__cuda_replay(spmd_program *p, spmd_ctx *ctx, spmd_status (*before_commit)(spmd_ctx *))
{
    graphs *g = p->captured;
    bool profiled = ctx->mesh->job.profile != NULL;
    if (!g) {
        g = p->captured = new_graphs(p);
        p->forget = forget;
        if (!g)
            return SPMD_ENOMEM;
    }
    if (g->bindings != p->bindings)
        arrange(g, p);
    SPMD_TRY(make_graphs(p, ctx, g, g->learned && !profiled && !g->tried));
    for (int k = 0; k < g->n; k++) {
        const segment *s = &g->segments[k];
        if (s->first == p->commit)
            SPMD_TRY(before_commit(ctx));
        SPMD_TRY(s->graph && !profiled ? launch(p, ctx, g, s) : run_calls(p, ctx, g, s));
    }
    SPMD_TRY(spmd__sync(ctx));
    g->learned |= !profiled;
    return SPMD_OK;
}
