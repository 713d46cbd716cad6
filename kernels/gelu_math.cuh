/* Private. gelu, tanh form, and its derivative, with one exp and one division for both: see kernels/gelu_math.h. */
#ifndef KERNELS_GELU_MATH_CUH
#define KERNELS_GELU_MATH_CUH

#include "kernels/device.cuh"

namespace spmd_kernel
{

struct gelu_result {
    float value, slope;
};

/* x is clamped, not what the exponential takes: else the derivative at 1e30 were 0 * inf. NaN stays NaN. */
__device__ __forceinline__ gelu_result gelu(float x)
{
    const float low = x < -10.0f ? -10.0f : x, c = low > 10.0f ? 10.0f : low, square = c * c;
    const float e = expf(c * (-1.59576912f - 0.0713548163f * square)); /* e^-2u */
    const float s = 1.0f / (1.0f + e);
    return {low * s, s + c * s * (e * s) * (1.59576912f + 0.214064449f * square)};
}

} // namespace spmd_kernel

#endif
