#include "kernels/row_softmax.cuh"
#include "kernels/rows.h"

using namespace spmd_kernel;

namespace
{
template <class T> struct value {
    const T *x;
    T *y;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        const exp_sum s = exp_sum_of(row, x);
        const float scale = 1.0f / s.sum;
        row.each([&](int64_t i) {
            pack<T, V> p = row.read(x, i);
            for (int v = 0; v < V; v++)
                p.at[v] = narrow<T>(expf(widen(p.at[v]) - s.max) * scale);
            row.write(y, i, p);
        });
    }
};

/* y (ct - sum(y ct)) */
template <class T> struct gradient {
    const T *y, *ct;
    T *dx;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        const float dot = row.dot(y, ct);
        row.each([&](int64_t i) {
            const pack<T, V> a = row.read(y, i);
            pack<T, V> b = row.read(ct, i);
            for (int v = 0; v < V; v++)
                b.at[v] = narrow<T>(widen(a.at[v]) * (widen(b.at[v]) - dot));
            row.write(dx, i, b);
        });
    }
};
} // namespace

extern "C" spmd_status spmd__softmax_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    return for_float(x->dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        const value<T> f = {(const T *)x->data, (T *)y->data};
        return each_row<T>(ctx, f, spmd__row_count(x), spmd__row_length(x), {x->data, y->data}, "softmax");
    });
}

extern "C" spmd_status spmd__softmax_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *y = &args->in[0], *ct = &args->in[1], *dx = &args->out[0];
    return for_float(y->dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        const gradient<T> f = {(const T *)y->data, (const T *)ct->data, (T *)dx->data};
        return each_row<T>(ctx, f, spmd__row_count(y), spmd__row_length(y), {y->data, ct->data, dx->data},
                           "softmax_grad");
    });
}
