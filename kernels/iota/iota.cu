#include "kernels/generate.cuh"

namespace
{
template <class T> struct count_up {
    __device__ T operator()(int64_t i) const
    {
        return (T)i;
    }
};

/* Saturates, as the host does. */
template <> struct count_up<int32_t> {
    __device__ int32_t operator()(int64_t i) const
    {
        return i < INT32_MAX ? (int32_t)i : INT32_MAX;
    }
};
} // namespace

extern "C" spmd_status spmd__iota_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    int64_t n = out->shape[0];
    if (out->dtype == SPMD_I32)
        return spmd_kernel::generate<int32_t>(ctx, out->data, n, count_up<int32_t>(), "iota");
    if (out->dtype == SPMD_I64)
        return spmd_kernel::generate<int64_t>(ctx, out->data, n, count_up<int64_t>(), "iota");
    return spmd_kernel::generate<float>(ctx, out->data, n, count_up<float>(), "iota");
}
