/* Reverse-mode gradients: the tape is walked backwards, every op's gradient emits ops.
 *
 * Over an axis on which a value v is invarying, a cotangent of v is PENDING if it varies (the true cotangent is the sum
 * over the shards), else SETTLED: pending = ct.vary & ~v.vary, no flag needed. With A = the axes on which the loss
 * varies:
 *   1. every cotangent varies at least over A and over v's own axes (casting to varying is free), seeds and zeros too
 *   2. a collective whose output is invarying settles the pending axes before it transposes (its own gradient does it)
 *   3. a pending and a settled cotangent of one value never add: the pending one is summed first
 *   4. at a parameter the axes not in A are settled; over A the gradient stays as it is, the local gradient
 *   5. elsewhere the moment is free: activations settle at once (outside A), values that depend on parameters only
 *      settle at the end, so that casts and reshapes of a parameter multiply no collectives
 * Taken literally otherwise ("sum wherever a value is implicitly cast"), the gradient of a data-parallel local loss
 * comes out N times too big as soon as a parameter is cast or reshaped first.
 *
 * In automatic mode values are global and vary over nothing: cotangents are true ones, sums that are still open are
 * part of how they lie on the mesh, and are closed at the end, where they come to lie as their parameters. */
#include "spmd/grad.h"
#include "spmd/auto.h"
#include "spmd/checkpoint.h"
#include "spmd/linear.h"
#include <string.h>

/* What the walk knows of a value. */
typedef struct entry {
    spmd_tensor ct;
    uint32_t same;    /* not 0: the value is made once more, and this one's entry serves both (checkpoint.c) */
    bool need;        /* a parameter depends into it */
    bool params_only; /* made of parameters alone, by no collective */
    bool own;         /* ct was made by an addition here: nothing else is in its memory */
    uint32_t uses;    /* how many cotangents may come */
} entry;

/* Values are known by id, from `first` on. */
typedef struct backward {
    uint32_t first, n;
    entry *of;
} backward;

static bool known(const backward *b, uint32_t id)
{
    return id - b->first < b->n;
}

static uint32_t root(const backward *b, uint32_t id)
{
    uint32_t same = b->of[id - b->first].same;
    return same ? same : id;
}

static entry *at(const backward *b, uint32_t id)
{
    return &b->of[root(b, id) - b->first];
}

static spmd_status settle(spmd_ctx *ctx, spmd_tensor *ct, unsigned mask)
{
    return mask ? spmd__linear_psum(ctx, ct, 1, mask, ct) : SPMD_OK;
}

static spmd_status widen(spmd_ctx *ctx, spmd_tensor *ct, unsigned mask)
{
    unsigned lack = mask & ~(unsigned)ct->vary;
    return lack ? spmd__linear_pcast(ctx, ct, lack, ct) : SPMD_OK;
}

static spmd_status cast_to(spmd_ctx *ctx, spmd_dtype dtype, spmd_tensor *ct)
{
    return ct->dtype == dtype ? SPMD_OK : spmd__linear_cast(ctx, ct, dtype, ct);
}

/* Adds a cotangent of `value` to what was found before. */
static spmd_status accumulate(spmd_ctx *ctx, backward *b, const spmd_tensor *value, const spmd_tensor *cotangent)
{
    spmd_tensor g = *cotangent;
    bool wide = g.dtype == SPMD_F32 && spmd_dtype_size(value->dtype) == 2; /* see spmd_op.sums */
    SPMD_CHECK(spmd__shape_equal(value, &g) && (value->dtype == g.dtype || wide), SPMD_EGRAD,
               "a gradient has the wrong shape: %s for a value of %s", spmd__shape_text(&g, (char[96]){0}),
               spmd__shape_text(value, (char[96]){0}));
    SPMD_TRY(widen(ctx, &g, value->vary | ctx->loss_axes));
    entry *e = at(b, value->id);
    spmd_tensor *sum = &e->ct;
    if (!e->params_only)
        SPMD_TRY(settle(ctx, &g, g.vary & ~value->vary & ~ctx->loss_axes));
    if (!sum->id) {
        *sum = g;
        return SPMD_OK;
    }
    if (sum->dtype != g.dtype) { /* one of them is wide */
        SPMD_TRY(cast_to(ctx, SPMD_F32, sum));
        SPMD_TRY(cast_to(ctx, SPMD_F32, &g));
    }
    unsigned pending = g.vary & ~value->vary, before = sum->vary & ~value->vary;
    SPMD_TRY(settle(ctx, &g, pending & ~before));
    SPMD_TRY(settle(ctx, sum, before & ~pending));
    SPMD_TRY(spmd__linear_add(ctx, e->own ? spmd_donate(sum) : sum, &g, sum));
    e->own = !ctx->automatic; /* there the sum may lie in several places */
    return SPMD_OK;
}

