/* The index of the first maximum, or of the first NaN. A warp a result where its elements are neighbours, else a thread
 * a result: the threads' elements are neighbours then. */
#include "kernels/device.cuh"

using spmd_kernel::widen;

namespace
{
struct found {
    float x;
    int32_t index;
};

__device__ found shuffled(found f, int step)
{
    return {spmd_kernel::shuffled(f.x, step), spmd_kernel::shuffled(f.index, step)};
}

/* Of two in any order, the one that a search from the front keeps. */
struct better {
    typedef found number;
    __device__ static found combine(found a, found b)
    {
        const bool a_nan = a.x != a.x, b_nan = b.x != b.x, tie = (a_nan && b_nan) || a.x == b.x;
        if (tie)
            return a.index < b.index ? a : b;
        return a_nan || (!b_nan && a.x > b.x) ? a : b;
    }
};

/* Result i's n elements begin at i / inner * n * inner + i % inner and are `inner` apart. */
template <int LANES, class T>
__global__ void __launch_bounds__(spmd_kernel::THREADS)
    argmax_kernel(const T *x, int32_t *y, int64_t count, int64_t n, int64_t inner)
{
    const int lane = (int)threadIdx.x % LANES;
    const int64_t i = spmd_kernel::thread_index() / LANES, above = spmd_kernel::quotient(i, inner);
    const T *from = x + above * n * inner + i - above * inner;
    found best = {-INFINITY, INT32_MAX};
    for (int64_t j = lane; i < count && j < n; j += LANES)
        best = better::combine(best, found{widen(from[j * inner]), (int32_t)j});
    if constexpr (LANES > 1)
        best = spmd_kernel::fold_lanes<better, LANES>(best);
    if (i < count && lane == 0)
        y[i] = best.index;
}
} // namespace

extern "C" spmd_status spmd__argmax_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0];
    const int dim = (int)args->attr->i[0];
    const int64_t inner = x->strides[dim], n = x->shape[dim], count = spmd_view_count(&args->out[0]);
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    int32_t *y = (int32_t *)args->out[0].data;
    if (count == 0)
        return SPMD_OK;
    return spmd_kernel::for_float(x->dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        const T *from = (const T *)x->data;
        enum { THREADS = spmd_kernel::THREADS, WARP = spmd_kernel::WARP };
        if (inner == 1)
            SPMD_LAUNCH((argmax_kernel<WARP, T>), spmd_kernel::blocks_for(count, THREADS / WARP), THREADS, 0, stream,
                        from, y, count, n, inner);
        else
            SPMD_LAUNCH((argmax_kernel<1, T>), spmd_kernel::blocks_for(count, THREADS), THREADS, 0, stream, from, y,
                        count, n, inner);
        return spmd__cuda_check(cudaGetLastError(), "argmax");
    });
}
