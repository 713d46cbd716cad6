#include "kernels/pointwise.cuh"

namespace
{
template <class T> struct choose {
    __device__ T operator()(uint8_t condition, T a, T b) const
    {
        return condition ? a : b;
    }
};
} // namespace

extern "C" spmd_status spmd__where_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::for_size(spmd_dtype_size(args->out[0].dtype), [&](auto t) {
        typedef typename decltype(t)::type T;
        return spmd_kernel::pointwise<T, uint8_t, T, T>(ctx, args, choose<T>(), "where");
    });
}