/* Room for all values made so far. */
static spmd_status grow(spmd_ctx *ctx, backward *b)
{
    uint32_t n = ctx->next_id + 1 - b->first;
    if (n <= b->n)
        return SPMD_OK;
    n = n < 2 * b->n ? 2 * b->n : n;
    entry *of = spmd__scratch(ctx, n * sizeof *of);
    if (!of)
        return SPMD_ENOMEM;
    if (b->n)
        memcpy(of, b->of, b->n * sizeof *of);
    memset(of + b->n, 0, (n - b->n) * sizeof *of);
    b->of = of;
    b->n = n;
    return SPMD_OK;
}

/* `from`: the last value made before the loss function ran. */
static spmd_status make_table(spmd_ctx *ctx, backward *b, uint32_t from, const spmd_tensor *params, int n)
{
    *b = (backward){.first = from + 1};
    for (int k = 0; k < n; k++)
        b->first = params[k].id < b->first ? params[k].id : b->first;
    SPMD_TRY(grow(ctx, b));
    for (int k = 0; k < n; k++)
        b->of[params[k].id - b->first].need = b->of[params[k].id - b->first].params_only = true;
    return SPMD_OK;
}

static bool takes_gradient(const backward *b, const spmd_call *call, int k)
{
    const spmd_tensor *t = &call->in[k];
    return !spmd__bit(call->op->like, k) && known(b, t->id) && at(b, t->id)->need && spmd_dtype_is_float(t->dtype);
}

/* Which values a parameter flows into, and how often each is used; a checkpoint's own, too, which others may read as
 * well. */
static void mark_needed(backward *b, const spmd_call *calls, int n)
{
    for (int i = 0; i < n; i++) {
        const spmd_call *call = &calls[i];
        bool need = false, params_only = !call->op->collective;
        mark_needed(b, call->inner, call->ninner);
        for (int k = 0; k < call->nin && !call->op->stops_gradient; k++) {
            if (takes_gradient(b, call, k)) {
                need = true;
                at(b, call->in[k].id)->uses += !call->inner;
            }
            params_only &= known(b, call->in[k].id) && at(b, call->in[k].id)->params_only;
        }
        for (int k = 0; k < call->nout; k++) {
            entry *e = at(b, call->out[k].id);
            e->need = need && spmd_dtype_is_float(call->out[k].dtype);
            e->params_only = need && params_only;
        }
    }
}

/* May the gradient add input k's part to what was found before? Only if that part will have the very state of the sum,
 * so that there is nothing to settle between them: a gradient without collectives varies over what the cotangent does,
 * at least, and over what any operand does, at most. Not under an outer gradient, whose tape knows plain ops only. In
 * automatic mode nothing varies, and how things lie is asked by the gradient (spmd__lies_as). */
static bool can_sum(const spmd_ctx *ctx, const backward *b, const spmd_call *call, const spmd_tensor *ct, int k)
{
    const spmd_tensor *sum = &at(b, call->in[k].id)->ct;
    if (!spmd__bit(call->op->sums, k) || !sum->id || sum->partial || ctx->depth)
        return false;
    for (int j = 0; j < call->nin; j++)
        if ((call->in[j].vary & ~(unsigned)sum->vary) || call->in[j].partial ||
            (j < k && call->in[j].id == call->in[k].id))
            return false;
    for (int j = 0; j < call->nout; j++)
        if (ct[j].id && (ct[j].vary != sum->vary || ct[j].partial))
            return false;
    return true;
}

/* A 16-bit value with more than one cotangent, of which op's is added to the others: their sum is kept in f32. */
static bool sums_wide(const spmd_ctx *ctx, const backward *b, const spmd_call *call, int k)
{
    return spmd__bit(call->op->sums, k) && at(b, call->in[k].id)->uses > 1 && spmd_dtype_size(call->in[k].dtype) == 2 &&
           !ctx->depth;
}

