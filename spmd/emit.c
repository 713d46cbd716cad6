/* The one function through which every op goes: check, state, shape, hash, memory, tape, kernel. */
#include "spmd/auto.h"
#include "spmd/hash.h"
#include "spmd/known.h"
#include "spmd/program.h"
#include <stddef.h>
#include <string.h>

enum { SMALL = 8 }; /* tensors of a call that need no memory of their own */

/* Both halves of a product of two words depend on all of their bits; two chains side by side, since a product waits for
 * the one before it. */
static uint64_t mix_pair(uint64_t hash, uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)(a ^ 0xA0761D6478BD642Fu) * (b ^ hash);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t mix_words(uint64_t hash, const void *words, size_t n)
{
    uint64_t other = ~hash, w[4];
    const char *p = words;
    for (; n >= 4; n -= 4, p += sizeof w) {
        memcpy(w, p, sizeof w);
        hash = mix_pair(hash, w[0], w[1]);
        other = mix_pair(other, w[2], w[3]);
    }
    for (; n; n--, p += sizeof *w) {
        memcpy(w, p, sizeof *w);
        hash = spmd__mix(hash, w[0]);
    }
    return spmd__mix(hash, other);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    uint64_t word = 0;
    for (; *text; text++) { /* eight letters a word */
        if (word >> 56) {
            hash = spmd__mix(hash, word);
            word = 0;
        }
        word = word << 8 | (uint8_t)*text;
    }
    return spmd__mix(hash, word);
}

uint64_t spmd__call_hash(const spmd_call *call)
{
    const spmd_custom_op *custom = call->attr.definition;
    const char *name = custom ? custom->name : call->op->name;
    _Static_assert(offsetof(spmd_attr, definition) % 8 == 0, "attributes are hashed by words");
    uint64_t hash = mix_text((uint64_t)call->nin, name);
    hash = mix_words(hash, &call->attr, offsetof(spmd_attr, definition) / 8);
    for (int k = 0; k < call->nin; k++) {
        hash = spmd__mix(hash, (uint64_t)call->in[k].dtype << 8 | (uint64_t)call->in[k].rank);
        for (int d = 0; d < call->in[k].rank; d++)
            hash = spmd__mix(hash, (uint64_t)call->in[k].shape[d]);
    }
    return hash;
}

spmd_cost spmd__call_cost(const spmd_call *call)
{
    spmd_cost cost = {0};
    for (int k = 0; k < call->nin + call->nout && !call->op->view; k++)
        cost.bytes += (double)spmd__tensor_bytes(k < call->nin ? &call->in[k] : &call->out[k - call->nin]);
    if (call->op->cost)
        call->op->cost(call, &cost);
    return cost;
}

static spmd_status refuse_partial(spmd_ctx *ctx, const spmd_call *call, int k, const char *why)
{
    char type[256];
    spmd_tensor_format(ctx, &call->in[k], type, sizeof type);
    return SPMD_FAIL(SPMD_EINVAL, "%s: input %d is %s, a partial sum%s: spmd_psum it first", call->op->name, k, type,
                     why);
}

/* A partial input passes through a linear op, if nothing that it meets differs along the axes of the sum. */
static spmd_status partial_state(spmd_ctx *ctx, const spmd_call *call, uint8_t *partial)
{
    const spmd_op *op = call->op;
    for (int k = 0; k < call->nin; k++) {
        uint8_t mine = call->in[k].partial;
        if (!mine || spmd__bit(op->like, k))
            continue;
        if (!spmd__bit(op->linear, k) || op->adds)
            return refuse_partial(ctx, call, k, " and the op is not linear in it alone");
        for (int j = 0; j < call->nin; j++) {
            bool fits = op->joint ? call->in[j].partial == mine : j == k || !(call->in[j].vary & mine);
            if (!fits && !spmd__bit(op->like, j))
                return refuse_partial(ctx, call, k,
                                      op->joint ? " and the others are not" : " and another input varies there");
        }
        *partial |= mine;
    }
    return SPMD_OK;
}

static spmd_status check_thread(const spmd_ctx *ctx, const spmd_op *op)
{
    SPMD_CHECK(
        pthread_equal(ctx->thread, pthread_self()), SPMD_EINVAL,
        "%s called from another thread than the shard's own: only the thread that runs the shard function may use "
        "its context",
        op->name);
    return SPMD_OK;
}

static spmd_status check_inputs(const spmd_ctx *ctx, const spmd_op *op, const spmd_tensor *in, int nin)
{
    for (int k = 0; k < nin; k++)
        SPMD_TRY(spmd__check_alive(ctx, op->name, k, &in[k]));
    return SPMD_OK;
}

/* The tape keeps the call until the launch ends. */
spmd_status spmd__push_tape(spmd_ctx *ctx, const spmd_call *call)
{
    return spmd__append_call(ctx->arena, call, &ctx->tape, &ctx->ntape, &ctx->tape_capacity);
}

