/* Collectives: the op of every rank waits at the head of its stream; the last one to arrive does the work for all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_nccl.h"

const char *emu_nccl_name(emu_nccl_kind kind)
{
    static const char *const names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast",
                                        "ncclReduce",    "ncclSend",      "ncclRecv"};
    return names[kind];
}

static emu_meeting_place *find_meeting(emu_clique *clique, uint64_t seq)
{
    for (emu_meeting_place *m = clique->meetings; m; m = m->next)
        if (m->seq == seq)
            return m;
    emu_meeting_place *m = emu_alloc(sizeof *m);
    m->seq = seq;
    m->ops = emu_alloc(sizeof *m->ops * (size_t)clique->n);
    m->threads = emu_alloc(sizeof *m->threads * (size_t)clique->n);
    m->grouped = emu_alloc(sizeof *m->grouped * (size_t)clique->n);
    m->order = emu_alloc(sizeof *m->order * (size_t)clique->n);
    m->next = clique->meetings;
    clique->meetings = m;
    return m;
}

/* Keeps the newest, for emu_nccl_check_order. */
static void close_meeting(emu_clique *clique, emu_meeting_place *m)
{
    enum { KEPT = 8 };
    emu_meeting_place **at = &clique->meetings;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    m->next = clique->past;
    clique->past = m;
    at = &clique->past;
    for (int i = 0; i < KEPT && *at; i++)
        at = &(*at)->next;
    m = *at;
    *at = NULL;
    if (!m)
        return;
    free(m->ops);
    free(m->threads);
    free(m->grouped);
    free(m->order);
    free(m);
}

static void signature(const emu_nccl_call *call, char *text, size_t size)
{
    static const char *const types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                        "uint64", "float16", "float32", "float64", "bfloat16"};
    static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
    int used = snprintf(text, size, "%s(%zu x %s", emu_nccl_name(call->kind), call->count, types[call->type]);
    bool reduces = call->kind == EMU_ALL_REDUCE || call->kind == EMU_REDUCE_SCATTER || call->kind == EMU_REDUCE;
    bool rooted = call->kind == EMU_BROADCAST || call->kind == EMU_REDUCE;
    if (reduces)
        used += snprintf(text + used, size - (size_t)used, ", %s", ops[call->op]);
    if (rooted)
        used += snprintf(text + used, size - (size_t)used, ", root %d", call->root);
    snprintf(text + used, size - (size_t)used, ")");
}

static void check_signature(emu_clique *clique, emu_meeting_place *m, const emu_nccl_call *mine)
{
    const emu_nccl_call *theirs = m->ops[m->first]->args;
    char a[100], b[100];
    signature(mine, a, sizeof a);
    signature(theirs, b, sizeof b);
    if (!strcmp(a, b))
        return;
    m->mismatch = true;
    emu_report("nccl",
               "collective %llu of communicator %d: rank %d calls %s, rank %d calls %s; all ranks must make the "
               "same calls in the same order",
               (unsigned long long)m->seq, clique->number, mine->comm->rank, a, theirs->comm->rank, b);
    for (int r = 0; r < clique->n; r++)
        if (clique->comms[r])
            clique->comms[r]->failed = ncclInvalidUsage;
}

/* One thread must group the calls that it makes for several ranks: the first may wait for the second for ever. */
static void check_threads(const emu_clique *clique, const emu_meeting_place *m, int rank)
{
    for (int r = 0; r < clique->n; r++)
        if (r != rank && m->ops[r] && pthread_equal(m->threads[r], m->threads[rank]) &&
            !(m->grouped[r] && m->grouped[rank])) {
            emu_report("nccl",
                       "collective %llu of communicator %d: one thread called it for rank %d and for rank %d outside "
                       "of a group, which can deadlock; put ncclGroupStart and ncclGroupEnd around the calls",
                       (unsigned long long)m->seq, clique->number, r, rank);
            return;
        }
}

