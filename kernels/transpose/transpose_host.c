/* The copy behind transpose. Output dimensions that stay neighbours are merged, so that only the real permutation is
 * left. If the last one keeps its place, rows are copied whole; otherwise the input's and the output's last dimension
 * span a plane, which is turned in square blocks: rows and columns of a block stay in L1. */
#include "kernels/elements.h"
#include "kernels/transpose/transpose_host.h"
#include <string.h>

enum { BLOCK = 16 };

spmd__permutation spmd__merge_permutation(const spmd_view *x, const int64_t *order)
{
    spmd__permutation p = {0};
    for (int d = 0; d < x->rank; d++) {
        int64_t size = x->shape[order[d]], stride = x->strides[order[d]];
        if (size == 1)
            continue;
        bool merge = p.rank > 0 && p.stride[p.rank - 1] == size * stride;
        p.rank += !merge;
        p.shape[p.rank - 1] = merge ? p.shape[p.rank - 1] * size : size;
        p.stride[p.rank - 1] = stride;
    }
    if (p.rank == 0) {
        p.rank = p.shape[0] = 1;
        p.stride[0] = 1;
    }
    return p;
}

/* to[i][j] = from[j][i]; strides in elements. `size` is a constant at every call, so that memcpy is one move. */
static inline void turn_block(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows,
                              int64_t columns, size_t size)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            memcpy(to + (size_t)(i * to_stride + j) * size, from + (size_t)(j * from_stride + i) * size, size);
}

static void turn_plane(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows,
                       int64_t columns, size_t size)
{
    for (int64_t i = 0; i < rows; i += BLOCK) {
        for (int64_t j = 0; j < columns; j += BLOCK) {
            int64_t m = rows - i < BLOCK ? rows - i : BLOCK, n = columns - j < BLOCK ? columns - j : BLOCK;
            char *t = to + (size_t)(i * to_stride + j) * size;
            const char *f = from + (size_t)(j * from_stride + i) * size;
            if (size == 1)
                turn_block(t, to_stride, f, from_stride, m, n, 1);
            else if (size == 2)
                turn_block(t, to_stride, f, from_stride, m, n, 2);
            else if (size == 4)
                turn_block(t, to_stride, f, from_stride, m, n, 4);
            else
                turn_block(t, to_stride, f, from_stride, m, n, 8);
        }
    }
}

spmd_status spmd__transpose_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    size_t size = spmd_dtype_size(x->dtype);
    spmd__permutation p = spmd__merge_permutation(x, args->attr->i);
    int last = p.rank - 1, plane = last; /* plane: the output dimension that is contiguous in the input */
    int64_t to_stride[SPMD_MAX_RANK], index[SPMD_MAX_RANK] = {0}, to = 0, from = 0;
    (void)ctx;
    if (spmd_view_count(x) == 0)
        return SPMD_OK;
    to_stride[last] = 1;
    for (int d = last; d > 0; d--)
        to_stride[d - 1] = to_stride[d] * p.shape[d];
    for (int d = 0; d < p.rank; d++)
        if (p.stride[d] == 1)
            plane = d;
    for (;;) {
        char *t = (char *)y->data + (size_t)to * size;
        const char *f = (const char *)x->data + (size_t)from * size;
        if (plane == last)
            memcpy(t, f, (size_t)p.shape[last] * size);
        else
            turn_plane(t, to_stride[plane], f, p.stride[last], p.shape[plane], p.shape[last], size);
        int d = last;
        for (; d >= 0; d--) { /* the next plane, as an odometer */
            if (d == last || d == plane)
                continue;
            to += to_stride[d];
            from += p.stride[d];
            if (++index[d] < p.shape[d])
                break;
            to -= to_stride[d] * p.shape[d];
            from -= p.stride[d] * p.shape[d];
            index[d] = 0;
        }
        if (d < 0)
            return SPMD_OK;
    }
}
