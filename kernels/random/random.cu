/* The host's bits; normal numbers differ by the last digits of logf and cosf. */
#include "kernels/generate.cuh"
#include "kernels/random/random_block.h"

using namespace spmd_kernel;

namespace
{
struct bits {
    spmd__random_block block;
    const int32_t *seed32; /* one of the two */
    const uint64_t *seed64;
    __device__ void make(int64_t i, uint32_t c[4]) const
    {
        const uint64_t seed = seed32 ? (uint64_t)(int64_t)*seed32 : *seed64;
        spmd__random_bits((uint64_t)spmd__random_index(&block, i), block.stream, seed, c);
    }
};

struct uniform {
    bits b;
    __device__ float operator()(int64_t i) const
    {
        uint32_t c[4];
        b.make(i, c);
        return (float)(c[0] >> 8) * 0x1p-24f;
    }
};

/* Box-Muller. */
struct normal {
    bits b;
    __device__ float operator()(int64_t i) const
    {
        uint32_t c[4];
        b.make(i, c);
        const float radius = sqrtf(-2.0f * logf(((float)c[0] + 0.5f) * 0x1p-32f));
        return radius * cosf((float)(c[1] >> 8) * 0x1p-24f * 6.28318531f);
    }
};

template <class F> spmd_status fill(spmd_ctx *ctx, const spmd_kernel_args *args, const char *name)
{
    const spmd_view *seed = &args->in[0], *y = &args->out[0];
    F f = {};
    f.b.block = spmd__random_block_of(ctx, args);
    if (seed->dtype == SPMD_I32)
        f.b.seed32 = (const int32_t *)seed->data;
    else
        f.b.seed64 = (const uint64_t *)seed->data;
    return generate<float>(ctx, y->data, spmd_view_count(y), f, name);
}
} // namespace

extern "C" spmd_status spmd__random_uniform_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return fill<uniform>(ctx, args, "random_uniform");
}

extern "C" spmd_status spmd__random_normal_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return fill<normal>(ctx, args, "random_normal");
}
