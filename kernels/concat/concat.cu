#include "kernels/slice/slice_pieces.h"
#include "spmd/cuda/cuda_rows.cuh"

extern "C" spmd_status spmd__concat_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *y = &args->out[0];
    const int dim = (int)args->attr->i[0];
    int64_t outer, inner;
    spmd__slice_pieces(y, dim, &outer, &inner);
    const size_t step = (size_t)inner * spmd_dtype_size(y->dtype), whole = (size_t)y->shape[dim] * step;
    char *to = (char *)y->data;
    for (int k = 0; k < args->nin; k++) {
        const size_t width = (size_t)args->in[k].shape[dim] * step;
        SPMD_TRY(spmd__cuda_copy_rows(ctx, to, whole, args->in[k].data, width, width, outer, "concat"));
        to += width;
    }
    return SPMD_OK;
}
