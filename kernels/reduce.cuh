/* Private. CUDA reductions over any set of dimensions, by the host's plan (kernels/reduce.h): where the last dimension
 * is kept, down columns; where it is reduced, along rows, each by a warp or a block. Sums run in a fixed order. */
#ifndef KERNELS_REDUCE_CUH
#define KERNELS_REDUCE_CUH

#include "kernels/columns.cuh"
#include "kernels/reduce.h"

namespace spmd_kernel
{

/* What is folded of an element. */
struct itself {
    __device__ static float of(float x)
    {
        return x;
    }
};

struct its_square {
    __device__ static double of(float x)
    {
        return (double)x * x;
    }
};

/* Where in x the i-th combination of indices begins. */
__device__ __forceinline__ int64_t offset(const spmd__dim_list &s, int64_t i)
{
    int64_t at = 0;
    for (int k = 0; k + 1 < s.n; k++) {
        const int64_t above = quotient(i, s.size[k]);
        at += (i - above * s.size[k]) * s.stride[k];
        i = above;
    }
    return s.n ? at + i * s.stride[s.n - 1] : at;
}

template <class T, class Value> struct column_of {
    const T *x;
    spmd__reduce_plan plan;
    __device__ void operator()(int64_t row, int64_t column, float value[1]) const
    {
        const int64_t kept = plan.kept.n ? quotient(column, plan.last) : 0;
        const int64_t at = offset(plan.kept, kept) + offset(plan.reduced, row) + column - kept * plan.last;
        value[0] = Value::of(widen(x[at]));
    }
};

/* Result number `kept` folds `length` elements; a part of them, `per_part`, is read here by LANES threads in packs. */
template <class Fold, class Value, int LANES, int V, class T, class Out>
__global__ void __launch_bounds__(THREADS)
    rows_kernel(const T *x, spmd__reduce_plan plan, fold_results<Fold, Out, 1> to, int64_t per_part)
{
    const int64_t kept = (int64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    const int64_t length = plan.reduced.count * plan.last, begin = blockIdx.y * per_part;
    const int64_t end = begin + per_part < length ? begin + per_part : length;
    typename Fold::number sum[V];
    for (int v = 0; v < V; v++)
        sum[v] = Fold::start;
    for (int64_t i = begin + (int)(threadIdx.x % LANES) * V; i < end && kept < plan.kept.count; i += LANES * V) {
        const int64_t run = plan.reduced.n ? quotient(i, plan.last) : 0;
        const int64_t at = offset(plan.kept, kept) + offset(plan.reduced, run) + i - run * plan.last;
        const pack<T, V> p = *(const pack<T, V> *)(x + at);
        SPMD_UNROLL
        for (int v = 0; v < V; v++)
            sum[v] = Fold::combine(sum[v], Value::of(widen(p.at[v])));
    }
    for (int v = 1; v < V; v++)
        sum[0] = Fold::combine(sum[0], sum[v]);
    const typename Fold::number all = fold_lanes<Fold, LANES>(sum[0]);
    if (threadIdx.x % LANES == 0 && kept < plan.kept.count) {
        if (gridDim.y > 1)
            to.partial[blockIdx.y * plan.kept.count + kept] = all;
        else
            to.out[0][kept] = result<Fold, Out>(all, to.divisor);
    }
}

inline bool strides_divide(const spmd__dim_list &s, int v)
{
    bool divide = true;
    for (int k = 0; k < s.n; k++)
        divide = divide && s.stride[k] % v == 0;
    return divide;
}

template <class Fold, class Value, int LANES, class T, class Out>
spmd_status launch_rows(spmd_ctx *ctx, const T *x, const spmd__reduce_plan &plan, const fold_results<Fold, Out, 1> &to,
                        int parts, int64_t per_part)
{
    constexpr int v = pack_size<T>();
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    const dim3 grid(blocks_for(plan.kept.count, THREADS / LANES), (unsigned)parts);
    if (aligned_for<T>(x, v) && plan.last % v == 0 && strides_divide(plan.kept, v) && strides_divide(plan.reduced, v))
        SPMD_LAUNCH((rows_kernel<Fold, Value, LANES, v, T, Out>), grid, THREADS, 0, stream, x, plan, to, per_part);
    else
        SPMD_LAUNCH((rows_kernel<Fold, Value, LANES, 1, T, Out>), grid, THREADS, 0, stream, x, plan, to, per_part);
    return spmd__cuda_check(cudaGetLastError(), "reduction");
}

template <class Fold, class Value, class T, class Out>
spmd_status reduce_rows(spmd_ctx *ctx, const T *x, const spmd__reduce_plan &plan, fold_results<Fold, Out, 1> to,
                        const char *name)
{
    const int64_t length = plan.reduced.count * plan.last, step = (int64_t)THREADS * pack_size<T>();
    if (length <= 1024 && plan.kept.count > 1) {
        SPMD_TRY((launch_rows<Fold, Value, WARP>(ctx, x, plan, to, 1, length)));
        return SPMD_OK;
    }
    const int parts = parts_for(plan.kept.count, length, 4 * step);
    const int64_t per_part = (length + parts * step - 1) / (parts * step) * step; /* whole packs of all lanes */
    SPMD_TRY(reserve_parts(ctx, &to, plan.kept.count, parts, name));
    SPMD_TRY((launch_rows<Fold, Value, THREADS>(ctx, x, plan, to, parts, per_part)));
    return finish_parts<Fold>(ctx, to, plan.kept.count, parts, name);
}

/* out[0] = fold of in[0] over the dimensions of `mask`, divided by `divisor`; of Value of each element. */
template <class Out, class T, class Fold, class Value>
spmd_status reduce_as(spmd_ctx *ctx, const spmd_kernel_args *args, unsigned mask, double divisor, const char *name)
{
    const spmd_view *x = &args->in[0];
    const spmd__reduce_plan plan = spmd__plan_reduction(x, mask);
    const T *data = (const T *)x->data;
    const fold_results<Fold, Out, 1> to = {{(Out *)args->out[0].data}, divisor, NULL};
    if (spmd_view_count(&args->out[0]) == 0)
        return SPMD_OK;
    if (plan.last_reduced)
        return reduce_rows<Fold, Value>(ctx, data, plan, to, name);
    const column_of<T, Value> f = {data, plan};
    return fold_columns<Fold>(ctx, f, to, plan.reduced.count, plan.kept.count * plan.last, name);
}

/* The result has in[0]'s dtype. */
template <class Fold>
spmd_status reduce(spmd_ctx *ctx, const spmd_kernel_args *args, unsigned mask, double divisor, const char *name)
{
    return for_float(args->in[0].dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        return reduce_as<T, T, Fold, itself>(ctx, args, mask, divisor, name);
    });
}

} // namespace spmd_kernel

#endif
