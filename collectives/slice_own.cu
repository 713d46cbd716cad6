#include "collectives/coll.h"
#include "spmd/cuda/cuda_rows.cuh"

namespace
{
/* Where the slice lies in the whole: in every `n` pieces of `bytes`, piece `k`. */
struct place {
    size_t bytes;
    int n, k;
    int64_t rows;
};

place place_of(spmd_ctx *ctx, const spmd_attr *attr, const spmd_view *slice)
{
    const int64_t run = spmd__coll_run(slice->shape, (int)attr->i[SPMD_COLL_DIM], slice->rank);
    return {(size_t)run * spmd_dtype_size(slice->dtype), spmd__axes_size(spmd_ctx_mesh(ctx), &attr->axes),
            spmd__axes_index(ctx, &attr->axes), run ? spmd_view_count(slice) / run : 0};
}
} // namespace

extern "C" spmd_status spmd__slice_own_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const place p = place_of(ctx, args->attr, &args->out[0]);
    const char *from = (const char *)args->in[0].data + (size_t)p.k * p.bytes;
    return spmd__cuda_copy_rows(ctx, args->out[0].data, p.bytes, from, (size_t)p.n * p.bytes, p.bytes, p.rows,
                                "slice_own");
}

extern "C" spmd_status spmd__pad_own_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const place p = place_of(ctx, args->attr, &args->in[0]);
    return spmd__cuda_pad_rows(ctx, args->out[0].data, (size_t)p.n * p.bytes, (size_t)p.k * p.bytes, args->in[0].data,
                               p.bytes, p.rows, "pad_own");
}
