#include "kernels/reduce.cuh"

extern "C" spmd_status spmd__sum_to_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const unsigned mask = spmd__sum_to_mask(&args->in[0], &args->out[0]);
    return spmd_kernel::reduce<spmd_kernel::add_wide>(ctx, args, mask, 1, "sum_to");
}
