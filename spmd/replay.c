/* Replaying a program: walk the list. Nothing is allocated but the kernels' scratch. */
#include "spmd/program.h"
#include <string.h>

void *spmd__program_address(const spmd_program *p, uint32_t id, const spmd_job *job, int device)
{
    const spmd_planned *value = &p->plan[p->plan[id].root];
    switch (value->place) {
    case SPMD_PLACE_INPUT:
        return job->in[value->index]->block[device];
    case SPMD_PLACE_OUTPUT:
        return job->out[value->index]->block[device];
    case SPMD_PLACE_MEMORY:
        break;
    }
    return p->memory + value->offset;
}

void spmd__program_bind(spmd_program *p, const spmd_job *job, int device)
{
    bool bound = p->bound[p->nin + p->nout] != NULL; /* the last entry: bound before */
    for (int k = 0; k < p->nin + p->nout; k++) {
        void *block = k < p->nin ? job->in[k]->block[device] : job->out[k - p->nin]->block[device];
        bound &= p->bound[k] == block;
        p->bound[k] = block;
    }
    p->bound[p->nin + p->nout] = p;
    p->bindings += !bound;
    for (int i = 0; !bound && i < p->n; i++) {
        const spmd_call *call = &p->calls[i];
        spmd_view *views = (spmd_view *)p->args[i].in;
        for (int k = 0; k < call->nin + call->nout; k++) {
            uint32_t id = k < call->nin ? call->in[k].id : call->out[k - call->nin].id;
            views[k].data = spmd__program_address(p, id, job, device);
        }
    }
}

spmd_status spmd__program_step(spmd_program *p, spmd_ctx *ctx, int i)
{
    const spmd_backend *backend = ctx->mesh->backend;
    const spmd_call *call = &p->calls[i];
    if (call->op->view)
        return SPMD_OK;
    ctx->site = call->site;
    ctx->transposing = call->implied;
    spmd__record(&ctx->device->recorder, call->op->name, call->op->collective ? call->site : NULL);
    spmd_mark mark = spmd__arena_mark(ctx->arena);
    SPMD_TRY(backend->run(ctx, call->op, &p->args[i]));
    if (!backend->late)
        spmd__arena_release(ctx->arena, mark);
    return SPMD_OK;
}

spmd_status spmd__program_replay(spmd_program *p, spmd_ctx *ctx, spmd_status (*before_commit)(spmd_ctx *))
{
    const spmd_backend *backend = ctx->mesh->backend;
    if (backend->replay)
        return backend->replay(p, ctx, before_commit);
    if (backend->hostile)
        memset(p->memory, 0xFF, (size_t)p->info.memory_bytes);
    for (int i = 0; i < p->n; i++) {
        if (i == p->commit)
            SPMD_TRY(before_commit(ctx));
        SPMD_TRY(spmd__program_step(p, ctx, i));
    }
    return spmd__sync(ctx);
}

spmd_status spmd__program_copy_out(spmd_program *p, spmd_ctx *ctx)
{
    const spmd_job *job = &ctx->mesh->job;
    for (int pass = 0; pass < 2; pass++) /* first away from blocks that others overwrite, then into place */
        for (int c = 0; c < p->ncopies; c++) {
            const spmd_planned *value = &p->plan[p->plan[p->out[p->copies[c]].id].root];
            void *block = job->out[p->copies[c]]->block[ctx->id], *waiting = p->memory + p->stage[c];
            void *from = spmd__program_address(p, p->out[p->copies[c]].id, job, ctx->id);
            bool staged = value->place == SPMD_PLACE_INPUT;
            if (pass == 0 && staged)
                SPMD_TRY(spmd__block_copy(ctx, waiting, from, value->bytes));
            else if (pass == 1 && block != from)
                SPMD_TRY(spmd__block_copy(ctx, block, staged ? waiting : from, value->bytes));
        }
    return SPMD_OK;
}
