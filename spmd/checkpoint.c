/* spmd_checkpoint: a part of the loss function whose inner values are made once more in the backward pass.
 *
 * Its calls are taken from the tape, and one entry that holds them takes their place: no value is kept, but what was
 * called with what is known. The backward pass makes the calls again, on the same values from outside, and transposes
 * the new ones. Whatever went in or out on other ways than the lists (captured by `user`) is treated alike, because it
 * is found in the calls. */
#include "spmd/checkpoint.h"
#include "spmd/auto.h"
#include "spmd/grad.h"
#include "spmd/rule.h"
#include <string.h>

enum { FIRST, COUNT }; /* in attr.i: the ids of the values made inside */

static const spmd_op checkpoint_op = {.name = "checkpoint"};

/* --- forward --- */

static bool made_inside(const spmd_call *call, const spmd_tensor *t)
{
    return t->id - (uint32_t)call->attr.i[FIRST] < (uint32_t)call->attr.i[COUNT];
}

static bool listed(const spmd_call *call, const spmd_tensor *t)
{
    for (int k = 0; k < call->nin; k++)
        if (call->in[k].id == t->id)
            return true;
    return false;
}

/* The values from outside, each once. */
static spmd_status find_inputs(spmd_ctx *ctx, spmd_call *call)
{
    int most = 0;
    for (int i = 0; i < call->ninner; i++)
        most += call->inner[i].nin;
    call->in = spmd__scratch(ctx, (size_t)most * sizeof *call->in + 1);
    if (!call->in)
        return SPMD_ENOMEM;
    for (int i = 0; i < call->ninner; i++)
        for (int k = 0; k < call->inner[i].nin; k++) {
            const spmd_tensor *t = &call->inner[i].in[k];
            if (!made_inside(call, t) && !listed(call, t))
                call->in[call->nin++] = *t;
        }
    return SPMD_OK;
}

/* Puts one entry in the place of all since `tape`; the values that they made have ids from `first` on. */
static spmd_status close_checkpoint(spmd_ctx *ctx, int tape, uint32_t first)
{
    int n = ctx->ntape - tape;
    spmd_call *inner = spmd__scratch(ctx, (size_t)n * sizeof *inner + 1);
    if (!inner)
        return SPMD_ENOMEM;
    if (!n)
        return SPMD_OK;
    memcpy(inner, ctx->tape + tape, (size_t)n * sizeof *inner);
    ctx->ntape = tape;
    spmd_call call = {.op = &checkpoint_op, .inner = inner, .ninner = n, .site = ctx->site};
    call.attr.i[FIRST] = first;
    call.attr.i[COUNT] = ctx->next_id + 1 - first;
    SPMD_TRY(find_inputs(ctx, &call));
    return spmd__push_tape(ctx, &call);
}

static spmd_status check_results(const spmd_ctx *ctx, const spmd_tensor *out, int n)
{
    for (int k = 0; k < n; k++)
        SPMD_CHECK(out[k].id && out[k].launch == ctx->launch, SPMD_ESTALE,
                   "spmd_checkpoint: output %d was not set by its function", k);
    return SPMD_OK;
}

spmd_status spmd_checkpoint(spmd_ctx *ctx, spmd_checkpoint_fn *fn, void *user, const spmd_tensor *in, int nin,
                            spmd_tensor *out, int nout)
{
    SPMD_CHECK(fn && nin >= 0 && nout >= 0 && (!nin || in) && (!nout || out), SPMD_EINVAL,
               "spmd_checkpoint: %d inputs and %d outputs; fn, in and out must not be NULL", nin, nout);
    size_t bytes = (size_t)nout * sizeof *out;
    spmd_tensor *results = spmd__scratch(ctx, bytes + 1); /* out may alias in */
    if (!results)
        return SPMD_ENOMEM;
    memset(results, 0, bytes);
    int tape = ctx->ntape;
    uint32_t first = ctx->next_id + 1;
    SPMD_TRY(fn(ctx, in, results, user));
    SPMD_TRY(check_results(ctx, results, nout));
    if (ctx->depth)
        SPMD_TRY(close_checkpoint(ctx, tape, first));
    if (nout)
        memcpy(out, results, bytes);
    return SPMD_OK;
}

