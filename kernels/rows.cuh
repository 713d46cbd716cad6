/* Private. CUDA kernels along rows of [.., n]: a warp a row if rows are short, else a block of 256 threads a row. Rows
 * are read again in every pass: they lie in the caches then. A kernel is a functor:
 *
 *     template <int LANES, int V> __device__ void operator()(lanes<LANES, V> row) const
 *
 * goes over its share of the row by row.each. Every thread of a block calls the folds equally often, also those whose
 * group has no row left (row.exists() is false then). */
#ifndef KERNELS_ROWS_CUH
#define KERNELS_ROWS_CUH

#include "kernels/device.cuh"
#include <initializer_list>

namespace spmd_kernel
{

/* A thread's share of a row: packs of V elements, LANES * V apart. */
template <int LANES, int V> struct lanes {
    int64_t row, rows, n;

    __device__ bool exists() const
    {
        return row < rows;
    }
    __device__ bool first() const
    {
        return exists() && threadIdx.x % LANES == 0;
    }
    /* f(i) for every pack of this thread: it begins at element i of the row. */
    template <class F> __device__ void each(const F &f) const
    {
        for (int64_t i = (int64_t)(threadIdx.x % LANES) * V; i < n && exists(); i += LANES * V)
            f(i);
    }
    template <class T> __device__ pack<T, V> read(const T *x, int64_t i) const
    {
        return *(const pack<T, V> *)(x + row * n + i);
    }
    template <class T> __device__ pack<T, V> read_shared(const T *x, int64_t i) const /* of a vector, for all rows */
    {
        return *(const pack<T, V> *)(x + i);
    }
    template <class T> __device__ void write(T *y, int64_t i, const pack<T, V> &p) const
    {
        *(pack<T, V> *)(y + row * n + i) = p;
    }
    __device__ float sum(float x) const
    {
        return fold_lanes<add, LANES>(x);
    }
    /* Of the same row of two operands. */
    template <class T> __device__ float dot(const T *x, const T *y) const
    {
        float partial = 0;
        each([&](int64_t i) {
            const pack<T, V> a = read(x, i), b = read(y, i);
            for (int v = 0; v < V; v++)
                partial += widen(a.at[v]) * widen(b.at[v]);
        });
        return sum(partial);
    }
};

template <int LANES, int V, class F> __global__ void __launch_bounds__(THREADS) row_kernel(F f, int64_t rows, int64_t n)
{
    const int64_t row = (int64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    f(lanes<LANES, V>{row, rows, n});
}

template <int V, class F>
spmd_status launch_each_row(spmd_ctx *ctx, const F &f, int64_t rows, int64_t n, const char *name)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (n <= 1024)
        SPMD_LAUNCH((row_kernel<WARP, V, F>), blocks_for(rows, THREADS / WARP), THREADS, 0, stream, f, rows, n);
    else
        SPMD_LAUNCH((row_kernel<THREADS, V, F>), (unsigned)rows, THREADS, 0, stream, f, rows, n);
    return spmd__cuda_check(cudaGetLastError(), name);
}

/* Runs f for all rows. What decides whether packs can be used: the operands of T, and perhaps one of Z. */
template <class T, class Z = T, class F>
spmd_status each_row(spmd_ctx *ctx, const F &f, int64_t rows, int64_t n, std::initializer_list<const void *> pointers,
                     const char *name, const void *z = NULL)
{
    constexpr int v = pack_size<T>();
    bool packs = n % v == 0 && aligned_for<Z>(z, v);
    for (const void *p : pointers)
        packs = packs && aligned_for<T>(p, v);
    if (rows == 0 || n == 0)
        return SPMD_OK;
    return packs ? launch_each_row<v>(ctx, f, rows, n, name) : launch_each_row<1>(ctx, f, rows, n, name);
}

} // namespace spmd_kernel

#endif
