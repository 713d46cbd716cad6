/* The automatic mode: the table of placements, and the way from a user's call to a local one.
 *
 * The tape holds the user's call with its operands before they are moved, so that the backward pass chooses its own
 * layouts; what was moved for a call is remembered, so that a weight gathered for the forward pass serves the backward
 * pass. */
#include "spmd/auto.h"
#include "spmd/auto_map.h"
#include "spmd/linear.h"
#include "spmd/rule.h"
#include <string.h>

enum { SMALL = 8 }; /* operands of a call that need no memory of their own */

typedef struct move {
    spmd_placement to;
    spmd_tensor block;
    struct move *next;
} move;

typedef struct spmd_automatic {
    struct placed {
        spmd_placement at;
        move *moves;
    } * of; /* by value id */
    uint32_t capacity;
} spmd_automatic;

bool spmd__is_automatic(const spmd_ctx *ctx)
{
    return ctx->automatic != NULL;
}

const spmd_placement *spmd__placement(const spmd_ctx *ctx, const spmd_tensor *t)
{
    return &ctx->automatic->of[t->id].at;
}

unsigned spmd__spread(const spmd_ctx *ctx, const spmd_tensor *t)
{
    return ctx->automatic ? spmd__layout_mask(&spmd__placement(ctx, t)->cut) : t->vary;
}

static spmd_status place(spmd_ctx *ctx, uint32_t id, const spmd_placement *at)
{
    spmd_automatic *a = ctx->automatic;
    if (id >= a->capacity) {
        uint32_t capacity = id < 512 ? 1024 : 2 * id;
        struct placed *of = spmd__scratch(ctx, capacity * sizeof *of);
        if (!of)
            return SPMD_ENOMEM;
        if (a->capacity)
            memcpy(of, a->of, a->capacity * sizeof *of);
        memset(of + a->capacity, 0, (capacity - a->capacity) * sizeof *of);
        a->of = of;
        a->capacity = capacity;
    }
    a->of[id] = (struct placed){.at = *at};
    return SPMD_OK;
}

/* An axis of size 1 cuts nothing. */
static spmd_placement without_ones(const spmd_mesh *mesh, const spmd_layout *layout)
{
    spmd_placement at = {0};
    for (int d = 0; d < SPMD_MAX_RANK; d++)
        for (int k = 0; k < layout->n[d]; k++)
            if (mesh->size[layout->axis[d][k]] > 1)
                at.cut.axis[d][at.cut.n[d]++] = layout->axis[d][k];
    return at;
}

const spmd_tensor *spmd__moved(const spmd_ctx *ctx, uint32_t id, const spmd_placement *to)
{
    const move *m = ctx->automatic->of[id].moves;
    while (m && !spmd__same_placement(&m->to, to))
        m = m->next;
    return m ? &m->block : NULL;
}

spmd_status spmd__remember_move(spmd_ctx *ctx, uint32_t id, const spmd_placement *to, const spmd_tensor *block)
{
    move *m = spmd__scratch(ctx, sizeof *m);
    if (!m)
        return SPMD_ENOMEM;
    *m = (move){*to, *block, ctx->automatic->of[id].moves};
    ctx->automatic->of[id].moves = m;
    return SPMD_OK;
}

spmd_tensor spmd__block_of(const spmd_mesh *mesh, const spmd_tensor *t, const spmd_placement *at)
{
    spmd_tensor block = *t;
    for (int d = 0; d < t->rank; d++)
        block.shape[d] /= spmd__layout_cuts(mesh, &at->cut, d);
    block.vary = (uint8_t)(spmd__layout_mask(&at->cut) | at->partial);
    block.partial = at->partial;
    block.donated = false; /* what was moved serves more than one call */
    return block;
}

spmd_status spmd__auto_begin(spmd_ctx *ctx, const spmd_tensor *in)
{
    const spmd_job *job = &ctx->mesh->job;
    ctx->automatic = spmd__scratch(ctx, sizeof *ctx->automatic);
    if (!ctx->automatic)
        return SPMD_ENOMEM;
    *ctx->automatic = (spmd_automatic){0};
    for (int k = 0; k < job->nin; k++) {
        spmd_placement at = without_ones(ctx->mesh, &job->in[k]->layout);
        SPMD_TRY(place(ctx, in[k].id, &at));
    }
    return SPMD_OK;
}

