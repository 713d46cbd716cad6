#include "kernels/pointwise.cuh"

namespace
{
struct value {
    __device__ float operator()(float x) const
    {
        return x <= 0 ? 0 : x; /* NaN stays */
    }
};

struct gradient {
    __device__ float operator()(float y, float ct) const
    {
        return y > 0 ? ct : 0;
    }
};
} // namespace

extern "C" spmd_status spmd__relu_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::unary<value>(ctx, args, "relu");
}

extern "C" spmd_status spmd__relu_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::binary<gradient>(ctx, args, "relu_grad");
}
