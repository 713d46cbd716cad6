/* The one function through which every op goes: check, state, shape, hash, memory, tape, kernel. */
#include "spmd/ctx.h"
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n)
{
    uint64_t word;
    for (const char *p = bytes; n; p += 8, n -= n < 8 ? n : 8) {
        word = 0;
        memcpy(&word, p, n < 8 ? n : 8);
        hash = mix(hash, word);
    }
    return hash;
}

/* The op stream: names, attributes and shapes, no addresses. Equal on all shards, or replication cannot be inferred. */
static uint64_t stream_hash(uint64_t hash, const spmd_call *call)
{
    spmd_attr attr = call->attr;
    const char *name = attr.definition ? ((const spmd_custom_op *)attr.definition)->name : call->op->name;
    attr.definition = NULL;
    hash = mix_bytes(hash, name, strlen(name));
    hash = mix_bytes(hash, &attr, sizeof attr);
    for (int k = 0; k < call->nin; k++) {
        hash = mix(hash, (uint64_t)call->in[k].dtype);
        hash = mix_bytes(hash, call->in[k].shape, (size_t)call->in[k].rank * sizeof *call->in[k].shape);
    }
    return hash;
}

static bool bit(uint64_t mask, int k)
{
    return k < 64 && mask >> k & 1;
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
        if (!mine || bit(op->like, k))
            continue;
        if (!bit(op->linear, k))
            return refuse_partial(ctx, call, k, " and the op is not linear in it");
        for (int j = 0; j < call->nin; j++) {
            bool fits = op->joint ? call->in[j].partial == mine : j == k || !(call->in[j].vary & mine);
            if (!fits && !bit(op->like, j))
                return refuse_partial(ctx, call, k,
                                      op->joint ? " and the others are not" : " and another input varies there");
        }
        *partial |= mine;
    }
    return SPMD_OK;
}

static spmd_status check_inputs(spmd_ctx *ctx, const spmd_op *op, const spmd_tensor *in, int nin)
{
    SPMD_CHECK(
        pthread_equal(ctx->thread, pthread_self()), SPMD_EINVAL,
        "%s called from another thread than the shard's own: only the thread that runs the shard function may use "
        "its context",
        op->name);
    for (int k = 0; k < nin; k++)
        SPMD_CHECK(in[k].id && in[k].launch == ctx->launch, SPMD_ESTALE,
                   "%s: input %d was not made in this launch; tensors die when the shard function returns", op->name,
                   k);
    return SPMD_OK;
}

static spmd_status push_tape(spmd_ctx *ctx, const spmd_call *call)
{
    if (ctx->ntape == ctx->tape_capacity) {
        int capacity = ctx->tape_capacity ? 2 * ctx->tape_capacity : 256;
        spmd_call *tape = spmd__scratch(ctx, (size_t)capacity * sizeof *tape);
        if (!tape)
            return SPMD_ENOMEM;
        if (ctx->ntape)
            memcpy(tape, ctx->tape, (size_t)ctx->ntape * sizeof *tape);
        ctx->tape = tape;
        ctx->tape_capacity = capacity;
    }
    ctx->tape[ctx->ntape++] = *call;
    return SPMD_OK;
}

static spmd_status run(spmd_ctx *ctx, const spmd_call *call)
{
    spmd_view *views = spmd__scratch(ctx, (size_t)(call->nin + call->nout) * sizeof *views);
    if (!views)
        return SPMD_ENOMEM;
    for (int k = 0; k < call->nin; k++)
        spmd__view_of(&call->in[k], &views[k]);
    for (int k = 0; k < call->nout; k++)
        spmd__view_of(&call->out[k], &views[call->nin + k]);
    struct {
        spmd_kernel_args args;
        spmd_attr attr;
    } *kernel = spmd__scratch(ctx, sizeof *kernel); /* outlives this call: a stream may run the kernel later */
    if (!kernel)
        return SPMD_ENOMEM;
    kernel->attr = call->attr;
    kernel->args = (spmd_kernel_args){
        .attr = &kernel->attr, .nin = call->nin, .nout = call->nout, .in = views, .out = views + call->nin};
    return ctx->mesh->backend->run(ctx, call->op, &kernel->args);
}

spmd_status spmd__emit(spmd_ctx *ctx, const spmd_op *op, const spmd_attr *attr, const spmd_tensor *in, int nin,
                       spmd_tensor *out, int nout)
{
    SPMD_TRY(check_inputs(ctx, op, in, nin));
    spmd_tensor *tensors = spmd__scratch(ctx, (size_t)(nin + nout) * sizeof *tensors);
    if (!tensors)
        return SPMD_ENOMEM;
    spmd_call call = {.op = op, .nin = nin, .nout = nout, .in = tensors, .out = tensors + nin, .site = ctx->site};
    if (attr)
        call.attr = *attr;
    if (nin)
        memcpy(call.in, in, (size_t)nin * sizeof *in);
    uint8_t vary = 0, partial = 0;
    for (int k = 0; k < nin; k++)
        vary |= in[k].vary;
    if (!op->collective)
        SPMD_TRY(partial_state(ctx, &call, &partial));
    for (int k = 0; k < nout; k++)
        call.out[k] = (spmd_tensor){.vary = vary, .partial = partial};
    SPMD_TRY(op->shape(ctx, &call));
    ctx->stream_hash = stream_hash(ctx->stream_hash, &call);
    for (int k = 0; k < nout; k++) {
        call.out[k].id = ++ctx->next_id;
        call.out[k].launch = ctx->launch;
        size_t bytes = (size_t)spmd_count(&call.out[k]) * spmd_dtype_size(call.out[k].dtype);
        call.out[k].memory = op->view && k == 0 ? in[0].memory : spmd__scratch(ctx, bytes);
        if (!call.out[k].memory)
            return SPMD_ENOMEM;
        if (call.out[k].dtype == SPMD_BOOL && ctx->mesh->backend->hostile && !(op->view && k == 0))
            memset(call.out[k].memory, 0, bytes); /* 0xFF is no bool */
    }
    atomic_store_explicit(&ctx->last_op, op->name, memory_order_release);
    atomic_fetch_add_explicit(&ctx->ops, 1, memory_order_relaxed);
    if (!op->view)
        SPMD_TRY(run(ctx, &call));
    if (ctx->depth)
        SPMD_TRY(push_tape(ctx, &call));
    memcpy(out, call.out, (size_t)nout * sizeof *out);
    return SPMD_OK;
}
