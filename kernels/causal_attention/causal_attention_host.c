/* Forward, head by head and tile by tile. A tile's rows i .. i+64 see the keys 0 .. i+64 at most, so its products are
 * cut there: the masked half of the work is mostly never done.
 *
 *         keys 0 ......... t        a tile: scores = q_tile k[0:n]^T      [rows, n]
 *   rows  x                                 rows of softmax over 0 .. own position, zeros after
 *         x x                               out_tile = probabilities v[0:n]
 *         x x x   (x: a tile) */
#include "kernels/causal_attention/attention.h"
#include "kernels/matmul/gemm.h"
#include "kernels/row_math.h"
#include "kernels/rows.h"
#include "kernels/workspace.h"
#include <string.h>

spmd_status spmd__attention_scores(spmd_ctx *ctx, const spmd__attention *s, const float *q, const float *k,
                                   int64_t rows, int64_t n, float *scores)
{
    const spmd__gemm_case c = {.batch = 1, .m = rows, .n = n, .k = s->d, .transpose_b = true};
    SPMD_TRY(spmd__gemm(ctx, &c, q + (n - rows) * s->d, k, NULL, scores));
    spmd__row_scale(scores, s->factor, rows * n);
    return SPMD_OK;
}

/* Scores to probabilities, in place; row r of the tile sees its first n - rows + r + 1 keys. */
static void softmax_tile(float *scores, int64_t rows, int64_t n, float *log_sum)
{
    for (int64_t r = 0; r < rows; r++) {
        float *row = scores + r * n;
        int64_t seen = n - rows + r + 1;
        float max = spmd__row_max(row, seen);
        spmd__row_exp(row, max, seen);
        float sum = spmd__row_sum(row, seen);
        spmd__row_scale(row, 1.0f / sum, seen);
        memset(row + seen, 0, (size_t)(n - seen) * sizeof *row);
        log_sum[r] = max + logf(sum);
    }
}

static spmd_status attend(spmd_ctx *ctx, const spmd__attention *s, const float *q, const float *k, const float *v,
                          float *scores, float *out, float *log_sum)
{
    for (int64_t i = 0; i < s->t; i += SPMD__ATTENTION_TILE) {
        int64_t rows = s->t - i < SPMD__ATTENTION_TILE ? s->t - i : SPMD__ATTENTION_TILE, n = i + rows;
        SPMD_TRY(spmd__attention_scores(ctx, s, q, k, rows, n, scores));
        softmax_tile(scores, rows, n, log_sum + i);
        const spmd__gemm_case c = {.batch = 1, .m = rows, .n = s->d, .k = n};
        SPMD_TRY(spmd__gemm(ctx, &c, scores, v, NULL, out + i * s->d));
    }
    return SPMD_OK;
}

spmd_status spmd__attention_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    const spmd__attention s = spmd__attention_of(&args->in[0]);
    int64_t size = s.t * s.d, buffers = out->dtype == SPMD_F32 ? 0 : 4;
    float *scores = spmd__workspace(ctx, SPMD__SPACE_KERNEL,
                                    (size_t)(SPMD__ATTENTION_TILE * s.t + buffers * size) * sizeof *scores);
    SPMD_CHECK(scores, SPMD_ENOMEM, "causal_attention: no memory for a tile of %lld keys: %s", (long long)s.t,
               spmd_last_error());
    float *buffer = scores + SPMD__ATTENTION_TILE * s.t;
    for (int64_t h = 0; h < s.heads; h++) {
        const float *in[3];
        for (int k = 0; k < 3; k++)
            in[k] = spmd__read_f32(&args->in[k], h * size, size, buffer + k * size);
        float *head = spmd__write_f32(out, h * size, buffer + 3 * size);
        SPMD_TRY(attend(ctx, &s, in[0], in[1], in[2], scores, head, (float *)args->out[1].data + h * s.t));
        spmd__wrote_f32(out, h * size, size, head);
    }
    return SPMD_OK;
}
