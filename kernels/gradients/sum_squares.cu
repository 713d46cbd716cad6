#include "kernels/reduce.cuh"

extern "C" spmd_status spmd__sum_squares_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const unsigned all = (1u << args->in[0].rank) - 1;
    return spmd_kernel::for_float(args->in[0].dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        return spmd_kernel::reduce_as<float, T, spmd_kernel::add_wide, spmd_kernel::its_square>(ctx, args, all, 1,
                                                                                                "sum_squares");
    });
}