/* What a kernel needs, in one piece of memory. */
typedef struct launch_record {
    spmd_kernel_args args;
    spmd_attr attr;
    spmd_view views[];
} launch_record;

/* A kernel that is called later: everything that it reads lives in the arena. */
static spmd_status enqueue(spmd_ctx *ctx, const spmd_call *call, uint64_t hash)
{
    size_t n = (size_t)(call->nin + call->nout);
    launch_record *record = spmd__scratch(ctx, sizeof *record + n * sizeof *record->views);
    if (!record)
        return SPMD_ENOMEM;
    for (size_t k = 0; k < n; k++)
        spmd__view_of(&call->in[k], &record->views[k]); /* out follows in */
    record->attr = call->attr;
    record->args = (spmd_kernel_args){.attr = &record->attr, .nin = call->nin, .nout = call->nout, .hash = hash};
    record->args.in = record->views;
    record->args.out = record->views + call->nin;
    return ctx->mesh->backend->run(ctx, call->op, &record->args);
}

/* A kernel that needs nothing of the host's when run() returns. Its scratch is free again after it. */
static spmd_status run_now(spmd_ctx *ctx, const spmd_call *call, const spmd_view *views, uint64_t hash)
{
    spmd_mark mark = spmd__arena_mark(ctx->arena);
    spmd_kernel_args args = {.attr = &call->attr, .nin = call->nin, .nout = call->nout, .hash = hash};
    args.in = views;
    args.out = views + call->nin;
    SPMD_TRY(ctx->mesh->backend->run(ctx, call->op, &args));
    if (ctx->arena->used != mark.total)
        spmd__arena_release(ctx->arena, mark);
    return SPMD_OK;
}

static spmd_status view_and_run(spmd_ctx *ctx, const spmd_call *call, uint64_t hash)
{
    spmd_mark mark = spmd__arena_mark(ctx->arena);
    spmd_view small[SMALL], *views = small;
    int n = call->nin + call->nout;
    if (n > SMALL && !(views = spmd__scratch(ctx, (size_t)n * sizeof *views)))
        return SPMD_ENOMEM;
    for (int k = 0; k < n; k++)
        spmd__view_of(&call->in[k], &views[k]);
    SPMD_TRY(run_now(ctx, call, views, hash));
    spmd__arena_release(ctx->arena, mark);
    return SPMD_OK;
}

static spmd_status run(spmd_ctx *ctx, const spmd_call *call, uint64_t hash)
{
    if (ctx->program)
        return spmd__program_append(ctx->program, call);
    if (call->op->view)
        return SPMD_OK;
    return ctx->mesh->backend->late ? enqueue(ctx, call, hash) : view_and_run(ctx, call, hash);
}

static spmd_status run_known(spmd_ctx *ctx, spmd_known *known)
{
    const spmd_call *call = &known->call;
    if (call->op->view || ctx->mesh->backend->late)
        return run(ctx, call, known->hash);
    for (int k = 0; k < call->nin + call->nout; k++) {
        known->views[k].data = known->tensors[k].memory;
        known->views[k].value = known->tensors[k].id;
    }
    return run_now(ctx, call, known->views, known->hash);
}

/* A donated input's memory, if the op can work in place and nobody else needs the value. */
static bool take_over(spmd_ctx *ctx, const spmd_call *call, int k)
{
    const spmd_tensor *in = &call->in[k];
    spmd_tensor *out = &call->out[k];
    if (!call->op->in_place || k >= call->nin || !in->donated || ctx->depth || ctx->program ||
        spmd__dtype_size(out->dtype) != spmd__dtype_size(in->dtype) || !spmd__shape_equal(out, in) ||
        !spmd__arena_holds(ctx->data, in->memory))
        return false;
    for (int j = 0; j < call->nin; j++)
        if (j != k && call->in[j].slot == in->slot) /* the same memory twice in one call */
            return false;
    out->memory = in->memory;
    out->slot = in->slot;
    ctx->valid_from[in->slot] = out->id;
    return true;
}

static spmd_status give_memory(spmd_ctx *ctx, const spmd_call *call)
{
    for (int k = 0; k < call->nout; k++) {
        spmd_tensor *out = &call->out[k];
        out->id = ++ctx->next_id;
        out->launch = ctx->launch;
        if (call->op->view && k == 0) {
            out->memory = call->in[0].memory;
            out->slot = call->in[0].slot;
            continue;
        }
        if (take_over(ctx, call, k))
            continue;
        out->slot = spmd__new_slot(ctx);
        if (!out->slot)
            return SPMD_ENOMEM;
        if (ctx->program) /* recording: the planner gives it a place */
            continue;
        size_t bytes = spmd__tensor_bytes(out);
        out->memory = spmd__data(ctx, bytes);
        if (!out->memory)
            return SPMD_ENOMEM;
        if (out->dtype == SPMD_BOOL && ctx->mesh->backend->hostile)
            memset(out->memory, 0, bytes); /* 0xFF is no bool */
    }
    return SPMD_OK;
}

