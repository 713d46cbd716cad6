/* Private: graphs of the emulated CUDA. */
#ifndef EMU_GRAPH_H
#define EMU_GRAPH_H
#include "emu/emu_runtime.h"

/* One node: work with its own copy of the arguments, on a lane (what was one stream when it was captured), after other
 * nodes. */
struct emu_node {
    emu_work work;
    int lane, *deps, ndeps;
};

struct CUgraph_st {
    struct emu_node *nodes;
    int nnodes, nodes_room;
    int *lane_device, nlanes;
};

struct CUgraph_st *emu_graph_new(void);
struct CUgraph_st *emu_graph_copy(const struct CUgraph_st *graph);
void emu_graph_free(struct CUgraph_st *graph);
int emu_graph_add_lane(struct CUgraph_st *graph, int device);
int emu_graph_add_node(struct CUgraph_st *graph, const emu_work *work, int lane, const int *deps, int ndeps);
/* Does every node come before one of `last` or is it one? */
bool emu_graph_is_joined(const struct CUgraph_st *graph, const int *last, int nlast);
#endif
