/* By way of the working forms, as on the host: floats as f32, integers as int64_t. */
#include "kernels/pointwise.cuh"
#include <limits>
#include <type_traits>

using spmd_kernel::narrow;
using spmd_kernel::widen;

namespace
{
template <class T> constexpr bool is_int = std::is_integral<T>::value;

template <class T> struct limits {
    static constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
};

/* Truncated and saturated; NaN is 0. */
template <class To> __device__ To saturated(double x)
{
    const To low = limits<To>::low, high = limits<To>::high;
    if (x != x)
        return 0;
    return x <= (double)low ? low : x >= (double)high ? high : (To)x;
}

template <class To> struct convert {
    template <class From> __device__ To operator()(From x) const
    {
        if constexpr (!is_int<To> && !is_int<From>)
            return narrow<To>(widen(x));
        else if constexpr (!is_int<To>)
            return narrow<To>((float)x);
        else if constexpr (std::is_same<To, bool>::value && is_int<From>)
            return x != 0;
        else if constexpr (std::is_same<To, bool>::value)
            return widen(x) != 0;
        else if constexpr (is_int<From>)
            return (To)(uint64_t)(int64_t)x;
        else
            return saturated<To>((double)widen(x));
    }
};
} // namespace

extern "C" spmd_status spmd__cast_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_dtype stored = args->in[0].dtype, from = stored == SPMD_BOOL ? SPMD_U8 : stored;
    return spmd_kernel::for_any(args->out[0].dtype, [&](auto t) {
        typedef typename decltype(t)::type To;
        return spmd_kernel::for_any(from, [&](auto u) {
            typedef typename decltype(u)::type From;
            return spmd_kernel::pointwise<To, From>(ctx, args, convert<To>(), "cast");
        });
    });
}
