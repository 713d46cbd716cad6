#include "kernels/pointwise.cuh"

namespace
{
struct op {
    __device__ float operator()(float x) const
    {
        return sqrtf(x);
    }
};
} // namespace

extern "C" spmd_status spmd__sqrt_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::unary<op>(ctx, args, "sqrt");
}
