#include "kernels/rows.cuh"
#include "kernels/rows.h"

using namespace spmd_kernel;

namespace
{
template <class T> struct value {
    const T *x, *gain, *bias;
    T *y;
    float *mean, *scale, epsilon;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        float sum = 0, squares = 0;
        row.each([&](int64_t i) {
            const pack<T, V> p = row.read(x, i);
            for (int v = 0; v < V; v++)
                sum += widen(p.at[v]);
        });
        const float m = row.sum(sum) / (float)row.n;
        row.each([&](int64_t i) {
            const pack<T, V> p = row.read(x, i);
            for (int v = 0; v < V; v++) {
                const float left = widen(p.at[v]) - m;
                squares += left * left;
            }
        });
        const float s = 1.0f / sqrtf(row.sum(squares) / (float)row.n + epsilon);
        row.each([&](int64_t i) {
            const pack<T, V> g = row.read_shared(gain, i), b = row.read_shared(bias, i);
            pack<T, V> p = row.read(x, i);
            for (int v = 0; v < V; v++)
                p.at[v] = narrow<T>((widen(p.at[v]) - m) * s * widen(g.at[v]) + widen(b.at[v]));
            row.write(y, i, p);
        });
        if (row.first()) {
            mean[row.row] = m;
            scale[row.row] = s;
        }
    }
};
} // namespace

extern "C" spmd_status spmd__layer_norm_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = args->in, *out = args->out;
    return for_float(in[0].dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        const value<T> f = {(const T *)in[0].data, (const T *)in[1].data, (const T *)in[2].data,  (T *)out[0].data,
                            (float *)out[1].data,  (float *)out[2].data,  (float)args->attr->f[0]};
        return each_row<T>(ctx, f, spmd__row_count(&in[0]), spmd__row_length(&in[0]),
                           {in[0].data, in[1].data, in[2].data, out[0].data}, "layer_norm");
    });
}
