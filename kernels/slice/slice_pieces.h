/* Private. A block seen along one dimension: `outer` pieces of consecutive elements, `inner` elements before one step
 * along the dimension. */
#ifndef KERNELS_SLICE_PIECES_H
#define KERNELS_SLICE_PIECES_H

#include "spmd/tensor.h"

static inline void spmd__slice_pieces(const spmd_view *view, int dim, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int d = 0; d < view->rank; d++) {
        if (d < dim)
            *outer *= view->shape[d];
        else if (d > dim)
            *inner *= view->shape[d];
    }
}

#endif
