#include "kernels/pointwise.cuh"
#include "kernels/gelu_math.cuh"

namespace
{
struct value {
    __device__ float operator()(float x) const
    {
        return spmd_kernel::gelu(x).value;
    }
};

struct gradient {
    __device__ float operator()(float x, float ct) const
    {
        return ct * spmd_kernel::gelu(x).slope;
    }
};
} // namespace

extern "C" spmd_status spmd__gelu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::unary<value>(ctx, args, "gelu");
}

extern "C" spmd_status spmd__gelu_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::binary<gradient>(ctx, args, "gelu_grad");
}
