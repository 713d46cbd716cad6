#include "kernels/pointwise.cuh"

namespace
{
/* As on the host: -inf times 0 would be NaN. */
__device__ float clamp_below(float x)
{
    return x < -100.0f ? -100.0f : x;
}

struct value {
    __device__ float operator()(float x) const
    {
        return clamp_below(x) / (1.0f + expf(-x));
    }
};

struct gradient {
    __device__ float operator()(float x, float ct) const
    {
        const float low = clamp_below(x), c = low > 100.0f ? 100.0f : low;
        const float s = 1.0f / (1.0f + expf(-c));
        return ct * (s * (1.0f + c * (1.0f - s)));
    }
};
} // namespace

extern "C" spmd_status spmd__silu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::unary<value>(ctx, args, "silu");
}

extern "C" spmd_status spmd__silu_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::binary<gradient>(ctx, args, "silu_grad");
}
