/* Private. CUDA kernels that make a tensor from nothing but each element's index: out[i] = f(i). */
#ifndef KERNELS_GENERATE_CUH
#define KERNELS_GENERATE_CUH

#include "kernels/device.cuh"

namespace spmd_kernel
{

template <int V, class T, class F> __global__ void __launch_bounds__(THREADS) generate_kernel(T *out, int64_t n, F f)
{
    const int64_t at = thread_index() * V;
    if (at + V <= n) {
        pack<T, V> p;
        for (int v = 0; v < V; v++)
            p.at[v] = f(at + v);
        *(pack<T, V> *)(out + at) = p;
    } else {
        for (int64_t i = at; i < n; i++)
            out[i] = f(i);
    }
}

template <class T, class F> spmd_status generate(spmd_ctx *ctx, void *out, int64_t n, const F &f, const char *name)
{
    constexpr int v = pack_size<T>();
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (n == 0)
        return SPMD_OK;
    if (aligned_for<T>(out, v))
        SPMD_LAUNCH((generate_kernel<v, T, F>), blocks_for(n, THREADS * v), THREADS, 0, stream, (T *)out, n, f);
    else
        SPMD_LAUNCH((generate_kernel<1, T, F>), blocks_for(n, THREADS), THREADS, 0, stream, (T *)out, n, f);
    return spmd__cuda_check(cudaGetLastError(), name);
}

} // namespace spmd_kernel

#endif