/* What comes before the kernel, whatever is known of the call. */
static spmd_status prepare(spmd_ctx *ctx, const spmd_call *call, uint64_t hash)
{
    ctx->stream_hash = spmd__mix(ctx->stream_hash, hash);
    SPMD_TRY(give_memory(ctx, call));
    spmd__record(&ctx->device->recorder, call->op->name, call->op->collective ? ctx->site : NULL);
    return SPMD_OK;
}

static spmd_status launch(spmd_ctx *ctx, const spmd_call *call, uint64_t hash)
{
    SPMD_TRY(prepare(ctx, call, hash));
    return run(ctx, call, hash);
}

spmd_status spmd__launch(spmd_ctx *ctx, spmd_call *call)
{
    return launch(ctx, call, spmd__call_hash(call));
}

/* Whether the call is right, and of what types its outputs are. */
static spmd_status apply_rules(spmd_ctx *ctx, spmd_call *call)
{
    SPMD_CHECK(!ctx->automatic || !call->op->collective, SPMD_EAXIS,
               "%s has no meaning on global values, with which the automatic mode computes; use spmd_settle (psum in "
               "explicit mode, nothing here), or spmd_constrain to say how a value is cut",
               call->op->name);
    uint8_t vary = 0, partial = 0, inputs_partial = 0;
    for (int k = 0; k < call->nin; k++) {
        vary |= call->in[k].vary;
        inputs_partial |= call->in[k].partial;
    }
    if (inputs_partial && !call->op->collective)
        SPMD_TRY(partial_state(ctx, call, &partial));
    for (int k = 0; k < call->nout; k++)
        call->out[k] = (spmd_tensor){.vary = vary, .partial = partial};
    SPMD_TRY(call->op->shape(ctx, call));
    for (int k = 0; k < call->nout; k++)
        SPMD_CHECK(spmd__countable(call->out[k].dtype, call->out[k].rank, call->out[k].shape), SPMD_ESHAPE,
                   "%s: output %d would be %s: more bytes than can be counted", call->op->name, k,
                   spmd__shape_text(&call->out[k], (char[96]){0}));
    return SPMD_OK;
}

/* A call is made as it was the last time, but for the values. That this is the shard's own thread is known, too. */
spmd_status spmd__emit_known(spmd_ctx *ctx, spmd_known *known, const spmd_tensor *in, spmd_tensor *out)
{
    spmd_call *call = &known->call;
    SPMD_TRY(check_inputs(ctx, call->op, in, call->nin));
    call->site = ctx->site;
    call->implied = ctx->transposing;
    for (int k = 0; k < call->nin; k++)
        call->in[k] = in[k];
    SPMD_TRY(prepare(ctx, call, known->hash));
    SPMD_TRY(run_known(ctx, known));
    if (ctx->depth)
        SPMD_TRY(spmd__push_tape(ctx, call));
    for (int k = 0; k < call->nout; k++)
        out[k] = call->out[k];
    return SPMD_OK;
}

static spmd_status emit_new(spmd_ctx *ctx, const spmd_attr *attr, spmd_call *call, spmd_known *known)
{
    SPMD_TRY(apply_rules(ctx, call));
    if (ctx->automatic) {
        SPMD_TRY(spmd__auto_launch(ctx, call));
    } else {
        uint64_t hash = spmd__call_hash(call);
        if (known)
            spmd__remember(known, attr, call, hash);
        SPMD_TRY(launch(ctx, call, hash));
    }
    return ctx->depth ? spmd__push_tape(ctx, call) : SPMD_OK;
}

spmd_status spmd__emit(spmd_ctx *ctx, const spmd_op *op, const spmd_attr *attr, const spmd_tensor *in, int nin,
                       spmd_tensor *out, int nout)
{
    static const spmd_attr none;
    spmd_tensor small[SMALL], *tensors = small; /* inputs, then outputs: `out` may alias `in` */
    bool hit;
    if (!attr)
        attr = &none;
    spmd_known *known = spmd__known(ctx, op, attr, in, nin, nout, &hit);
    if (hit)
        return spmd__emit_known(ctx, known, in, out);
    SPMD_TRY(check_thread(ctx, op));
    SPMD_TRY(check_inputs(ctx, op, in, nin));
    if (nin + nout > SMALL)
        tensors = spmd__scratch(ctx, (size_t)(nin + nout) * sizeof *tensors);
    if (!tensors)
        return SPMD_ENOMEM;
    spmd_call call = {.op = op,
                      .nin = nin,
                      .nout = nout,
                      .in = tensors,
                      .out = tensors + nin,
                      .site = ctx->site,
                      .implied = ctx->transposing,
                      .attr = *attr};
    if (nin)
        memcpy(call.in, in, (size_t)nin * sizeof *in);
    SPMD_TRY(emit_new(ctx, attr, &call, known));
    memcpy(out, call.out, (size_t)nout * sizeof *out);
    return SPMD_OK;
}
