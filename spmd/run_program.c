/* A launch with a jit: record, schedule and plan if this device has no program yet, then replay. */
#include "spmd/boundary.h"
#include "spmd/host/futex.h"
#include "spmd/host/meet.h"
#include "spmd/program.h"
#include <string.h>

static spmd_status meet_all(spmd_ctx *ctx, const char *op, const void *post, spmd_post *posts)
{
    spmd_signature signature = {.op = op};
    return spmd__meet(ctx, spmd__group_all(ctx), &signature, (spmd_post){.data = post}, posts);
}

/* "psum at step.c:12", or that the function ended there */
static const char *call_text(const spmd_program *p, int i, char text[192])
{
    if (i < p->n)
        snprintf(text, 192, "%s at %s", p->calls[i].op->name, p->calls[i].site ? p->calls[i].site : "an unknown place");
    else
        snprintf(text, 192, "the end after %d calls", p->n);
    return text;
}

/* A difference is found now, by name, and not in the middle of a step. */
static spmd_status compare_recordings(const spmd_ctx *ctx, const spmd_program *mine, const spmd_post *posts)
{
    for (int d = 0; d < ctx->mesh->ndevices; d++) {
        const spmd_program *other = posts[d].data;
        int i = 0;
        char one[192], two[192];
        if (mine->hash == other->hash)
            continue;
        while (i < mine->n && i < other->n && spmd__call_hash(&mine->calls[i]) == spmd__call_hash(&other->calls[i]))
            i++;
        return SPMD_FAIL(SPMD_EMISMATCH, "shards recorded different calls: call %d is %s on shard %d, %s on shard %d",
                         i, call_text(mine, i, one), ctx->id, call_text(other, i, two), d);
    }
    return SPMD_OK;
}

/* Runs the user's function without running its ops. */
static spmd_status record(spmd_ctx *ctx, spmd_program *p)
{
    const spmd_job *job = &ctx->mesh->job;
    ctx->program = p;
    spmd_tensor *in = spmd__make_inputs(ctx);
    spmd_status status = in ? spmd__call_shard(ctx, in, in + job->nin) : SPMD_ENOMEM;
    for (int k = 0; k < job->nout && status == SPMD_OK; k++)
        status = spmd__check_output(ctx, k, &in[job->nin + k]);
    ctx->program = NULL;
    SPMD_TRY(status);
    size_t n = (size_t)(job->nin + job->nout);
    p->in = spmd__arena_get(&p->arena, n * sizeof *p->in + 1);
    if (!p->in)
        return SPMD_ENOMEM;
    if (n)
        memcpy(p->in, in, n * sizeof *p->in);
    for (int k = 0; k < job->nin; k++) { /* programs know blocks only, also in automatic mode */
        memcpy(p->in[k].shape, job->in[k]->block_shape, sizeof p->in[k].shape);
        p->in[k].vary = (uint8_t)spmd__layout_mask(&job->in[k]->layout);
    }
    p->out = p->in + job->nin;
    p->nin = job->nin;
    p->nout = job->nout;
    p->ids = ctx->next_id;
    p->hash = ctx->stream_hash;
    spmd_ctx_at(ctx, "the end of the shard function");
    spmd_post posts[SPMD_MAX_DEVICES];
    SPMD_TRY(meet_all(ctx, "record", p, posts));
    SPMD_TRY(compare_recordings(ctx, p, posts));
    return meet_all(ctx, "record", NULL, NULL); /* nobody changes a program that others still read */
}

static spmd_program *new_program(spmd_device *device)
{
    spmd_program *p = spmd__alloc(device->mesh, sizeof *p);
    if (p)
        *p = (spmd_program){.mesh = device->mesh, .device = device, .arena.mesh = device->mesh};
    return p;
}

static spmd_status make_program(spmd_ctx *ctx, spmd_program **out)
{
    int64_t start = spmd__now_ns();
    spmd_program *p = *out = new_program(ctx->device);
    if (!p)
        return SPMD_ENOMEM;
    SPMD_TRY(record(ctx, p));
    SPMD_TRY(spmd__program_schedule(p));
    SPMD_TRY(spmd__program_plan(p, &ctx->mesh->job));
    p->info.record_us = (spmd__now_ns() - start) / 1000;
    return SPMD_OK;
}

static spmd_status verify(spmd_ctx *ctx, const spmd_program *p)
{
    spmd_program *again = new_program(ctx->device);
    if (!again)
        return SPMD_ENOMEM;
    spmd_status status = record(ctx, again);
    if (status == SPMD_OK)
        status = spmd__program_compare(p, again);
    spmd__program_free(again);
    return status;
}

static spmd_status prepare_outputs(spmd_ctx *ctx, const spmd_program *p, bool *created)
{
    const spmd_job *job = &ctx->mesh->job;
    for (int k = 0; k < job->nout; k++) {
        const spmd_array *array = job->out[k];
        const spmd_tensor *t = &p->out[k];
        if (!array->block[ctx->id]) {
            SPMD_TRY(spmd__fill_shell(ctx, k, t));
            *created = true;
        } else
            SPMD_CHECK(array->dtype == t->dtype && array->rank == t->rank &&
                           !memcmp(array->block_shape, t->shape, (size_t)t->rank * sizeof *t->shape),
                       SPMD_ESHAPE, "output %d is %s, but the given array has other blocks", k,
                       spmd__shape_text(t, (char[96]){0}));
    }
    return SPMD_OK;
}

static spmd_status before_commit(spmd_ctx *ctx)
{
    SPMD_TRY(spmd__sync(ctx));
    spmd_ctx_at(ctx, "the first update in place");
    SPMD_TRY(meet_all(ctx, "commit", NULL, NULL));
    atomic_store(&ctx->mesh->updating, true);
    return SPMD_OK;
}

spmd_status spmd__run_program(spmd_ctx *ctx)
{
    const spmd_job *job = &ctx->mesh->job;
    spmd_program **place = &ctx->mesh->jit_entry->program[ctx->id];
    bool grown = !*place;
    if (!*place)
        SPMD_TRY(make_program(ctx, place));
    else if (job->verify_recording)
        SPMD_TRY(verify(ctx, *place));
    spmd_program *p = *place;
    SPMD_TRY(prepare_outputs(ctx, p, &grown));
    if (grown && ctx->mesh->backend->remote) /* no device's memory grows while another one waits in a collective */
        SPMD_TRY(meet_all(ctx, "memory", NULL, NULL));
    spmd__program_bind(p, job, ctx->id);
    spmd_status replayed = spmd__program_replay(p, ctx, before_commit);
    if (replayed != SPMD_OK)
        return spmd__give_up(ctx, replayed);
    ctx->stream_hash = p->hash;
    spmd_tensor *out = spmd__scratch(ctx, (size_t)job->nout * sizeof *out + 1);
    if (!out)
        return SPMD_ENOMEM;
    for (int k = 0; k < job->nout; k++) {
        out[k] = p->out[k];
        out[k].memory = spmd__program_address(p, out[k].id, job, ctx->id);
    }
    SPMD_TRY(spmd__finish(ctx, spmd__agree(ctx, out), out));
    return spmd__end_outputs(ctx, spmd__program_copy_out(p, ctx));
}