static spmd_status call_gradient(spmd_ctx *ctx, backward *b, const spmd_call *call, const spmd_tensor *ct,
                                 const bool *need, spmd_tensor *gin)
{
    bool *summed = spmd__scratch(ctx, (size_t)call->nin + 1);
    if (!summed)
        return SPMD_ENOMEM;
    memset(gin, 0, (size_t)call->nin * sizeof *gin);
    for (int k = 0; k < call->nin; k++) {
        bool wide = need[k] && sums_wide(ctx, b, call, k);
        gin[k].dtype = wide ? SPMD_F32 : call->in[k].dtype;
        summed[k] = need[k] && can_sum(ctx, b, call, ct, k);
        if (!summed[k])
            continue;
        entry *e = at(b, call->in[k].id);
        SPMD_TRY(cast_to(ctx, gin[k].dtype, &e->ct));
        gin[k] = e->ct;
        if (e->own)
            spmd_donate(&gin[k]);
    }
    SPMD_TRY(call->op->grad(ctx, call, ct, need, gin));
    for (int k = 0; k < call->nin; k++) {
        if (summed[k]) {
            entry *e = at(b, call->in[k].id);
            e->ct = gin[k];
            e->own = true;
        } else if (need[k] && gin[k].id) {
            SPMD_TRY(accumulate(ctx, b, &call->in[k], &gin[k]));
        }
    }
    return SPMD_OK;
}

static spmd_status transpose(spmd_ctx *ctx, backward *b, const spmd_call *call)
{
    spmd_tensor *ct = spmd__scratch(ctx, (size_t)(call->nout + call->nin) * sizeof *ct), *gin = ct + call->nout;
    bool *need = spmd__scratch(ctx, (size_t)call->nin + 1), wanted = false, arrived = false;
    if (!ct || !need)
        return SPMD_ENOMEM;
    for (int k = 0; k < call->nout; k++) {
        ct[k] = at(b, call->out[k].id)->ct;
        arrived |= ct[k].id != 0;
    }
    for (int k = 0; k < call->nin; k++)
        wanted |= need[k] = !call->op->stops_gradient && takes_gradient(b, call, k);
    if (!arrived || !wanted)
        return SPMD_OK;
    SPMD_CHECK(call->op->grad, SPMD_EGRAD, "%s has no gradient, but a parameter flows into it: use spmd_stop_gradient",
               call->op->name);
    for (int k = 0; k < call->nout; k++)
        if (!ct[k].id && !spmd__bit(call->op->residual, k) && spmd_dtype_is_float(call->out[k].dtype)) {
            SPMD_TRY(spmd__linear_fill(ctx, &call->out[k], 0, &ct[k]));
            SPMD_TRY(widen(ctx, &ct[k], ctx->loss_axes));
        }
    ctx->site = call->site;
    for (int k = 0; k < call->nout && !call->op->wide_ct; k++)
        if (ct[k].id)
            SPMD_TRY(cast_to(ctx, call->out[k].dtype, &ct[k]));
    return call_gradient(ctx, b, call, ct, need, gin);
}

/* Rule 4, one meeting for all parameters that want the same axes. */
static spmd_status settle_params(spmd_ctx *ctx, const spmd_tensor *params, int n, spmd_tensor *grads)
{
    spmd_tensor *list = spmd__scratch(ctx, (size_t)n * sizeof *list + 1);
    if (!list)
        return SPMD_ENOMEM;
    for (unsigned mask = 1; mask < 1u << ctx->mesh->naxes; mask++) {
        int m = 0;
        for (int k = 0; k < n; k++)
            if ((grads[k].vary & ~(unsigned)params[k].vary & ~ctx->loss_axes) == mask)
                list[m++] = grads[k];
        if (!m)
            continue;
        SPMD_TRY(spmd__linear_psum(ctx, list, m, mask, list));
        m = 0;
        for (int k = 0; k < n; k++)
            if ((grads[k].vary & ~(unsigned)params[k].vary & ~ctx->loss_axes) == mask)
                grads[k] = list[m++];
    }
    return SPMD_OK;
}

