#include "kernels/pointwise.cuh"

namespace
{
template <class T> struct same {
    __device__ T operator()(T x) const
    {
        return x;
    }
};
} // namespace

extern "C" spmd_status spmd__broadcast_to_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::for_size(spmd_dtype_size(args->out[0].dtype), [&](auto t) {
        typedef typename decltype(t)::type T;
        return spmd_kernel::pointwise<T, T>(ctx, args, same<T>(), "broadcast_to");
    });
}
