/* Private. A row's maximum and the sum of its exponentials in one pass: what softmax and its relatives begin with. */
#ifndef KERNELS_ROW_SOFTMAX_CUH
#define KERNELS_ROW_SOFTMAX_CUH

#include "kernels/rows.cuh"

namespace spmd_kernel
{

/* sum of e^(x - max); NaN if an x is NaN or inf, 0 if all are -inf. */
struct exp_sum {
    float max, sum;
};

__device__ __forceinline__ exp_sum with(exp_sum s, float x)
{
    if (x > s.max)
        return {x, s.sum * expf(s.max - x) + expf(x - x)}; /* x - x: NaN for inf */
    return {s.max, s.sum + (x == -INFINITY ? 0.0f : expf(x - s.max))};
}

/* A sum of nothing is left out: -inf - -inf would be NaN. */
__device__ __forceinline__ exp_sum merged(exp_sum a, exp_sum b)
{
    const float max = b.max > a.max ? b.max : a.max;
    const float from_a = a.max == max ? a.sum : a.sum * expf(a.max - max);
    const float from_b = b.max == max ? b.sum : b.sum * expf(b.max - max);
    return {max, from_a + from_b};
}

/* Of all lanes. */
template <int LANES> __device__ __forceinline__ exp_sum merge_lanes(exp_sum s)
{
    SPMD_UNROLL
    for (int step = WARP / 2; step > 0; step /= 2)
        s = merged(s, exp_sum{__shfl_xor_sync(ALL_LANES, s.max, step), __shfl_xor_sync(ALL_LANES, s.sum, step)});
    if constexpr (LANES == THREADS) {
        SPMD_SMEM(exp_sum, of_warp, [THREADS / WARP]);
        if (threadIdx.x % WARP == 0)
            of_warp[threadIdx.x / WARP] = s;
        __syncthreads();
        s = of_warp[0];
        for (int w = 1; w < THREADS / WARP; w++)
            s = merged(s, of_warp[w]);
        __syncthreads();
    }
    return s;
}

template <int LANES, int V, class T>
__device__ __forceinline__ exp_sum exp_sum_of(const lanes<LANES, V> &row, const T *x)
{
    exp_sum s = {-INFINITY, 0.0f};
    row.each([&](int64_t i) {
        const pack<T, V> p = row.read(x, i);
        SPMD_UNROLL
        for (int v = 0; v < V; v++)
            s = with(s, widen(p.at[v]));
    });
    return merge_lanes<LANES>(s);
}

} // namespace spmd_kernel

#endif
