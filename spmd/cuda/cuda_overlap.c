/* A collective starts on the second stream as soon as its inputs are there; the shard's own stream goes on with the
 * calls behind it, and waits where one needs what the collective makes. Events tell the streams of each other.
 *
 * Addresses decide what waits: two calls keep their order if one writes what the other reads or writes. So nothing
 * needs to know which value the plan puts where, or that an array is passed twice; memory that the plan gives to
 * another value while a collective still reads it is waited for, too.
 *
 * Collectives start in program order, on every device: those on the second stream follow each other there, and one that
 * stays on the shard's stream, because nothing could go on beside it, first waits for all of them. */
#include "spmd/cuda/cuda_overlap.h"
#include <stdint.h>

static bool meet(const spmd_view *a, const spmd_view *b)
{
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    size_t of_x = spmd__view_bytes(a), of_y = spmd__view_bytes(b);
    return of_x && of_y && x < y + of_y && y < x + of_x;
}

/* Does call i write what call j reads or writes? */
static bool writes_for(const spmd_program *p, int i, int j)
{
    const spmd_kernel_args *a = &p->args[i], *b = &p->args[j];
    for (int n = 0; n < a->nout; n++) {
        for (int k = 0; k < b->nin; k++)
            if (!spmd__bit(p->calls[j].op->like, k) && meet(&a->out[n], &b->in[k]))
                return true;
        for (int k = 0; k < b->nout; k++)
            if (meet(&a->out[n], &b->out[k]))
                return true;
    }
    return false;
}

static bool conflict(const spmd_program *p, int i, int j)
{
    return writes_for(p, i, j) || writes_for(p, j, i);
}

static bool is_collective(const spmd_program *p, const spmd_call *call)
{
    return spmd__meets(call) && spmd__mask_size(p->mesh, call->attr.axes.mask) > 1;
}

/* Is there a local op behind collective i that need not wait for it? At a commit all wait. */
static bool leaves_work(const spmd_program *p, int i)
{
    for (int j = i + 1; j < p->n && j != p->commit; j++) {
        if (p->calls[j].op->view)
            continue;
        if (conflict(p, i, j))
            return false;
        if (!is_collective(p, &p->calls[j]))
            return true;
    }
    return false;
}

/* The last of the calls from .. last that run beside and that call i must not overtake. */
static int last_conflict(const spmd_program *p, const spmd_cuda_order *order, int from, int last, int i)
{
    for (int j = last; j >= from; j--)
        if (order[j].turn >= 0 && conflict(p, j, i))
            return j;
    return -1;
}

int spmd__cuda_order(const spmd_program *p, spmd_cuda_order *order)
{
    /* Inputs that are copied first lie in scratch memory, which the next op on the shard's stream may use. */
    bool none = ((const spmd_cuda_mesh *)p->mesh->backend_state)->copies;
    int turns = 0, last = -1, waited = -1; /* the last call that runs beside; that was waited for, with all before it */
    for (int i = 0; i < p->n; i++) {
        bool collective = is_collective(p, &p->calls[i]);
        order[i].turn = order[i].after = -1;
        waited = i == p->commit ? last : waited;
        if (p->calls[i].op->view)
            continue;
        if (!none && collective && p->calls[i].op->cuda && leaves_work(p, i)) {
            order[i].turn = turns++;
            last = i;
            continue;
        }
        int after = collective ? last : last_conflict(p, order, waited + 1, last, i);
        if (after > waited)
            order[i].after = waited = after;
    }
    return turns;
}

spmd_status spmd__cuda_await(spmd_ctx *ctx, const spmd_cuda_order *order, int after)
{
    const spmd_cuda_device *cuda = spmd__cuda_of(ctx->device);
    if (after >= 0 && order[after].turn >= 0) /* a later turn that has recorded the event again covers this one */
        SPMD_CUDA_TRY(cudaStreamWaitEvent(cuda->compute, cuda->joins[order[after].turn % SPMD_CUDA_JOINS], 0));
    return SPMD_OK;
}

spmd_status spmd__cuda_join(spmd_ctx *ctx)
{
    spmd_cuda_device *cuda = spmd__cuda_of(ctx->device);
    if (!cuda->beside)
        return SPMD_OK;
    SPMD_CUDA_TRY(cudaEventRecord(cuda->fork, cuda->second));
    SPMD_CUDA_TRY(cudaStreamWaitEvent(cuda->compute, cuda->fork, 0));
    return SPMD_OK;
}

static spmd_status run_beside(spmd_program *p, spmd_ctx *ctx, int i, int turn)
{
    spmd_cuda_device *cuda = spmd__cuda_of(ctx->device);
    SPMD_CUDA_TRY(cudaEventRecord(cuda->fork, cuda->compute));
    SPMD_CUDA_TRY(cudaStreamWaitEvent(cuda->second, cuda->fork, 0));
    cuda->stream = cuda->second;
    cuda->beside = true;
    spmd_status status = spmd__program_step(p, ctx, i);
    cuda->stream = cuda->compute;
    cuda->beside = true; /* still, if the op has waited in between */
    SPMD_TRY(status);
    SPMD_CUDA_TRY(cudaEventRecord(cuda->joins[turn % SPMD_CUDA_JOINS], cuda->second));
    return SPMD_OK;
}

spmd_status spmd__cuda_step(spmd_program *p, spmd_ctx *ctx, int i, spmd_cuda_order *order, int from)
{
    const spmd_cuda_device *cuda = spmd__cuda_of(ctx->device);
    uint64_t before = cuda->nccl_calls;
    if (order[i].turn >= 0)
        SPMD_TRY(run_beside(p, ctx, i, order[i].turn));
    else {
        if (order[i].after >= from)
            SPMD_TRY(spmd__cuda_await(ctx, order, order[i].after));
        SPMD_TRY(spmd__program_step(p, ctx, i));
    }
    order[i].nccl = cuda->nccl_calls != before;
    return SPMD_OK;
}