/* The cotangents that have come to values that a checkpoint's calls make. */
static int arrived_inside(const backward *b, const spmd_call *calls, int n, spmd_tensor *ct, int nct)
{
    for (int i = 0; i < n; i++) {
        nct = arrived_inside(b, calls[i].inner, calls[i].ninner, ct, nct);
        for (int k = 0; k < calls[i].nout; k++) {
            const entry *e = at(b, calls[i].out[k].id);
            if (e->need && e->ct.id && nct < SPMD_MAX_REPEAT_CAUSES)
                ct[nct++] = e->ct;
        }
    }
    return nct;
}

/* What the walk knows of the values of before holds for those made once more. */
static void link_values(const backward *b, const spmd_repeat *repeat)
{
    const spmd_call *call = repeat->call;
    for (int k = 0; k < call->nin; k++)
        if (known(b, call->in[k].id))
            b->of[repeat->outside[k].id - b->first].same = root(b, call->in[k].id);
    for (uint32_t k = 0; k < repeat->n; k++)
        if (repeat->inside[k].id)
            b->of[repeat->inside[k].id - b->first].same = root(b, repeat->first + k);
}

static spmd_status walk_back(spmd_ctx *ctx, backward *b, int from, int to);

/* A checkpoint: its calls once more, and then their gradients as if they had stood on the tape. */
static spmd_status transpose_again(spmd_ctx *ctx, backward *b, const spmd_call *call)
{
    spmd_tensor ct[SPMD_MAX_REPEAT_CAUSES];
    int nct = arrived_inside(b, call->inner, call->ninner, ct, 0), before = ctx->ntape;
    if (!nct)
        return SPMD_OK;
    spmd_repeat repeat = {.call = call};
    SPMD_TRY(spmd__repeat_calls(ctx, &repeat, ct, nct));
    SPMD_TRY(grow(ctx, b));
    link_values(b, &repeat);
    SPMD_TRY(walk_back(ctx, b, repeat.tape, ctx->ntape));
    if (!ctx->depth) /* an outer gradient goes through all of this */
        ctx->ntape = before;
    return SPMD_OK;
}

static spmd_status walk_back(spmd_ctx *ctx, backward *b, int from, int to)
{
    for (int i = to - 1; i >= from; i--) {
        spmd_call call = ctx->tape[i]; /* a copy: gradients may append to the tape (nesting), which moves it */
        SPMD_TRY(call.inner ? transpose_again(ctx, b, &call) : transpose(ctx, b, &call));
    }
    return SPMD_OK;
}

/* Where the tape and the values stood when the loss function began. */
typedef struct start {
    int tape;
    uint32_t id;
} start;

static spmd_status walk(spmd_ctx *ctx, start from, const spmd_tensor *loss, const spmd_tensor *params, int n,
                        spmd_tensor *grads)
{
    backward b;
    int to = ctx->ntape;
    SPMD_TRY(make_table(ctx, &b, from.id, params, n));
    mark_needed(&b, ctx->tape + from.tape, to - from.tape);
    if (known(&b, loss->id)) {
        spmd_tensor seed;
        SPMD_TRY(spmd__linear_fill(ctx, loss, 1, &seed));
        SPMD_TRY(accumulate(ctx, &b, loss, &seed));
    }
    SPMD_TRY(walk_back(ctx, &b, from.tape, to));
    for (int k = 0; k < n; k++) {
        grads[k] = at(&b, params[k].id)->ct;
        if (grads[k].id) {
            SPMD_TRY(cast_to(ctx, params[k].dtype, &grads[k]));
            continue;
        }
        SPMD_TRY(spmd__linear_fill(ctx, &params[k], 0, &grads[k]));
        SPMD_TRY(widen(ctx, &grads[k], ctx->loss_axes));
    }
    return settle_params(ctx, params, n, grads);
}

static spmd_status check_params(const spmd_ctx *ctx, const spmd_tensor *params, int n)
{
    SPMD_CHECK(n >= 0 && (n == 0 || params), SPMD_EINVAL, "value_and_grad: %d parameters at %p", n,
               (const void *)params);
    for (int k = 0; k < n; k++) {
        SPMD_TRY(spmd__check_alive(ctx, "value_and_grad", k, &params[k]));
        SPMD_CHECK(spmd_dtype_is_float(params[k].dtype), SPMD_EGRAD,
                   "value_and_grad: parameter %d is %s: only f32, bf16 and f16 have gradients", k,
                   spmd__shape_text(&params[k], (char[96]){0}));
        SPMD_CHECK(!params[k].partial, SPMD_EGRAD, "value_and_grad: parameter %d is a partial sum: spmd_psum it first",
                   k);
        for (int j = 0; j < k; j++)
            SPMD_CHECK(params[j].id != params[k].id, SPMD_EGRAD,
                       "value_and_grad: parameters %d and %d are the same tensor: pass it once", j, k);
    }
    return SPMD_OK;
}

