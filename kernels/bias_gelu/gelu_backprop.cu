#include "kernels/columns.cuh"
#include "kernels/rows.h"

using namespace spmd_kernel;

namespace
{
enum { SLOPE, CT };

/* Writes dz (which may lie in slope) and keep * ct, where that is wanted, on the way. */
template <class T> struct backprop {
    const T *slope, *ct;
    T *dz, *kept;
    float keep;
    int64_t n;
    __device__ void operator()(int64_t row, int64_t column, float value[1]) const
    {
        const int64_t at = row * n + column;
        const float c = widen(ct[at]), d = c * widen(slope[at]);
        dz[at] = narrow<T>(d);
        if (kept)
            kept[at] = narrow<T>(c * keep);
        value[0] = d;
    }
};
} // namespace

extern "C" spmd_status spmd__gelu_backprop_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[CT], *out = args->out;
    void *kept = args->nout == 3 ? out[1].data : NULL, *dbias = out[args->nout - 1].data;
    const int64_t n = spmd__row_length(ct), rows = spmd__row_count(ct);
    return for_float(ct->dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        const backprop<T> f = {(const T *)args->in[SLOPE].data,
                               (const T *)ct->data,
                               (T *)out[0].data,
                               (T *)kept,
                               (float)args->attr->f[0],
                               n};
        const fold_results<add, T, 1> to = {{(T *)dbias}, 1, NULL};
        return fold_columns<add>(ctx, f, to, rows, n, "gelu_backprop");
    });
}
