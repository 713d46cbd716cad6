/* Backward, tile by tile as forward. With P the probabilities (made again from the scores and the rows' log sums):
 *
 *   dv[0:n] += P^T ct_tile             dP = ct_tile v[0:n]^T
 *   dS = P (dP - D) / sqrt(d)          D = a row's sum of ct * out, which is its sum of P dP
 *   dq_tile = dS k[0:n]                dk[0:n] += dS^T q_tile
 *
 * Tiles go from the last to the first: the last one sees all keys, so it writes dk and dv and the others add. */
#include "kernels/causal_attention/attention.h"
#include "spmd/clones.h"
#include "kernels/matmul/gemm.h"
#include "kernels/row_math.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__causal_attention_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { Q, K, V, OUT, LOG_SUM, CT };

/* One head. */
typedef struct head {
    const float *q, *k, *v, *out, *log_sum, *ct;
    float *dq, *dk, *dv;
    float *p, *ds; /* [tile, t] */
} head;

static spmd_status grad_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    for (int k = 0; k < 3; k++)
        spmd__same_shape(&call->out[k], &call->in[k]);
    return SPMD_OK;
}

SPMD_CLONES static void score_grad_row(float *restrict ds, const float *restrict p, float sum, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ds[i] = p[i] * (ds[i] - sum) * factor;
}

/* p: scores to probabilities; ds: dP to dS. Zeros where the mask is. */
static void probabilities(const head *h, const spmd__attention *s, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = n - rows + r, seen = i + 1;
        spmd__row_exp(h->p + r * n, h->log_sum[i], seen);
        memset(h->p + r * n + seen, 0, (size_t)(n - seen) * sizeof *h->p);
        score_grad_row(h->ds + r * n, h->p + r * n, spmd__row_dot(h->ct + i * s->d, h->out + i * s->d, s->d), s->factor,
                       seen);
        memset(h->ds + r * n + seen, 0, (size_t)(n - seen) * sizeof *h->ds);
    }
}

static spmd_status tile_grad(spmd_ctx *ctx, const spmd__attention *s, const head *h, int64_t rows, int64_t n)
{
    const float *q = h->q + (n - rows) * s->d, *ct = h->ct + (n - rows) * s->d;
    const spmd__gemm_case to_scores = {.batch = 1, .m = rows, .n = n, .k = s->d, .transpose_b = true};
    const spmd__gemm_case to_rows = {.batch = 1, .m = rows, .n = s->d, .k = n};
    const spmd__gemm_case to_keys = {
        .batch = 1, .m = n, .n = s->d, .k = rows, .transpose_a = true, .accumulate = n < s->t};
    SPMD_TRY(spmd__attention_scores(ctx, s, h->q, h->k, rows, n, h->p));
    SPMD_TRY(spmd__gemm(ctx, &to_scores, ct, h->v, NULL, h->ds));
    probabilities(h, s, rows, n);
    SPMD_TRY(spmd__gemm(ctx, &to_keys, h->p, ct, NULL, h->dv));
    SPMD_TRY(spmd__gemm(ctx, &to_keys, h->ds, q, NULL, h->dk));
    return spmd__gemm(ctx, &to_rows, h->ds, h->k, NULL, h->dq + (n - rows) * s->d);
}

static spmd_status grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *in = args->in, *out = args->out;
    const spmd__attention s = spmd__attention_of(&in[Q]);
    int64_t size = s.t * s.d, tile = SPMD__ATTENTION_TILE * s.t, buffers = out->dtype == SPMD_F32 ? 0 : 8;
    float *space = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(2 * tile + buffers * size) * sizeof *space);
    SPMD_CHECK(space, SPMD_ENOMEM, "causal_attention_grad: no memory for tiles of %lld keys: %s", (long long)s.t,
               spmd_last_error());
    float *b = space + 2 * tile;
    for (int64_t i = 0; i < s.heads; i++) {
        int64_t at = i * size;
        const head h = {.q = spmd__read_f32(&in[Q], at, size, b),
                        .k = spmd__read_f32(&in[K], at, size, b + size),
                        .v = spmd__read_f32(&in[V], at, size, b + 2 * size),
                        .out = spmd__read_f32(&in[OUT], at, size, b + 3 * size),
                        .log_sum = (const float *)in[LOG_SUM].data + i * s.t,
                        .ct = spmd__read_f32(&in[CT], at, size, b + 4 * size),
                        .dq = spmd__write_f32(&out[0], at, b + 5 * size),
                        .dk = spmd__write_f32(&out[1], at, b + 6 * size),
                        .dv = spmd__write_f32(&out[2], at, b + 7 * size),
                        .p = space,
                        .ds = space + tile};
        for (int64_t n = s.t; n > 0;) {
            int64_t rows = (n - 1) % SPMD__ATTENTION_TILE + 1;
            SPMD_TRY(tile_grad(ctx, &s, &h, rows, n));
            n -= rows;
        }
        spmd__wrote_f32(&out[0], at, size, h.dq);
        spmd__wrote_f32(&out[1], at, size, h.dk);
        spmd__wrote_f32(&out[2], at, size, h.dv);
    }
    return SPMD_OK;
}

static void grad_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *q = &call->in[Q];
    cost->flops = 5.0 * (double)spmd_count(q) * (double)q->shape[2]; /* five products, of which the mask leaves half */
    cost->bytes = 8.0 * (double)spmd__tensor_bytes(q);
}

/* Batch and heads are independent of each other. */
static void grad_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 2);
}

static const spmd_op attention_grad_op = {
    .name = "causal_attention_grad",
    .shape = grad_shape,
    .host = grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__causal_attention_grad_cuda),
    .cost = grad_cost,
    .rule = grad_rule,
    .linear = 1 << CT,
};

spmd_status spmd__attention_grad(spmd_ctx *ctx, const spmd_tensor in[6], spmd_tensor out[3])
{
    return spmd__emit(ctx, &attention_grad_op, NULL, in, 6, out, 3);
}
