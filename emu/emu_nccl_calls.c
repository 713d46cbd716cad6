/* NCCL's groups and its communication calls. */
#include <stdlib.h>
#include <string.h>
#include "emu/emu_nccl.h"

struct pending {
    emu_nccl_call call;
    cudaStream_t stream;
    struct pending *next;
};
struct joining {
    struct ncclComm *comm;
    const char *call;
    struct joining *next;
};
static _Thread_local struct {
    int depth;
    struct pending *calls; /* in the order of calling */
    struct joining *joining;
} group;

bool emu_nccl_defer(struct ncclComm *comm, const char *call)
{
    if (!group.depth)
        return false;
    struct joining *j = emu_alloc(sizeof *j);
    *j = (struct joining){comm, call, group.joining};
    group.joining = j;
    return true;
}

/* --- to the stream --- */
static ncclResult_t enqueue(struct ncclComm *comm, cudaStream_t stream, const emu_work *work)
{
    int current = emu_current_device();
    emu_set_current_device(comm->device); /* as the real one: the default stream is the communicator's */
    bool wrong = emu_wrong_device(work->name, comm->device, stream);
    cudaError_t error = wrong ? cudaErrorInvalidResourceHandle : emu_enqueue_work(stream, work);
    emu_set_current_device(current);
    return wrong ? ncclInvalidArgument : error ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t enqueue_collective(const struct pending *p)
{
    emu_work work = {EMU_COLLECTIVE, emu_nccl_name(p->call.kind), emu_run_collective, &p->call,
                     sizeof p->call, &emu_collective_binding};
    return enqueue(p->call.comm, p->stream, &work);
}

static bool is_transfer(const struct pending *p)
{
    return p->call.kind == EMU_SEND || p->call.kind == EMU_RECV;
}

/* This transfer and all later ones of its communicator and stream. They leave the list. */
static ncclResult_t enqueue_transfers(struct pending *first)
{
    int n = 0;
    for (struct pending *p = first; p; p = p->next)
        n += is_transfer(p) && p->call.comm == first->call.comm && p->stream == first->stream;
    size_t size = sizeof(emu_transfers) + sizeof(emu_transfer) * (size_t)n;
    emu_transfers *all = emu_alloc(size);
    all->comm = first->call.comm;
    for (struct pending *p = first, *before = NULL; p;) {
        struct pending *next = p->next;
        bool taken = is_transfer(p) && p->call.comm == all->comm && p->stream == first->stream;
        if (taken)
            all->item[all->n++].call = p->call;
        if (taken && p != first) {
            before->next = next;
            free(p);
        } else {
            before = p;
        }
        p = next;
    }
    emu_work work = {EMU_COLLECTIVE,
                     all->n > 1 ? "ncclSend and ncclRecv" : emu_nccl_name(first->call.kind),
                     emu_run_transfers,
                     all,
                     size,
                     &emu_transfer_binding};
    ncclResult_t result = enqueue(all->comm, first->stream, &work);
    free(all);
    return result;
}

/* Everything that the group collected; the list is empty afterwards. */
static ncclResult_t enqueue_all(struct pending *calls)
{
    ncclResult_t result = ncclSuccess;
    bool in_progress = false;
    while (calls) {
        if (!result)
            result = is_transfer(calls) ? enqueue_transfers(calls) : enqueue_collective(calls);
        emu_lock();
        if (!result && emu_nccl_started(calls->call.comm) == ncclInProgress)
            in_progress = true;
        emu_unlock();
        struct pending *done = calls;
        calls = calls->next;
        free(done);
    }
    return result ? result : in_progress ? ncclInProgress : ncclSuccess;
}

static ncclResult_t check(const emu_nccl_call *call)
{
    struct ncclComm *comm = call->comm;
    ncclResult_t result = emu_nccl_usable(comm, emu_nccl_name(call->kind));
    if (result)
        return result;
    if (!emu_nccl_size(call->type) || !emu_nccl_known_op(call->op) || call->root < 0 || call->root >= comm->clique->n)
        return ncclInvalidArgument;
    size_t bytes = call->count * emu_nccl_size(call->type), offset = bytes * (size_t)comm->rank;
    const char *send = call->send, *recv = call->recv;
    bool gathers = call->kind == EMU_ALL_GATHER, scatters = call->kind == EMU_REDUCE_SCATTER;
    if ((gathers || scatters) && send && recv) { /* in place is exactly at the rank's own part */
        const char *whole = gathers ? recv : send, *part = gathers ? send : recv;
        size_t all = bytes * (size_t)comm->clique->n;
        if (part != whole + offset && part < whole + all && whole < part + bytes) {
            emu_report("nccl",
                       "%s: the buffers overlap, but not as in-place wants it: rank %d's part lies %zu bytes behind "
                       "the start of the whole",
                       emu_nccl_name(call->kind), comm->rank, offset);
            return ncclInvalidArgument;
        }
    } else if (send && recv && send != recv && send < recv + bytes && recv < send + bytes) {
        emu_report("nccl", "%s: the buffers overlap in part; they may be equal or apart", emu_nccl_name(call->kind));
        return ncclInvalidArgument;
    }
    return ncclSuccess;
}

static ncclResult_t submit(const emu_nccl_call *call, cudaStream_t stream)
{
    struct pending *p = emu_alloc(sizeof *p);
    *p = (struct pending){*call, stream, NULL};
    p->call.grouped = group.depth > 0;
    p->call.thread = pthread_self();
    emu_lock();
    ncclResult_t result = check(&p->call);
    emu_unlock();
    if (result) {
        free(p);
        return result;
    }
    if (!group.depth)
        return enqueue_all(p);
    struct pending **end = &group.calls;
    while (*end)
        end = &(*end)->next;
    *end = p;
    return ncclSuccess;
}

/* --- groups --- */
ncclResult_t ncclGroupStart(void)
{
    EMU_NCCL_ENTER(ncclGroupStart);
    group.depth++;
    return ncclSuccess;
}

static ncclResult_t finish_joining(void)
{
    ncclResult_t result = ncclSuccess;
    emu_lock();
    while (group.joining) {
        struct joining *j = group.joining;
        ncclResult_t one = j->comm->blocking ? emu_nccl_complete(j->comm, j->call) : ncclInProgress;
        result = result ? result : one;
        group.joining = j->next;
        free(j);
    }
    emu_unlock();
    return result;
}

ncclResult_t ncclGroupEnd(void)
{
    int ordered;
    bool over = emu_enter(EMU_API_ncclGroupEnd, &ordered);
    if (!group.depth)
        return ncclInvalidUsage;
    if (--group.depth)
        return (ncclResult_t)ordered;
    ncclResult_t joined = finish_joining();
    struct pending *calls = group.calls;
    group.calls = NULL;
    while (over && calls) { /* a failed group has done nothing */
        struct pending *gone = calls;
        calls = calls->next;
        free(gone);
    }
    ncclResult_t result = enqueue_all(calls);
    return ordered ? (ncclResult_t)ordered : joined ? joined : result;
}

/* --- calls --- */
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclAllReduce);
    emu_nccl_call call = {EMU_ALL_REDUCE, comm, send, recv, count, type, op, 0, false, 0};
    return submit(&call, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclAllGather);
    emu_nccl_call call = {EMU_ALL_GATHER, comm, send, recv, count, type, ncclSum, 0, false, 0};
    return submit(&call, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclReduceScatter);
    emu_nccl_call call = {EMU_REDUCE_SCATTER, comm, send, recv, count, type, op, 0, false, 0};
    return submit(&call, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclBroadcast);
    emu_nccl_call call = {EMU_BROADCAST, comm, send, recv, count, type, ncclSum, root, false, 0};
    return submit(&call, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclReduce);
    emu_nccl_call call = {EMU_REDUCE, comm, send, recv, count, type, op, root, false, 0};
    return submit(&call, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclSend);
    emu_nccl_call call = {EMU_SEND, comm, send, NULL, count, type, ncclSum, peer, false, 0};
    return submit(&call, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    EMU_NCCL_ENTER(ncclRecv);
    emu_nccl_call call = {EMU_RECV, comm, NULL, recv, count, type, ncclSum, peer, false, 0};
    return submit(&call, stream);
}

