/* Private. A block seen along one dimension: `outer` pieces of consecutive elements, `inner` elements before one step
 * along the dimension. */
#ifndef KERNELS_SLICE_PIECES_H
#define KERNELS_SLICE_PIECES_H

#include "spmd/op.h"

static inline void spmd__slice_pieces(const spmd_view *view, int dim, int64_t *outer, int64_t *inner)
{
    *outer = spmd__block_count(dim, view->shape);
    *inner = spmd__block_count(view->rank - dim - 1, view->shape + dim + 1);
}

#endif
