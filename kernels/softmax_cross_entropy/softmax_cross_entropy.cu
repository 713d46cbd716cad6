/* A label out of range gives NaN, until somebody waits for the stream and finds the note. */
#include "kernels/row_softmax.cuh"
#include "kernels/rows.h"
#include "spmd/cuda/cuda_blame.cuh"

using namespace spmd_kernel;

namespace
{
enum { LOGITS, LABELS, LOG_SUM, CT };

struct value {
    const float *x;
    const int32_t *label;
    float *loss, *log_sum;
    spmd_cuda_note *note;
    const char *refusal;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        const exp_sum s = exp_sum_of(row, x);
        if (!row.first())
            return;
        const float log_of_sum = logf(s.sum);
        const int32_t at = label[row.row];
        log_sum[row.row] = s.max + log_of_sum;
        const bool fits = at >= 0 && at < row.n;
        /* Not log_sum - x: large logits would swallow the logarithm. */
        loss[row.row] = fits ? s.max - x[row.row * row.n + at] + log_of_sum : NAN;
        if (!fits)
            spmd__cuda_blame(note, refusal, (double)at, row.row, row.n);
    }
};

/* (softmax - onehot) ct */
struct gradient {
    const float *x, *log_sum, *ct;
    const int32_t *label;
    float *dx;
    template <int LANES, int V> __device__ void operator()(const lanes<LANES, V> &row) const
    {
        if (!row.exists())
            return;
        const int32_t at = label[row.row];
        const float shift = log_sum[row.row], factor = at >= 0 && at < row.n ? ct[row.row] : NAN;
        row.each([&](int64_t i) {
            pack<float, V> p = row.read(x, i);
            for (int v = 0; v < V; v++)
                p.at[v] = (expf(p.at[v] - shift) - (i + v == at ? 1.0f : 0.0f)) * factor;
            row.write(dx, i, p);
        });
    }
};
} // namespace

extern "C" spmd_status spmd__softmax_cross_entropy_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[LOGITS];
    const value f = {
        (const float *)x->data,     (const int32_t *)args->in[LABELS].data,
        (float *)args->out[0].data, (float *)args->out[1].data,
        spmd__cuda_note(ctx),       "softmax_cross_entropy: label %.0f of row %lld is outside 0..%lld (%lld classes)"};
    return each_row<float>(ctx, f, spmd__row_count(x), spmd__row_length(x), {x->data}, "softmax_cross_entropy");
}

extern "C" spmd_status spmd__softmax_cross_entropy_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[LOGITS], *dx = &args->out[0];
    const gradient f = {(const float *)x->data, (const float *)args->in[LOG_SUM].data, (const float *)args->in[CT].data,
                        (const int32_t *)args->in[LABELS].data, (float *)dx->data};
    return each_row<float>(ctx, f, spmd__row_count(x), spmd__row_length(x), {x->data, dx->data},
                           "softmax_cross_entropy_grad");
}
