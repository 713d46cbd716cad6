#include "kernels/pointwise.cuh"

namespace
{
struct op {
    __device__ float operator()(float a, float b) const
    {
        return a / b;
    }
};
} // namespace

extern "C" spmd_status spmd__div_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::binary<op>(ctx, args, "div");
}
