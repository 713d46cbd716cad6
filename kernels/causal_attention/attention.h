/* Private. Causal attention in tiles: ATTENTION_TILE rows of scores of one head exist at a time. */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "spmd/op.h"
#include <math.h>

enum { SPMD__ATTENTION_TILE = 64 };

/* One head's sizes, and the factor 1 / sqrt(d) of the scores. */
typedef struct spmd__attention {
    int64_t heads, t, d; /* heads: of all the batch */
    float factor;
} spmd__attention;

static inline spmd__attention spmd__attention_of(const spmd_view *q)
{
    return (spmd__attention){q->shape[0] * q->shape[1], q->shape[2], q->shape[3], 1.0f / sqrtf((float)q->shape[3])};
}

/* The tile's scaled scores [rows, n]: q's rows (n - rows) .. n against k's rows 0 .. n. */
spmd_status spmd__attention_scores(spmd_ctx *ctx, const spmd__attention *s, const float *q, const float *k,
                                   int64_t rows, int64_t n, float *scores);

spmd_status spmd__attention_host(spmd_ctx *ctx, const spmd_kernel_args *args); /* q, k, v -> out, log_sum */
/* q, k, v, out, log_sum, ct -> dq, dk, dv */
spmd_status spmd__attention_grad(spmd_ctx *ctx, const spmd_tensor in[6], spmd_tensor out[3]);

#endif
