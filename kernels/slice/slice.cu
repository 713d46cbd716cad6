#include "kernels/slice/slice_pieces.h"
#include "spmd/cuda/cuda_rows.cuh"

enum { DIM, START };

extern "C" spmd_status spmd__slice_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    const int dim = (int)args->attr->i[DIM];
    int64_t outer, inner;
    spmd__slice_pieces(x, dim, &outer, &inner);
    const size_t step = (size_t)inner * spmd_dtype_size(x->dtype);
    const size_t from = (size_t)x->shape[dim] * step, to = (size_t)y->shape[dim] * step;
    return spmd__cuda_copy_rows(ctx, y->data, to, (const char *)x->data + (size_t)args->attr->i[START] * step, from, to,
                                outer, "slice");
}

extern "C" spmd_status spmd__slice_back_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[0], *g = &args->out[0];
    const int dim = (int)args->attr->i[DIM];
    int64_t outer, inner;
    spmd__slice_pieces(g, dim, &outer, &inner);
    const size_t step = (size_t)inner * spmd_dtype_size(g->dtype);
    const size_t from = (size_t)ct->shape[dim] * step, to = (size_t)g->shape[dim] * step;
    return spmd__cuda_pad_rows(ctx, g->data, to, (size_t)args->attr->i[START] * step, ct->data, from, outer,
                               "slice_back");
}