static void end_with_error(emu_meeting_place *m, int rank)
{
    emu_op *op = m->ops[rank];
    m->ops[rank] = NULL;
    op->error = cudaErrorLaunchFailure;
    emu_finish(op);
}

static void bind(emu_op *op)
{
    const emu_nccl_call *call = op->args;
    struct ncclComm *comm = call->comm;
    emu_clique *clique = comm->clique;
    emu_meeting_place *m = find_meeting(clique, comm->seq++);
    op->meeting = m;
    emu_op_drop(comm->last);
    comm->last = op;
    emu_op_keep(op);
    if (!m->issued++)
        m->first = comm->rank;
    m->ops[comm->rank] = op;
    m->order[comm->rank] = op->order;
    m->threads[comm->rank] = call->thread;
    m->grouped[comm->rank] = call->grouped;
    bool demanded = false;
    for (int r = 0; r < clique->n; r++)
        demanded = demanded || (m->ops[r] && m->ops[r]->demanded);
    if (m->ops[m->first] && m->first != comm->rank)
        check_signature(clique, m, call);
    check_threads(clique, m, comm->rank);
    emu_nccl_check_order(clique, m, comm->rank);
    for (int r = 0; r < clique->n && m->mismatch; r++)
        if (m->ops[r] && m->ops[r]->running)
            end_with_error(m, r);
    if (demanded)
        emu_demand(op);
}

static bool arrive(emu_op *op)
{
    const emu_nccl_call *call = op->args;
    struct ncclComm *comm = call->comm;
    emu_clique *clique = comm->clique;
    emu_meeting_place *m = op->meeting;
    if (comm->aborted || m->mismatch) {
        m->ops[comm->rank] = NULL;
        op->error = comm->aborted ? cudaSuccess : cudaErrorLaunchFailure;
        emu_finish(op);
        return false;
    }
    if (++m->arrived < clique->n)
        return false;
    for (int r = 0; r < clique->n; r++)
        if (m->ops[r] != op)
            emu_clock_join(&op->clock, &m->ops[r]->clock);
    for (int r = 0; r < clique->n; r++)
        if (m->ops[r] != op) {
            emu_clock_join(&m->ops[r]->clock, &op->clock);
            emu_check_begin(m->ops[r]);
        }
    return true;
}

static void depart(emu_op *op)
{
    const emu_nccl_call *call = op->args;
    emu_clique *clique = call->comm->clique;
    emu_meeting_place *m = op->meeting;
    emu_op *ops[EMU_MAX_DEVICES];
    int n = clique->n;
    memcpy(ops, m->ops, sizeof *ops * (size_t)n);
    close_meeting(clique, m);
    for (int r = 0; r < n; r++)
        emu_finish(ops[r]);
}

static void demand(emu_op *op)
{
    const emu_nccl_call *call = op->args;
    const emu_meeting_place *m = op->meeting;
    for (int r = 0; r < call->comm->clique->n; r++)
        if (m->ops[r] && m->ops[r] != op)
            emu_demand(m->ops[r]);
}

static int describe(const emu_op *op, char *text, size_t size)
{
    const emu_nccl_call *call = op->args;
    const emu_clique *clique = call->comm->clique;
    const emu_meeting_place *m = op->meeting;
    char what[100];
    signature(call, what, sizeof what);
    int used = snprintf(text, size, "%s, number %llu of communicator %d, rank %d", what, (unsigned long long)m->seq,
                        clique->number, call->comm->rank);
    for (int r = 0; r < clique->n; r++)
        if ((!m->order[r] || !m->ops[r]) && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, "; %s by rank %d",
                             m->order[r] ? "aborted" : "not called", r);
    return used;
}

const emu_binding emu_collective_binding = {bind, arrive, depart, demand, describe};

void emu_nccl_leave_meetings(struct ncclComm *comm)
{
    for (emu_meeting_place *m = comm->clique ? comm->clique->meetings : NULL; m; m = m->next) {
        emu_op *op = m->ops[comm->rank];
        if (op && op->running && m->arrived < comm->clique->n) {
            m->ops[comm->rank] = NULL;
            m->arrived--; /* now they can never be complete */
            emu_finish(op);
        }
    }
}