/* --- the rest of the library --- */
ncclResult_t ncclGetVersion(int *version)
{
    EMU_NCCL_ENTER(ncclGetVersion);
    if (!version)
        return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)result < sizeof texts / sizeof texts[0] ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return emu_report_text("nccl");
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
    EMU_NCCL_ENTER(ncclCommRegister);
    char *start;
    size_t length;
    if (!comm || !buffer || !size || !handle)
        return ncclInvalidArgument;
    emu_lock();
    bool inside = emu_memory_find(buffer, &start, &length) && (char *)buffer + size <= start + length;
    emu_unlock();
    if (!inside) {
        emu_report("nccl", "ncclCommRegister: %zu bytes at %p are not inside one allocation", size, buffer);
        return ncclInvalidArgument;
    }
    *handle = emu_alloc(1);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    EMU_NCCL_ENTER(ncclCommDeregister);
    free(handle);
    return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void **out, size_t size)
{
    EMU_NCCL_ENTER(ncclMemAlloc);
    if (!out)
        return ncclInvalidArgument;
    emu_lock();
    cudaError_t error = emu_memory_new(emu_current_device(), size, "ncclMemAlloc", out);
    emu_unlock();
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclMemFree(void *p)
{
    EMU_NCCL_ENTER(ncclMemFree);
    return cudaFree(p) ? ncclUnhandledCudaError : ncclSuccess;
}