/* Launches the call with its operands as `to` says, inputs first. */
static spmd_status launch_placed(spmd_ctx *ctx, spmd_call *call, const spmd_placement *to)
{
    int n = call->nin + call->nout;
    spmd_tensor small[SMALL], *blocks = n > SMALL ? spmd__scratch(ctx, (size_t)n * sizeof *blocks) : small;
    if (!blocks)
        return SPMD_ENOMEM;
    for (int k = 0; k < call->nin; k++)
        if (spmd__bit(call->op->like, k)) /* not read: only its shape counts */
            blocks[k] = spmd__block_of(ctx->mesh, &call->in[k], &to[k]);
        else
            SPMD_TRY(spmd__move(ctx, &call->in[k], &to[k], &blocks[k]));
    for (int k = call->nin; k < n; k++)
        blocks[k] = spmd__block_of(ctx->mesh, &call->out[k - call->nin], &to[k]);
    spmd_call local = *call;
    local.in = blocks;
    local.out = blocks + call->nin;
    SPMD_TRY(spmd__launch(ctx, &local));
    for (int k = 0; k < call->nout; k++) {
        const spmd_tensor *block = &local.out[k];
        spmd_tensor *out = &call->out[k];
        out->id = block->id;
        out->launch = block->launch;
        out->slot = block->slot;
        out->memory = block->memory;
        SPMD_TRY(place(ctx, out->id, &to[call->nin + k]));
    }
    return SPMD_OK;
}

spmd_status spmd__lies_as(spmd_ctx *ctx, const spmd_op *op, const spmd_attr *attr, const spmd_tensor *in, int nin,
                          const spmd_tensor *like, bool *out)
{
    *out = true;
    if (!ctx->automatic)
        return SPMD_OK;
    spmd_tensor *operands = spmd__scratch(ctx, (size_t)(nin + 1) * sizeof *operands);
    spmd_placement *from = spmd__scratch(ctx, 2 * (size_t)(nin + 1) * sizeof *from), *to = from + nin + 1;
    if (!operands || !from)
        return SPMD_ENOMEM;
    memcpy(operands, in, (size_t)nin * sizeof *in);
    operands[nin] = (spmd_tensor){0};
    spmd_call call = {.op = op, .attr = *attr, .nin = nin, .nout = 1, .in = operands, .out = operands + nin};
    SPMD_TRY(op->shape(ctx, &call));
    for (int k = 0; k < nin; k++)
        from[k] = *spmd__placement(ctx, &in[k]);
    SPMD_TRY(spmd__choose(ctx, &call, from, to));
    *out = spmd__same_placement(&to[nin], spmd__placement(ctx, like));
    return SPMD_OK;
}

spmd_status spmd__auto_launch(spmd_ctx *ctx, spmd_call *call)
{
    size_t n = (size_t)(call->nin + call->nout);
    spmd_placement small_from[SMALL], small_to[SMALL], *from = small_from, *to = small_to;
    for (int k = 0; k < call->nout; k++)
        SPMD_CHECK(!call->out[k].vary, SPMD_EAXIS,
                   "%s: its output %d differs between shards, which has no meaning in automatic mode: values are "
                   "global there; drop what makes it vary (of a custom op: .varies)",
                   call->op->name, k);
    if (n > SMALL) {
        from = spmd__scratch(ctx, 2 * n * sizeof *from);
        to = from + n;
        if (!from)
            return SPMD_ENOMEM;
    }
    for (int k = 0; k < call->nin; k++)
        from[k] = *spmd__placement(ctx, &call->in[k]);
    SPMD_TRY(spmd__choose(ctx, call, from, to));
    return launch_placed(ctx, call, to);
}

static spmd_status keep_cotangent(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    (void)ctx, (void)call, (void)need;
    gin[0] = ct[0];
    return SPMD_OK;
}

/* A view, so that every constraint has a number of its own and the tape sees an op. */
static const spmd_op constrain_op = {.name = "constrain", .grad = keep_cotangent, .view = true, .linear = 1};