/* --- the work, without the lock: nobody else touches the ops that have arrived --- */
struct job {
    const emu_nccl_call *calls[EMU_MAX_DEVICES];
    const void *send[EMU_MAX_DEVICES];
    size_t bytes; /* of `count` elements */
    int n, start;
};

static void touch(emu_op *const *ops, const struct job *job)
{
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < job->n; r++) {
            const emu_nccl_call *call = job->calls[r];
            size_t send = job->bytes, recv = job->bytes;
            if (call->kind == EMU_ALL_GATHER)
                recv *= (size_t)job->n;
            if (call->kind == EMU_REDUCE_SCATTER)
                send *= (size_t)job->n;
            if ((call->kind == EMU_BROADCAST) & (r != call->root))
                send = 0;
            if ((call->kind == EMU_REDUCE) & (r != call->root))
                recv = 0;
            emu_use(ops[r], pass ? call->recv : call->send, pass ? recv : send, pass == 1);
        }
}

/* A ring: every piece starts its sum at another rank. */
static void all_reduce(const struct job *job, const emu_nccl_call *call, bool to_root)
{
    size_t size = emu_nccl_size(call->type), piece = (call->count + (size_t)job->n - 1) / (size_t)job->n;
    int first = to_root ? call->root : 0;
    for (int p = 0; p < job->n && (size_t)p * piece < call->count; p++) {
        size_t offset = (size_t)p * piece, count = call->count - offset < piece ? call->count - offset : piece;
        const void *in[EMU_MAX_DEVICES];
        for (int r = 0; r < job->n; r++)
            in[r] = (const char *)job->send[r] + offset * size;
        char *out = (char *)job->calls[first]->recv + offset * size;
        emu_nccl_fold(out, in, job->n, job->start + p, count, call->type, call->op);
        for (int r = 0; r < job->n && !to_root; r++)
            if (r != first)
                memcpy((char *)job->calls[r]->recv + offset * size, out, count * size);
    }
}

static void reduce_scatter(const struct job *job, const emu_nccl_call *call)
{
    for (int p = 0; p < job->n; p++) {
        const void *in[EMU_MAX_DEVICES];
        for (int r = 0; r < job->n; r++)
            in[r] = (const char *)job->send[r] + (size_t)p * job->bytes;
        emu_nccl_fold(job->calls[p]->recv, in, job->n, job->start + p, call->count, call->type, call->op);
    }
}

void emu_run_collective(emu_op *op, void *args)
{
    const emu_nccl_call *call = args;
    const emu_clique *clique = call->comm->clique;
    const emu_meeting_place *m = op->meeting;
    struct job job = {.n = clique->n, .bytes = call->count * emu_nccl_size(call->type)};
    job.start = (int)(emu_hash(emu_settings.seed, (unsigned)m->seq, 77) % (unsigned)job.n);
    for (int r = 0; r < job.n; r++) {
        job.calls[r] = m->ops[r]->args;
        job.send[r] = job.calls[r]->send;
    }
    touch(m->ops, &job);
    for (int r = 0; r < job.n; r++)
        if (m->ops[r]->error)
            return;
    switch (call->kind) {
    case EMU_ALL_REDUCE:
    case EMU_REDUCE:
        all_reduce(&job, call, call->kind == EMU_REDUCE);
        break;
    case EMU_REDUCE_SCATTER:
        reduce_scatter(&job, call);
        break;
    case EMU_ALL_GATHER:
        for (int to = 0; to < job.n; to++)
            for (int r = 0; r < job.n; r++)
                memmove((char *)job.calls[to]->recv + (size_t)r * job.bytes, job.send[r], job.bytes);
        break;
    default:
        for (int r = 0; r < job.n; r++)
            memmove(job.calls[r]->recv, job.send[call->root], job.bytes);
    }
}
