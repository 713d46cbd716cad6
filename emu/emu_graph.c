/* Graphs: kept as captured, launched as ordinary ops on streams of their own. */
#include "emu/emu_graph.h"
#include <stdlib.h>
#include <string.h>

struct CUgraphExec_st {
    struct CUgraph_st *graph;
    struct CUstream_st **lanes;
    emu_op *last; /* the end of the newest launch: one executable graph runs once at a time */
};

/* --- the graph --- */
struct CUgraph_st *emu_graph_new(void)
{
    emu_born(EMU_GRAPH);
    return emu_alloc(sizeof(struct CUgraph_st));
}

void emu_graph_free(struct CUgraph_st *graph)
{
    for (int i = 0; i < graph->nnodes; i++) {
        free((void *)(uintptr_t)graph->nodes[i].work.args);
        free(graph->nodes[i].deps);
    }
    free(graph->nodes);
    free(graph->lane_device);
    free(graph);
    emu_died(EMU_GRAPH);
}

int emu_graph_add_lane(struct CUgraph_st *graph, int device)
{
    graph->lane_device = emu_resize(graph->lane_device, sizeof(int) * (size_t)(graph->nlanes + 1));
    graph->lane_device[graph->nlanes] = device;
    return graph->nlanes++;
}

static void *copied(const void *data, size_t size)
{
    void *copy = emu_alloc(size);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

int emu_graph_add_node(struct CUgraph_st *graph, const emu_work *work, int lane, const int *deps, int ndeps)
{
    if (graph->nnodes == graph->nodes_room) {
        graph->nodes_room = graph->nodes_room ? 2 * graph->nodes_room : 32;
        graph->nodes = emu_resize(graph->nodes, sizeof *graph->nodes * (size_t)graph->nodes_room);
    }
    struct emu_node *node = &graph->nodes[graph->nnodes];
    *node = (struct emu_node){.work = *work, .lane = lane, .ndeps = ndeps};
    node->work.args = copied(work->args, work->size);
    node->deps = copied(deps, sizeof(int) * (size_t)ndeps);
    return graph->nnodes++;
}

struct CUgraph_st *emu_graph_copy(const struct CUgraph_st *graph)
{
    struct CUgraph_st *copy = emu_graph_new();
    for (int i = 0; i < graph->nlanes; i++)
        (void)emu_graph_add_lane(copy, graph->lane_device[i]);
    for (int i = 0; i < graph->nnodes; i++) {
        const struct emu_node *node = &graph->nodes[i];
        (void)emu_graph_add_node(copy, &node->work, node->lane, node->deps, node->ndeps);
    }
    return copy;
}

bool emu_graph_is_joined(const struct CUgraph_st *graph, const int *last, int nlast)
{
    bool *reached = emu_alloc(sizeof(bool) * (size_t)graph->nnodes), all = true;
    for (int i = 0; i < nlast; i++)
        reached[last[i]] = true;
    for (int i = graph->nnodes - 1; i >= 0; i--) { /* dependencies have smaller numbers */
        all = all && reached[i];
        for (int k = 0; k < graph->nodes[i].ndeps && reached[i]; k++)
            reached[graph->nodes[i].deps[k]] = true;
    }
    free(reached);
    return all;
}

/* --- API --- */
static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph)
{
    if (!out || !graph)
        return cudaErrorInvalidValue;
    struct CUgraphExec_st *exec = emu_alloc(sizeof *exec);
    emu_lock();
    exec->graph = emu_graph_copy(graph);
    exec->lanes = emu_alloc(sizeof *exec->lanes * (size_t)graph->nlanes);
    for (int i = 0; i < graph->nlanes; i++)
        exec->lanes[i] = emu_stream_new(graph->lane_device[i], cudaStreamNonBlocking, 0, true);
    emu_unlock();
    emu_died(EMU_GRAPH); /* the copy is part of the executable graph */
    emu_born(EMU_GRAPH_EXEC);
    *out = exec;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    EMU_CUDA_ENTER(cudaGraphInstantiate);
    (void)flags;
    return emu_return(instantiate(out, graph));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    EMU_CUDA_ENTER(cudaGraphInstantiateWithFlags);
    (void)flags;
    return emu_return(instantiate(out, graph));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaGraphUpload);
    (void)stream;
    return emu_return(exec ? cudaSuccess : cudaErrorInvalidValue);
}

