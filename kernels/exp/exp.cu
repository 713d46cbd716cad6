#include "kernels/pointwise.cuh"

namespace
{
struct op {
    __device__ float operator()(float x) const
    {
        return expf(x);
    }
};
} // namespace

extern "C" spmd_status spmd__exp_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::unary<op>(ctx, args, "exp");
}