static spmd_status constrain(spmd_ctx *ctx, const spmd_tensor *in, const spmd_placement *at, spmd_tensor *out)
{
    spmd_tensor tensors[2] = {*in, {0}}; /* the input, then the output: `out` may be `in` */
    spmd_call call = {
        .op = &constrain_op, .nin = 1, .nout = 1, .in = tensors, .out = tensors + 1, .implied = ctx->transposing};
    const spmd_placement to[2] = {*at, *at};
    spmd__same_shape(call.out, in);
    SPMD_TRY(launch_placed(ctx, &call, to));
    if (ctx->depth)
        SPMD_TRY(spmd__push_tape(ctx, &call));
    *out = *call.out;
    return SPMD_OK;
}

static spmd_status constrain_if_needed(spmd_ctx *ctx, const spmd_tensor *in, const spmd_placement *at, spmd_tensor *out)
{
    if (!spmd__same_placement(spmd__placement(ctx, in), at))
        return constrain(ctx, in, at, out);
    *out = *in;
    return SPMD_OK;
}

spmd_status spmd__constrain_again(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *in, spmd_tensor *out)
{
    const spmd_placement at = *spmd__placement(ctx, &call->out[0]);
    return constrain(ctx, in, &at, out);
}

spmd_status spmd_constrain(spmd_ctx *ctx, const spmd_tensor *in, spmd_spec spec, spmd_tensor *out)
{
    spmd_layout layout;
    SPMD_TRY(spmd__layout(&spec, ctx->mesh, in->rank, &layout));
    if (!ctx->automatic) {
        *out = *in;
        return SPMD_OK;
    }
    SPMD_TRY(spmd__check_alive(ctx, "spmd_constrain", 0, in));
    SPMD_TRY(spmd_spec_check(&spec, ctx->mesh, in->rank, in->shape));
    spmd_placement at = without_ones(ctx->mesh, &layout);
    return constrain_if_needed(ctx, in, &at, out);
}

/* The gradients whose only want is that their sums over `mask` are made, and the loss. */
static spmd_status sum_gradients(spmd_ctx *ctx, const spmd_tensor *params, int n, const spmd_tensor *grads,
                                 const spmd_tensor *loss, unsigned mask)
{
    spmd_tensor *list = spmd__scratch(ctx, ((size_t)n + 1) * sizeof *list);
    int m = 0;
    if (!list)
        return SPMD_ENOMEM;
    for (int k = 0; k < n; k++) {
        const spmd_placement *at = spmd__placement(ctx, &grads[k]);
        if (at->partial == mask && spmd__same_cut(at, spmd__placement(ctx, &params[k])))
            list[m++] = grads[k];
    }
    if (spmd__placement(ctx, loss)->partial == mask)
        list[m++] = *loss;
    return m ? spmd__sum_together(ctx, list, m, mask) : SPMD_OK;
}

spmd_status spmd__auto_settle(spmd_ctx *ctx, const spmd_tensor *params, int n, spmd_tensor *grads, spmd_tensor *loss)
{
    const spmd_placement whole = {0};
    for (unsigned mask = 1; mask < 1u << ctx->mesh->naxes; mask++)
        SPMD_TRY(sum_gradients(ctx, params, n, grads, loss, mask));
    for (int k = 0; k < n; k++) {
        spmd_placement at = *spmd__placement(ctx, &params[k]);
        SPMD_TRY(constrain_if_needed(ctx, &grads[k], &at, &grads[k]));
    }
    return constrain_if_needed(ctx, loss, &whole, loss);
}

spmd_status spmd__auto_end(spmd_ctx *ctx, spmd_tensor *out)
{
    const spmd_job *job = &ctx->mesh->job;
    ctx->depth = 0;
    for (int k = 0; k < job->nout; k++) {
        spmd_layout layout;
        SPMD_CHECK(out[k].id && out[k].launch == ctx->launch, SPMD_ESTALE,
                   "output %d was not set by the shard function", k);
        SPMD_TRY(spmd__check_alive(ctx, "output", k, &out[k]));
        spmd_status status = spmd__layout(&job->out_specs[k], ctx->mesh, out[k].rank, &layout);
        if (status == SPMD_OK)
            status = spmd_spec_check(&job->out_specs[k], ctx->mesh, out[k].rank, out[k].shape);
        SPMD_CHECK(status == SPMD_OK, status, "output %d: %s", k, spmd_last_error());
        spmd_placement at = without_ones(ctx->mesh, &layout);
        SPMD_TRY(spmd__move(ctx, &out[k], &at, &out[k]));
    }
    return SPMD_OK;
}