/* --- backward --- */

/* in[0], not before the others (`like`: only their being there counts) are made. */
static spmd_status again_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[0]);
    call->out[0].vary = call->in[0].vary;
    return SPMD_OK;
}

static spmd_status again_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                              spmd_tensor *gin)
{
    (void)ctx, (void)call, (void)need;
    gin[0] = ct[0];
    return SPMD_OK;
}

static void again_rule(const spmd_call *call, spmd_labels *labels)
{
    for (int8_t d = 0; d < call->in[0].rank; d++)
        labels->in[0][d] = labels->out[0][d] = d;
}

static const spmd_op again_op = {.name = "again",
                                 .shape = again_shape,
                                 .grad = again_grad,
                                 .rule = again_rule,
                                 .view = true,
                                 .linear = 1,
                                 .like = ~UINT64_C(1)};

static spmd_status take_outside(spmd_ctx *ctx, spmd_repeat *r, const spmd_tensor *cause, int ncauses)
{
    spmd_tensor in[1 + SPMD_MAX_REPEAT_CAUSES];
    memcpy(in + 1, cause, (size_t)ncauses * sizeof *in);
    for (int k = 0; k < r->call->nin; k++) {
        in[0] = r->call->in[k];
        SPMD_TRY(spmd__emit(ctx, &again_op, NULL, in, 1 + ncauses, &r->outside[k], 1));
    }
    return SPMD_OK;
}

/* What stands for a value now. */
static const spmd_tensor *present(const spmd_repeat *r, const spmd_tensor *t)
{
    if (made_inside(r->call, t))
        return &r->inside[t->id - r->first];
    int k = 0;
    while (r->call->in[k].id != t->id)
        k++;
    return &r->outside[k];
}

static spmd_status repeat_call(spmd_ctx *ctx, spmd_repeat *r, const spmd_call *call)
{
    spmd_tensor *in = spmd__scratch(ctx, (size_t)(call->nin + call->nout) * sizeof *in), *out = in + call->nin;
    if (!in)
        return SPMD_ENOMEM;
    for (int k = 0; k < call->nin; k++)
        in[k] = *present(r, &call->in[k]);
    ctx->site = call->site;
    if (call->op->shape)
        SPMD_TRY(spmd__emit(ctx, call->op, &call->attr, in, call->nin, out, call->nout));
    else
        SPMD_TRY(spmd__constrain_again(ctx, call, in, out));
    for (int k = 0; k < call->nout; k++)
        r->inside[call->out[k].id - r->first] = out[k];
    return SPMD_OK;
}

static spmd_status repeat_all(spmd_ctx *ctx, spmd_repeat *r, const spmd_call *calls, int n)
{
    for (int i = 0; i < n; i++) {
        int tape = ctx->ntape;
        uint32_t first = ctx->next_id + 1;
        if (!calls[i].inner) {
            SPMD_TRY(repeat_call(ctx, r, &calls[i]));
            continue;
        }
        SPMD_TRY(repeat_all(ctx, r, calls[i].inner, calls[i].ninner));
        SPMD_TRY(close_checkpoint(ctx, tape, first));
    }
    return SPMD_OK;
}

spmd_status spmd__repeat_calls(spmd_ctx *ctx, spmd_repeat *r, const spmd_tensor *cause, int ncauses)
{
    r->first = (uint32_t)r->call->attr.i[FIRST];
    r->n = (uint32_t)r->call->attr.i[COUNT];
    r->outside = spmd__scratch(ctx, ((size_t)r->call->nin + r->n) * sizeof *r->outside);
    if (!r->outside)
        return SPMD_ENOMEM;
    r->inside = r->outside + r->call->nin;
    memset(r->inside, 0, r->n * sizeof *r->inside);
    SPMD_TRY(take_outside(ctx, r, cause, ncauses));
    r->tape = ctx->ntape;
    ctx->depth++; /* they go on the tape, as those of a loss function do */
    spmd_status status = repeat_all(ctx, r, r->call->inner, r->call->ninner);
    ctx->depth--;
    return status;
}
