#include "kernels/elements.h"
#include "kernels/generate.cuh"
#include <string.h>

namespace
{
template <class T> struct constant {
    T bits;
    __device__ T operator()(int64_t) const
    {
        return bits;
    }
};
} // namespace

/* Of full and fill_like. */
extern "C" spmd_status spmd__full_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    int64_t element;
    spmd__encode(out->dtype, args->attr->f[0], &element);
    return spmd_kernel::for_size(spmd_dtype_size(out->dtype), [&](auto t) {
        typedef typename decltype(t)::type T;
        constant<T> f;
        memcpy(&f.bits, &element, sizeof f.bits);
        return spmd_kernel::generate<T>(ctx, out->data, spmd_view_count(out), f, "full");
    });
}