/* The nodes become ops on the graph's lanes, between two marks on the stream. */
static void launch(struct CUgraphExec_st *exec, struct CUstream_st *s)
{
    const struct CUgraph_st *graph = exec->graph;
    emu_work begin = {.kind = EMU_MARK, .name = "graph begin"}, end = {.kind = EMU_MARK, .name = "graph end"};
    emu_op **ops = emu_alloc(sizeof *ops * (size_t)graph->nnodes);
    emu_op **deps = emu_alloc(sizeof *deps * (size_t)(graph->nnodes + 1));
    bool *inner = emu_alloc(sizeof *inner * (size_t)graph->nnodes); /* another node comes after it */
    emu_op *head = emu_issue(s, &begin, &exec->last, exec->last ? 1 : 0);
    emu_op_keep(head);
    for (int i = 0; i < graph->nnodes; i++) {
        const struct emu_node *node = &graph->nodes[i];
        deps[0] = head;
        for (int k = 0; k < node->ndeps; k++)
            deps[k] = ops[node->deps[k]];
        for (int k = 0; k < node->ndeps; k++)
            inner[node->deps[k]] = true;
        ops[i] = emu_issue(exec->lanes[node->lane], &node->work, deps, node->ndeps ? node->ndeps : 1);
        emu_op_keep(ops[i]);
    }
    int n = 0;
    for (int i = 0; i < graph->nnodes; i++)
        if (!inner[i])
            deps[n++] = ops[i];
    emu_op *tail = emu_issue(s, &end, deps, n);
    for (int i = 0; i < graph->nnodes; i++)
        emu_op_drop(ops[i]);
    emu_op_drop(head);
    emu_op_drop(exec->last);
    exec->last = tail;
    emu_op_keep(tail);
    free(ops);
    free(deps);
    free(inner);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMU_CUDA_ENTER(cudaGraphLaunch);
    if (!exec)
        return emu_return(cudaErrorInvalidValue);
    emu_lock();
    struct CUstream_st *s = emu_stream_of(stream, "cudaGraphLaunch");
    cudaError_t error = s ? emu_devices[s->device].sticky : cudaErrorInvalidResourceHandle;
    if (s && s->capture) {
        emu_report("capture",
                   "cudaGraphLaunch during a capture would become a child graph, which the emulator does not "
                   "have; launch it outside");
        emu_capture_spoil(s);
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (!error)
        launch(exec, s);
    emu_unlock();
    return emu_return(error);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    EMU_CUDA_ENTER(cudaGraphDestroy);
    if (!graph)
        return emu_return(cudaErrorInvalidValue);
    emu_graph_free(graph);
    return cudaSuccess;
}

/* A launch that still runs goes on. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    EMU_CUDA_ENTER(cudaGraphExecDestroy);
    if (!exec)
        return emu_return(cudaErrorInvalidValue);
    emu_lock();
    for (int i = 0; i < exec->graph->nlanes; i++) {
        exec->lanes[i]->destroyed = true;
        if (!exec->lanes[i]->head)
            emu_stream_delete(exec->lanes[i]);
    }
    emu_op_drop(exec->last);
    emu_unlock();
    emu_born(EMU_GRAPH); /* as emu_graph_free counts it */
    emu_graph_free(exec->graph);
    free(exec->lanes);
    free(exec);
    emu_died(EMU_GRAPH_EXEC);
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    EMU_CUDA_ENTER(cudaGraphGetNodes);
    if (!graph || !count)
        return emu_return(cudaErrorInvalidValue);
    size_t all = (size_t)graph->nnodes;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < all ? (cudaGraphNode_t)(void *)&graph->nodes[i] : NULL;
    *count = nodes && *count < all ? *count : all;
    return cudaSuccess;
}
