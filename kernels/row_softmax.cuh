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

__device__ __forceinline__ exp_sum shuffled(exp_sum s, int step)
{
    return {shuffled(s.max, step), shuffled(s.sum, step)};
}

/* A sum of nothing is left out: -inf - -inf would be NaN. */
struct merge {
    typedef exp_sum number;
    __device__ static exp_sum combine(exp_sum a, exp_sum b)
    {
        const float max = b.max > a.max ? b.max : a.max;
        const float from_a = a.max == max ? a.sum : a.sum * expf(a.max - max);
        const float from_b = b.max == max ? b.sum : b.sum * expf(b.max - max);
        return {max, from_a + from_b};
    }
};

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
    return fold_lanes<merge, LANES>(s);
}

} // namespace spmd_kernel

#endif