static spmd_status check_loss(spmd_ctx *ctx, const spmd_tensor *loss)
{
    char type[256];
    SPMD_CHECK(loss->id && loss->launch == ctx->launch, SPMD_EGRAD, "value_and_grad: the loss function set no loss");
    spmd_tensor_format(ctx, loss, type, sizeof type);
    SPMD_CHECK(loss->rank == 0 && spmd_dtype_is_float(loss->dtype), SPMD_EGRAD,
               "value_and_grad: the loss is %s: expected a floating scalar, as spmd_mean over all dimensions gives",
               type);
    SPMD_CHECK(!loss->partial, SPMD_EGRAD, "value_and_grad: the loss is %s, a partial sum: spmd_psum it first", type);
    return SPMD_OK;
}

/* Over an axis of A some parameters are sharded, others not: their gradients mean different things (see the header). */
static void warn_mixed(spmd_ctx *ctx, const spmd_tensor *params, int n)
{
    unsigned some = 0, all = ~0u;
    char axes[128];
    for (int k = 0; k < n; k++) {
        some |= params[k].vary;
        all &= params[k].vary;
    }
    unsigned mixed = some & ~all & ctx->loss_axes;
    if (n && spmd__mask_size(ctx->mesh, mixed) > 1)
        spmd__warn(
            ctx, "mixed parameters",
            "value_and_grad: the loss varies over '%s', over which some parameters are sharded and others are not: "
            "spmd_pmean the loss over it, or use spmd_mean_grads on the gradients",
            spmd__mask_text(ctx->mesh, mixed, axes));
}

static spmd_status differentiate(spmd_ctx *ctx, start from, spmd_tensor *loss, const spmd_tensor *params, int n,
                                 spmd_tensor *grads)
{
    SPMD_TRY(check_loss(ctx, loss));
    unsigned outer_axes = ctx->loss_axes;
    bool outer = ctx->transposing;
    const char *site = ctx->site;
    spmd_tensor *fresh = spmd__scratch(ctx, (size_t)n * sizeof *fresh + 1); /* grads may alias params */
    if (!fresh)
        return SPMD_ENOMEM;
    ctx->loss_axes = loss->vary;
    warn_mixed(ctx, params, n);
    ctx->transposing = true;
    spmd_status status = walk(ctx, from, loss, params, n, fresh);
    if (status == SPMD_OK && ctx->automatic)
        status = spmd__auto_settle(ctx, params, n, fresh, loss);
    ctx->transposing = outer;
    ctx->loss_axes = outer_axes;
    ctx->site = site;
    if (status == SPMD_OK && n)
        memcpy(grads, fresh, (size_t)n * sizeof *fresh);
    return status;
}

spmd_status spmd_value_and_grad(spmd_ctx *ctx, spmd_loss_fn *fn, void *user, const spmd_tensor *params, int n,
                                spmd_tensor *loss, spmd_tensor *grads)
{
    SPMD_CHECK(fn && loss, SPMD_EINVAL, "value_and_grad: fn and loss must not be NULL");
    SPMD_TRY(check_params(ctx, params, n));
    const start from = {ctx->ntape, ctx->next_id};
    spmd_tensor value = {0};
    ctx->depth++;
    spmd_status status = fn(ctx, params, n, user, &value);
    ctx->depth--;
    if (status == SPMD_OK)
        status = differentiate(ctx, from, &value, params, n, grads);
    if (!ctx->depth)
        ctx->ntape = 0;
    if (status == SPMD_OK)
        *loss = value;
    return status;
}

spmd_status spmd_grad(spmd_ctx *ctx, spmd_loss_fn *fn, void *user, const spmd_tensor *params, int n, spmd_tensor *grads)
{
    spmd_tensor loss;
    return spmd_value_and_grad(ctx, fn, user, params, n, &loss, grads);
}
