/* Private. What all CUDA kernels of ops share: elements of any dtype, packs of them, the choice of a kernel by dtype,
 * sums over the lanes of a group. Arithmetic on bf16 and f16 is done in f32 and rounded once, as on the host. */
#ifndef KERNELS_DEVICE_CUH
#define KERNELS_DEVICE_CUH

#include "spmd/cuda.cuh"
#include "spmd/cuda/cuda_ctx.h"
#include <stdint.h>

namespace spmd_kernel
{

enum { THREADS = 256, WARP = 32 };
static constexpr unsigned ALL_LANES = 0xffffffffu;

/* --- elements --- */
__device__ __forceinline__ float widen(float x)
{
    return x;
}
__device__ __forceinline__ float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ __forceinline__ float widen(__half x)
{
    return __half2float(x);
}

template <class T> __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x)
{
    return __float2bfloat16(x);
}
template <> __device__ __forceinline__ __half narrow<__half>(float x)
{
    return __float2half(x);
}

/* V elements side by side, read and written at once. */
template <class T, int V> struct alignas(sizeof(T) * V) pack {
    T at[V];
};

/* How many elements fit in one access of 16 bytes, the largest of the types deciding. */
template <class... T> constexpr int pack_size()
{
    size_t largest = 1;
    ((largest = sizeof(T) > largest ? sizeof(T) : largest), ...);
    return (int)(16 / largest);
}

template <class T> inline bool aligned_for(const void *p, int v)
{
    return (uintptr_t)p % (sizeof(T) * (size_t)v) == 0;
}

/* --- the kernel for a dtype: f(of<T>{}) with T the element type; f returns a status --- */
template <class T> struct of {
    typedef T type;
};

template <class F> spmd_status for_float(spmd_dtype dtype, F f)
{
    switch (dtype) {
    case SPMD_F32:
        return f(of<float>{});
    case SPMD_BF16:
        return f(of<__nv_bfloat16>{});
    default:
        return f(of<__half>{});
    }
}

/* bool elements are written as bool, whatever is not 0 being 1, and read as uint8_t. */
template <class F> spmd_status for_any(spmd_dtype dtype, F f)
{
    switch (dtype) {
    case SPMD_I8:
        return f(of<int8_t>{});
    case SPMD_I32:
        return f(of<int32_t>{});
    case SPMD_I64:
        return f(of<int64_t>{});
    case SPMD_U8:
        return f(of<uint8_t>{});
    case SPMD_BOOL:
        return f(of<bool>{});
    default:
        return for_float(dtype, f);
    }
}

/* By size alone, for kernels that only move elements. */
template <class F> spmd_status for_size(size_t size, F f)
{
    switch (size) {
    case 1:
        return f(of<uint8_t>{});
    case 2:
        return f(of<uint16_t>{});
    case 4:
        return f(of<uint32_t>{});
    default:
        return f(of<uint64_t>{});
    }
}

/* --- launches --- */
inline unsigned blocks_for(int64_t count, int64_t per_block)
{
    return (unsigned)((count + per_block - 1) / per_block);
}

__device__ __forceinline__ int64_t thread_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* a / b for what is not negative: 64-bit division is slow, and hardly ever needed. */
__device__ __forceinline__ int64_t quotient(int64_t a, int64_t b)
{
    return a <= UINT32_MAX && b <= UINT32_MAX ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* --- all lanes of a group of LANES threads get the result; LANES is 32, or the whole block of 256 --- */
struct add {
    typedef float number;
    static constexpr float start = 0.0f;
    __device__ static float combine(float a, float b)
    {
        return a + b;
    }
};

/* For sums of any number of things: as on the host, right to the last bit but one. */
struct add_wide {
    typedef double number;
    static constexpr double start = 0.0;
    __device__ static double combine(double a, double b)
    {
        return a + b;
    }
};

/* NaN wins; of nothing it is -inf. */
struct larger {
    typedef float number;
    static constexpr float start = -INFINITY;
    __device__ static float combine(float a, float b)
    {
        return b <= a || a != a ? a : b;
    }
};

/* What the lane `step` away has. Structs that are folded have a shuffled of their own. */
template <class T> __device__ __forceinline__ T shuffled(T x, int step)
{
    return __shfl_xor_sync(ALL_LANES, x, step);
}

template <class Fold> __device__ __forceinline__ typename Fold::number fold_warp(typename Fold::number x)
{
    SPMD_UNROLL
    for (int step = WARP / 2; step > 0; step /= 2)
        x = Fold::combine(x, shuffled(x, step));
    return x;
}

template <class Fold, int LANES> __device__ __forceinline__ typename Fold::number fold_lanes(typename Fold::number x)
{
    static_assert(LANES == WARP || LANES == THREADS, "a warp or a block");
    x = fold_warp<Fold>(x);
    if constexpr (LANES == THREADS) {
        SPMD_SMEM(typename Fold::number, of_warp, [THREADS / WARP]);
        if (threadIdx.x % WARP == 0)
            of_warp[threadIdx.x / WARP] = x;
        __syncthreads();
        x = of_warp[0];
        for (int w = 1; w < THREADS / WARP; w++)
            x = Fold::combine(x, of_warp[w]);
        __syncthreads(); /* the next fold writes there */
    }
    return x;
}

} // namespace spmd_kernel

#endif
