/* softmax_cross_entropy: -log softmax(logits)[label] without the probabilities ever being stored. What the backward
 * pass needs of them is one number a row, the log of the sum of exponentials, kept as a second output. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <math.h>

spmd_status spmd__softmax_cross_entropy_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__softmax_cross_entropy_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { LOGITS, LABELS, LOG_SUM, CT };

static spmd_status xent_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *logits = &call->in[LOGITS], *labels = &call->in[LABELS];
    char lt[96], bt[96];
    spmd__shape_text(logits, lt);
    spmd__shape_text(labels, bt);
    SPMD_CHECK(logits->dtype == SPMD_F32, SPMD_EDTYPE,
               "softmax_cross_entropy: logits are %s: expected f32; cast to f32 (spmd_cast), 16 bits are too few for a "
               "loss",
               lt);
    SPMD_CHECK(labels->dtype == SPMD_I32, SPMD_EDTYPE, "softmax_cross_entropy: labels are %s: expected i32", bt);
    spmd_tensor *loss = &call->out[0];
    SPMD_CHECK(logits->rank >= 1, SPMD_ESHAPE, "softmax_cross_entropy: logits are %s: expected [.., n]", lt);
    spmd__same_shape(loss, logits);
    loss->rank--;
    SPMD_CHECK(spmd__shape_equal(loss, labels), SPMD_ESHAPE,
               "softmax_cross_entropy: logits are %s, labels are %s: expected logits [.., n] and labels [..]", lt, bt);
    spmd__same_shape(&call->out[1], loss);
    return SPMD_OK;
}

/* How many rows are worked on at once, so that short ones do not come one by one: at least one, at most a tile. */
static int64_t rows_at_once(int64_t n)
{
    return n > 0 && n < SPMD__TILE ? SPMD__TILE / n : 1;
}

static spmd_status check_labels(const int32_t *label, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        SPMD_CHECK(label[r] >= 0 && label[r] < n, SPMD_EINVAL,
                   "softmax_cross_entropy: label %d of row %lld is outside 0..%lld (%lld classes)", (int)label[r],
                   (long long)r, (long long)n - 1, (long long)n);
    return SPMD_OK;
}

static spmd_status xent_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *logits = &args->in[LOGITS];
    const float *x = logits->data;
    const int32_t *label = args->in[LABELS].data;
    float *loss = args->out[0].data, *log_sum = args->out[1].data;
    int64_t n = logits->shape[logits->rank - 1], rows = spmd_view_count(&args->out[0]), most = rows_at_once(n);
    float *max = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(most * (n + 1)) * sizeof *max), *exps = max + most;
    SPMD_CHECK(max, SPMD_ENOMEM, "softmax_cross_entropy: no memory for %lld rows of %lld: %s", (long long)most,
               (long long)n, spmd_last_error());
    SPMD_TRY(check_labels(label, rows, n));
    for (int64_t first = 0; first < rows; first += most) {
        int64_t some = rows - first < most ? rows - first : most;
        for (int64_t r = 0; r < some; r++)
            max[r] = spmd__row_max(x + (first + r) * n, n);
        spmd__rows_exp(x + first * n, max, n, some, exps);
        for (int64_t r = 0; r < some; r++) {
            float log_of_sum = logf(spmd__row_sum(exps + r * n, n));
            log_sum[first + r] = max[r] + log_of_sum;
            /* not log_sum - x: large logits would swallow the logarithm */
            loss[first + r] = max[r] - x[(first + r) * n + label[first + r]] + log_of_sum;
        }
    }
    return SPMD_OK;
}

static spmd_status xent_grad_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[LOGITS]);
    return SPMD_OK;
}

/* (softmax - onehot) ct */
static spmd_status xent_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    const spmd_view *logits = &args->in[LOGITS];
    const int32_t *label = args->in[LABELS].data;
    const float *log_sum = args->in[LOG_SUM].data, *ct = args->in[CT].data, *x = logits->data;
    float *dx = args->out[0].data;
    int64_t n = logits->shape[logits->rank - 1], rows = spmd_view_count(&args->in[LABELS]), most = rows_at_once(n);
    for (int64_t first = 0; first < rows; first += most) {
        int64_t some = rows - first < most ? rows - first : most;
        spmd__rows_exp(x + first * n, log_sum + first, n, some, dx + first * n);
        for (int64_t r = first; r < first + some; r++) {
            dx[r * n + label[r]] -= 1.0f;
            spmd__row_scale(dx + r * n, ct[r], n);
        }
    }
    return SPMD_OK;
}

static void xent_cost(const spmd_call *call, spmd_cost *cost)
{
    cost->flops = 24.0 * (double)spmd_count(&call->in[LOGITS]); /* an exp is 20 */
    cost->bytes = 4.0 * (double)spmd_count(&call->in[LOGITS]);
}

static void xent_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 1);
}

static const spmd_op xent_grad_op = {
    .name = "softmax_cross_entropy_grad",
    .shape = xent_grad_shape,
    .host = xent_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__softmax_cross_entropy_grad_cuda),
    .rule = xent_rule,
    .linear = 1 << CT,
};

static spmd_status xent_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    const spmd_tensor in[] = {call->in[LOGITS], call->in[LABELS], call->out[1], ct[0]};
    return need[0] ? spmd__emit(ctx, &xent_grad_op, NULL, in, 4, &gin[0], 1) : SPMD_OK;
}

static const spmd_op xent_op = {
    .name = "softmax_cross_entropy",
    .shape = xent_shape,
    .grad = xent_grad,
    .host = xent_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__softmax_cross_entropy_cuda),
    .cost = xent_cost,
    .rule = xent_rule,
    .residual = 1 << 1,
};

spmd_status spmd_softmax_cross_entropy(spmd_ctx *ctx, const spmd_tensor *logits, const spmd_tensor *labels,
                                       spmd_tensor *out)
{
    const spmd_tensor in[] = {*logits, *labels};
    spmd_tensor outs[2]; /* loss, log of the sum */
    SPMD_TRY(spmd__emit(ctx, &xent_op, NULL, in, 2, outs, 2));
    *out = outs[0];
    return SPMD_OK;
}
