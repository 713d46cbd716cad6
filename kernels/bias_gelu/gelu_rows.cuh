/* Private. gelu(z + bias) and its derivative for rows of z, as bias_gelu, linear_gelu and residual_gelu have it. */
#ifndef KERNELS_GELU_ROWS_CUH
#define KERNELS_GELU_ROWS_CUH

#include "kernels/gelu_math.cuh"
#include "kernels/rows.cuh"

namespace spmd_kernel
{

/* y = gelu(z + bias), slope its derivative; with an x: y = keep x + mix gelu, slope times mix. z may lie in y. */
template <class Z, class T> struct gelu_rows {
    const Z *z;
    const T *bias, *x;
    T *y, *slope;
    float keep, mix;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        row.each([&](int64_t i) {
            const pack<Z, V> p = row.read(z, i);
            const pack<T, V> b = row.read_shared(bias, i);
            pack<T, V> values = {}, slopes;
            if (x)
                values = row.read(x, i);
            for (int v = 0; v < V; v++) {
                const gelu_result g = gelu(widen(p.at[v]) + widen(b.at[v]));
                values.at[v] = narrow<T>(x ? widen(values.at[v]) * keep + g.value * mix : g.value);
                slopes.at[v] = narrow<T>(x ? g.slope * mix : g.slope);
            }
            row.write(y, i, values);
            row.write(slope, i, slopes);
        });
    }
};

/* out: y and slope. `x` NULL for no residual. */
template <class Z, class T>
spmd_status make_gelu_rows(spmd_ctx *ctx, const void *z, const void *bias, const void *x, const spmd_view *out,
                           float keep, float mix, const char *name)
{
    const gelu_rows<Z, T> f = {(const Z *)z, (const T *)bias, (const T *)x, (T *)out[0].data, (T *)out[1].data, keep,
                               mix};
    const int64_t n = out->shape[out->rank - 1], rows = n ? spmd_view_count(out) / n : 0;
    return each_row<T, Z>(ctx, f, rows, n, {bias, x, out[0].data, out[1].data}, name, z);
}

} // namespace spmd_kernel

#endif
