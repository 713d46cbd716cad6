/* Private. Pointwise CUDA kernels: out[i] = f(operands at i), with numpy's broadcasting. The walk over broadcast
 * operands is the host's (kernels/runs.c): neighbouring dimensions are merged, and along the last one an operand is
 * either contiguous or one repeated element. A thread makes one pack of 16 bytes where addresses and sizes allow it. */
#ifndef KERNELS_POINTWISE_CUH
#define KERNELS_POINTWISE_CUH

#include "kernels/device.cuh"
#include "kernels/pointwise.h"
#include <utility>

namespace spmd_kernel
{

struct walk {
    void *out;
    const void *in[SPMD__MAX_OPERANDS];
    int rank;
    int64_t total, shape[SPMD_MAX_RANK], stride[SPMD__MAX_OPERANDS][SPMD_MAX_RANK];
};

inline walk walk_of(const spmd_kernel_args *args)
{
    const spmd__runs runs = spmd__runs_of(args);
    walk w = {};
    w.out = args->out[0].data;
    w.rank = runs.rank;
    w.total = runs.total;
    for (int k = 0; k < args->nin; k++)
        w.in[k] = args->in[k].data;
    for (int d = 0; d < runs.rank; d++) {
        w.shape[d] = runs.shape[d];
        for (int k = 0; k < args->nin; k++)
            w.stride[k][d] = runs.stride[k][d];
    }
    return w;
}

/* May operand k be read in packs of v? */
template <class T> bool in_packs(const walk &w, int k, int v)
{
    const int last = w.rank - 1;
    if (w.stride[k][last] == 0)
        return true;
    bool fits = aligned_for<T>(w.in[k], v);
    for (int d = 0; d < last; d++)
        fits = fits && w.stride[k][d] % v == 0;
    return fits;
}

/* Where element `at` of the result begins in operand K. */
template <int K> __device__ __forceinline__ int64_t place(const walk &w, int64_t at)
{
    int64_t offset = 0;
    for (int d = w.rank - 1; d > 0; d--) {
        const int64_t above = quotient(at, w.shape[d]);
        offset += (at - above * w.shape[d]) * w.stride[K][d];
        at = above;
    }
    return offset + at * w.stride[K][0];
}

/* The n <= V elements of operand K that belong to the result's from `at` on; further ones repeat the first. */
template <int V, int K, class T> __device__ __forceinline__ pack<T, V> load(const walk &w, int64_t at, int n)
{
    const T *from = (const T *)w.in[K] + place<K>(w, at);
    const bool repeated = w.stride[K][w.rank - 1] == 0;
    if (!repeated && n == V)
        return *(const pack<T, V> *)from;
    pack<T, V> p;
    const T first = from[0];
    for (int v = 0; v < V; v++)
        p.at[v] = repeated || v == 0 || v >= n ? first : from[v];
    return p;
}

template <int V, class Out, class F, class... Packs>
__device__ __forceinline__ void store(Out *to, int n, const F &f, const Packs &...packs)
{
    pack<Out, V> y;
    SPMD_UNROLL
    for (int v = 0; v < V; v++)
        y.at[v] = f(packs.at[v]...);
    if (n == V) {
        *(pack<Out, V> *)to = y;
        return;
    }
    SPMD_UNROLL
    for (int v = 0; v < V; v++) /* not up to n: y stays in registers */
        if (v < n)
            to[v] = y.at[v];
}

template <int V, class F, class Out, class... In, size_t... K>
__device__ __forceinline__ void make_pack(const walk &w, const F &f, int64_t at, std::index_sequence<K...>)
{
    const int n = w.total - at < V ? (int)(w.total - at) : V;
    store<V>((Out *)w.out + at, n, f, load<V, K, In>(w, at, n)...);
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(THREADS) pointwise_kernel(walk w, F f)
{
    const int64_t at = thread_index() * V;
    if (at < w.total)
        make_pack<V, F, Out, In...>(w, f, at, std::index_sequence_for<In...>{});
}

template <int V, class F, class Out, class... In>
spmd_status launch_pointwise(spmd_ctx *ctx, const walk &w, const F &f, const char *name)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    SPMD_LAUNCH((pointwise_kernel<V, F, Out, In...>), blocks_for(w.total, THREADS * V), THREADS, 0, stream, w, f);
    return spmd__cuda_check(cudaGetLastError(), name);
}

template <class F, class Out, class... In, size_t... K>
spmd_status choose_packs(spmd_ctx *ctx, const walk &w, const F &f, const char *name, std::index_sequence<K...>)
{
    constexpr int v = pack_size<Out, In...>();
    const bool whole = w.rank == 1 || w.shape[w.rank - 1] % v == 0;
    if (v > 1 && whole && aligned_for<Out>(w.out, v) && (in_packs<In>(w, K, v) && ...))
        return launch_pointwise<v, F, Out, In...>(ctx, w, f, name);
    return launch_pointwise<1, F, Out, In...>(ctx, w, f, name);
}

/* out[0] = f(in...), f from the elements of In... to one of Out. */
template <class Out, class... In, class F>
spmd_status pointwise(spmd_ctx *ctx, const spmd_kernel_args *args, const F &f, const char *name)
{
    const walk w = walk_of(args);
    if (w.total == 0)
        return SPMD_OK;
    return choose_packs<F, Out, In...>(ctx, w, f, name, std::index_sequence_for<In...>{});
}

/* A function of floats on elements of T. */
template <class T, class F> struct in_f32 {
    F f;
    template <class... In> __device__ __forceinline__ T operator()(In... x) const
    {
        return narrow<T>(f(widen(x)...));
    }
};

/* For a descriptor's .cuda: f a function of one float, of two; of two, and of two int32_t. */
template <class F> spmd_status unary(spmd_ctx *ctx, const spmd_kernel_args *args, const char *name, const F &f = F())
{
    return for_float(args->out[0].dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        return pointwise<T, T>(ctx, args, in_f32<T, F>{f}, name);
    });
}

template <class F> spmd_status binary(spmd_ctx *ctx, const spmd_kernel_args *args, const char *name, const F &f = F())
{
    return for_float(args->out[0].dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        return pointwise<T, T, T>(ctx, args, in_f32<T, F>{f}, name);
    });
}

template <class F> spmd_status arithmetic(spmd_ctx *ctx, const spmd_kernel_args *args, const char *name)
{
    if (args->out[0].dtype == SPMD_I32)
        return pointwise<int32_t, int32_t, int32_t>(ctx, args, F(), name);
    return binary<F>(ctx, args, name);
}

} // namespace spmd_kernel

#endif
