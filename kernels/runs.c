/* The walk over broadcast operands. Inputs are contiguous, so an operand's stride along a dimension is either its own
 * or 0; after neighbouring dimensions are merged the last one is stride 1 or 0 for every operand, and the loops see
 * plain vectors only. */
#include "kernels/pointwise.h"
#include <string.h>

/* Strides of a view seen through the output's shape: 0 where it is broadcast. */
static void broadcast_strides(const spmd_view *view, int rank, int64_t *stride)
{
    int64_t step = 1;
    for (int d = rank - 1, v = view->rank - 1; d >= 0; d--, v--) {
        int64_t size = v >= 0 ? view->shape[v] : 1;
        stride[d] = size == 1 ? 0 : step;
        step *= size;
    }
}

spmd__runs spmd__runs_of(const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    int64_t stride[SPMD__MAX_OPERANDS][SPMD_MAX_RANK];
    spmd__runs r = {.in = args->in, .nin = args->nin, .total = spmd_view_count(out)};
    for (int k = 0; k < r.nin; k++)
        broadcast_strides(&args->in[k], out->rank, stride[k]);
    for (int d = 0; d < out->rank; d++) {
        if (out->shape[d] == 1)
            continue;
        bool merge = r.rank > 0;
        for (int k = 0; k < r.nin && merge; k++)
            merge = r.stride[k][r.rank - 1] == stride[k][d] * out->shape[d];
        r.rank += !merge;
        r.shape[r.rank - 1] = merge ? r.shape[r.rank - 1] * out->shape[d] : out->shape[d];
        for (int k = 0; k < r.nin; k++)
            r.stride[k][r.rank - 1] = stride[k][d];
    }
    if (r.rank == 0) /* one element */
        r.shape[r.rank++] = 1;
    return r;
}

bool spmd__runs_next(spmd__runs *r)
{
    int last = r->rank - 1;
    r->at += r->n;
    if (r->at >= r->total)
        return false;
    r->begin += r->n;
    for (int k = 0; k < r->nin; k++)
        r->operand_at[k] += r->n * r->stride[k][last];
    for (int d = last; d >= 0; d--) { /* carry, as an odometer */
        int64_t *index = d == last ? &r->begin : &r->index[d];
        if (*index < r->shape[d])
            break;
        for (int k = 0; k < r->nin; k++)
            r->operand_at[k] += (d > 0 ? r->stride[k][d - 1] : 0) - r->shape[d] * r->stride[k][d];
        *index = 0;
        if (d > 0)
            r->index[d - 1]++;
    }
    int64_t left = r->shape[last] - r->begin;
    r->n = left < SPMD__TILE ? left : SPMD__TILE;
    return true;
}

const void *spmd__run_operand(const spmd__runs *r, int k, void *tile)
{
    const spmd_view *in = &r->in[k];
    const void *element = spmd__element(in->data, in->dtype, r->operand_at[k]);
    if (r->stride[k][r->rank - 1] != 0 || r->n == 1)
        return element;
    spmd__splat(element, spmd_dtype_size(in->dtype), r->n, tile);
    return tile;
}

const float *spmd__run_f32(const spmd__runs *r, int k, float *tile)
{
    const spmd_view *in = &r->in[k];
    if (in->dtype == SPMD_F32)
        return spmd__run_operand(r, k, tile);
    const void *element = spmd__element(in->data, in->dtype, r->operand_at[k]);
    bool repeated = r->stride[k][r->rank - 1] == 0;
    spmd__widen(in->dtype, element, repeated ? 1 : r->n, tile);
    for (int64_t i = 1; repeated && i < r->n; i++)
        tile[i] = tile[0];
    return tile;
}
