/* dx row by row; the sums over rows in a second pass, down columns. */
#include "kernels/columns.cuh"
#include "kernels/rows.cuh"
#include "kernels/rows.h"

using namespace spmd_kernel;

namespace
{
enum { X, GAIN, MEAN, SCALE, CT };

/* With h = (x - mean) scale and g = ct gain: dx = scale (g - mean(g) - h mean(g h)). */
template <class T> struct of_x {
    const T *x, *gain, *ct;
    const float *mean, *scale;
    T *dx;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        const float m = row.exists() ? mean[row.row] : 0, s = row.exists() ? scale[row.row] : 0;
        float sum_g = 0, sum_gh = 0;
        row.each([&](int64_t i) {
            const pack<T, V> p = row.read(x, i), c = row.read(ct, i), w = row.read_shared(gain, i);
            for (int v = 0; v < V; v++) {
                const float g = widen(c.at[v]) * widen(w.at[v]);
                sum_g += g;
                sum_gh += g * ((widen(p.at[v]) - m) * s);
            }
        });
        const float mean_g = row.sum(sum_g) / (float)row.n, mean_gh = row.sum(sum_gh) / (float)row.n;
        row.each([&](int64_t i) {
            const pack<T, V> c = row.read(ct, i), w = row.read_shared(gain, i);
            pack<T, V> p = row.read(x, i);
            for (int v = 0; v < V; v++) {
                const float g = widen(c.at[v]) * widen(w.at[v]), h = (widen(p.at[v]) - m) * s;
                p.at[v] = narrow<T>(s * (g - mean_g - h * mean_gh));
            }
            row.write(dx, i, p);
        });
    }
};

/* What a row adds to dgain and dbias. */
template <class T> struct of_vectors {
    const T *x, *ct;
    const float *mean, *scale;
    int64_t n;
    __device__ void operator()(int64_t row, int64_t column, float value[2]) const
    {
        const float c = widen(ct[row * n + column]);
        value[0] = c * ((widen(x[row * n + column]) - mean[row]) * scale[row]);
        value[1] = c;
    }
};

template <class T> spmd_status gradients(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = args->in, *out = args->out;
    const T *x = (const T *)in[X].data, *gain = (const T *)in[GAIN].data, *ct = (const T *)in[CT].data;
    const float *mean = (const float *)in[MEAN].data, *scale = (const float *)in[SCALE].data;
    const int64_t n = spmd__row_length(&in[X]), rows = spmd__row_count(&in[X]);
    const of_x<T> f = {x, gain, ct, mean, scale, (T *)out[0].data};
    const of_vectors<T> g = {x, ct, mean, scale, n};
    const fold_results<add, T, 2> to = {{(T *)out[1].data, (T *)out[2].data}, 1, NULL};
    SPMD_TRY(each_row<T>(ctx, f, rows, n, {x, gain, ct, out[0].data}, "layer_norm_grad"));
    return fold_columns<add>(ctx, g, to, rows, n, "layer_norm_grad");
}
} // namespace

extern "C" spmd_status spmd__layer_norm_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return for_float(args->in[X].dtype, [&](auto t) { return gradients<typename decltype(t)::type>(ctx, args); });
}
