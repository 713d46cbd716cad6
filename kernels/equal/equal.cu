/* Floats compare as numbers, integers by their bits. */
#include "kernels/pointwise.cuh"

namespace
{
struct equal_numbers {
    template <class T> __device__ uint8_t operator()(T a, T b) const
    {
        return spmd_kernel::widen(a) == spmd_kernel::widen(b);
    }
};

struct equal_bits {
    template <class T> __device__ uint8_t operator()(T a, T b) const
    {
        return a == b;
    }
};
} // namespace

extern "C" spmd_status spmd__equal_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_dtype dtype = args->in[0].dtype;
    if (spmd_dtype_is_float(dtype))
        return spmd_kernel::for_float(dtype, [&](auto t) {
            typedef typename decltype(t)::type T;
            return spmd_kernel::pointwise<uint8_t, T, T>(ctx, args, equal_numbers(), "equal");
        });
    return spmd_kernel::for_size(spmd_dtype_size(dtype), [&](auto t) {
        typedef typename decltype(t)::type T;
        return spmd_kernel::pointwise<uint8_t, T, T>(ctx, args, equal_bits(), "equal");
    });
}
