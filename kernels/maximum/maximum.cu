#include "kernels/pointwise.cuh"

namespace
{
struct op {
    __device__ float operator()(float a, float b) const
    {
        return a > b || a != a ? a : b;
    }
    __device__ int32_t operator()(int32_t a, int32_t b) const
    {
        return a > b ? a : b;
    }
};
} // namespace

extern "C" spmd_status spmd__maximum_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd_kernel::arithmetic<op>(ctx, args, "maximum");
}
