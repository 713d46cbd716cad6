/* Reductions over any set of dimensions, without scratch memory: the result is made in order, element by element where
 * the last dimension is reduced, a tile of columns at a time where it is kept. */
#include "kernels/reduce.h"
#include "spmd/clones.h"
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include <math.h>

enum { LANES = 8 }; /* independent accumulators of a row, so that additions do not wait for each other */

SPMD_CLONES static double sum_row(double accumulator, const float *x, int64_t n)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += (double)x[i + j];
    for (; i < n; i++)
        accumulator += (double)x[i];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return accumulator + lane[0];
}

SPMD_CLONES static void sum_rows(double *restrict accumulators, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        accumulators[i] += (double)x[i];
}

/* NaN wins: it fails `x <= accumulator`, and once inside it is only replaced by another NaN. */
static inline double larger(double accumulator, double x)
{
    return x <= accumulator || accumulator != accumulator ? accumulator : x;
}

SPMD_CLONES static double max_row(double accumulator, const float *x, int64_t n)
{
    double lane[LANES];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = accumulator;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = larger(lane[j], (double)x[i + j]);
    for (; i < n; i++)
        accumulator = larger(accumulator, (double)x[i]);
    for (int j = 0; j < LANES; j++)
        accumulator = larger(accumulator, lane[j]);
    return accumulator;
}

SPMD_CLONES static void max_rows(double *restrict accumulators, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        accumulators[i] = larger(accumulators[i], (double)x[i]);
}

const spmd__fold spmd__fold_sum = {.start = 0, .row = sum_row, .rows = sum_rows};
const spmd__fold spmd__fold_max = {.start = -INFINITY, .row = max_row, .rows = max_rows};

spmd_status spmd__reduce_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor *out = &call->out[0];
    (void)ctx;
    SPMD_TRY(spmd__check_float(call->op->name, "x", x));
    out->dtype = x->dtype;
    out->rank = 0;
    for (int d = 0; d < x->rank; d++) {
        bool reduced = call->attr.i[0] >> d & 1;
        if (!reduced || call->attr.i[1])
            out->shape[out->rank++] = reduced ? 1 : x->shape[d];
    }
    return SPMD_OK;
}

void spmd__reduce_rule(const spmd_call *call, spmd_labels *labels)
{
    int kept = 0;
    for (int8_t d = 0; d < call->in[0].rank; d++) {
        bool reduced = call->attr.i[0] >> d & 1;
        labels->in[0][d] = d;
        if (!reduced)
            labels->out[0][kept] = d;
        kept += !reduced || call->attr.i[1];
    }
}

void spmd__reduce_cost(const spmd_call *call, spmd_cost *cost)
{
    cost->flops = (double)spmd_count(&call->in[0]);
}

/* Elements of x for one of the result. */
static int64_t reduced_count(int rank, const int64_t *shape, unsigned mask)
{
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= mask >> d & 1 ? shape[d] : 1;
    return count;
}

static void add_dim(spmd__dim_list *s, int64_t size, int64_t stride)
{
    s->size[s->n] = size;
    s->stride[s->n++] = stride;
    s->count *= size;
}

/* Where in x the i-th combination of indices begins, row-major. */
static int64_t offset(const spmd__dim_list *s, int64_t i)
{
    int64_t at = 0;
    for (int k = 0; k + 1 < s->n; k++) {
        at += i % s->size[k] * s->stride[k];
        i /= s->size[k];
    }
    return s->n ? at + i * s->stride[s->n - 1] : at;
}

spmd__reduce_plan spmd__plan_reduction(const spmd_view *x, unsigned mask)
{
    spmd__reduce_plan p = {.kept = {.count = 1}, .reduced = {.count = 1}, .last = 1, .last_reduced = true};
    int d = x->rank - 1;
    int64_t stride = 1;
    while (d >= 0 && x->shape[d] == 1)
        d--;
    if (d >= 0)
        p.last_reduced = mask >> d & 1;
    for (; d >= 0 && (x->shape[d] == 1 || (mask >> d & 1) == p.last_reduced); d--)
        p.last *= x->shape[d];
    stride = p.last;
    while (d >= 0) {
        bool reduced = mask >> d & 1;
        int64_t size = 1;
        for (; d >= 0 && (x->shape[d] == 1 || (bool)(mask >> d & 1) == reduced); d--)
            size *= x->shape[d];
        add_dim(reduced ? &p.reduced : &p.kept, size, stride);
        stride *= size;
    }
    return p;
}

static const float *floats(const spmd_view *x, int64_t at, int64_t n, float *tile)
{
    if (x->dtype == SPMD_F32)
        return (const float *)x->data + at;
    spmd__widen(x->dtype, spmd__element(x->data, x->dtype, at), n, tile);
    return tile;
}

static double fold_one(const spmd_view *x, const spmd__reduce_plan *p, int64_t base, const spmd__fold *fold)
{
    float tile[SPMD__TILE];
    double accumulator = fold->start;
    for (int64_t r = 0; r < p->reduced.count; r++) {
        int64_t at = base + offset(&p->reduced, r);
        for (int64_t i = 0; i < p->last; i += SPMD__TILE) {
            int64_t n = p->last - i < SPMD__TILE ? p->last - i : SPMD__TILE;
            accumulator = fold->row(accumulator, floats(x, at + i, n, tile), n);
        }
    }
    return accumulator;
}

static void fold_columns(const spmd_view *x, const spmd__reduce_plan *p, int64_t base, int64_t n,
                         const spmd__fold *fold, double *accumulators)
{
    float tile[SPMD__TILE];
    for (int64_t i = 0; i < n; i++)
        accumulators[i] = fold->start;
    for (int64_t r = 0; r < p->reduced.count; r++)
        fold->rows(accumulators, floats(x, base + offset(&p->reduced, r), n, tile), n);
}

spmd_status spmd__reduce_host(const spmd_kernel_args *args, unsigned mask, const spmd__fold *fold, double divisor)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    spmd__reduce_plan p = spmd__plan_reduction(x, mask);
    double accumulators[SPMD__TILE];
    float result[SPMD__TILE];
    if (spmd_view_count(y) == 0)
        return SPMD_OK;
    for (int64_t k = 0; k < p.kept.count; k++) {
        int64_t base = offset(&p.kept, k);
        int64_t columns = p.last_reduced ? 1 : p.last;
        for (int64_t i = 0; i < columns; i += SPMD__TILE) {
            int64_t n = columns - i < SPMD__TILE ? columns - i : SPMD__TILE;
            if (p.last_reduced)
                accumulators[0] = fold_one(x, &p, base, fold);
            else
                fold_columns(x, &p, base + i, n, fold, accumulators);
            for (int64_t j = 0; j < n; j++)
                result[j] = (float)(accumulators[j] / divisor);
            spmd__narrow(y->dtype, result, n, spmd__element(y->data, y->dtype, k * columns + i));
        }
    }
    return SPMD_OK;
}

spmd_status spmd__emit_reduction(spmd_ctx *ctx, const spmd_op *op, const spmd_tensor *x, const int *dims, int n,
                                 bool keep, spmd_tensor *out)
{
    spmd_attr attr = {0};
    attr.i[0] = dims ? 0 : (1 << x->rank) - 1;
    attr.i[1] = keep;
    for (int k = 0; dims && k < n; k++) {
        int d;
        SPMD_TRY(spmd__dim(op->name, x->rank, dims[k], &d));
        SPMD_CHECK(!(attr.i[0] >> d & 1), SPMD_EINVAL, "%s: dims[%d] is dimension %d, which is listed already",
                   op->name, k, d);
        attr.i[0] |= 1 << d;
    }
    attr.i[2] = reduced_count(x->rank, x->shape, (unsigned)attr.i[0]);
    return spmd__emit(ctx, op, &attr, x, 1, out, 1);
}

spmd_status spmd__unreduce(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *reduced, spmd_tensor *out)
{
    const spmd_tensor *x = &call->in[0];
    int64_t shape[SPMD_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        shape[d] = call->attr.i[0] >> d & 1 ? 1 : x->shape[d];
    SPMD_TRY(spmd_reshape(ctx, reduced, x->rank, shape, out));
    return spmd_broadcast_to(ctx, out, x->rank, x->shape, out);
}
