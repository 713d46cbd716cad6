/* NCCL communicators: made, split, aborted, destroyed. They are never freed: a use after the end can be reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_nccl.h"

emu_clique *emu_cliques;
static emu_clique *ended; /* kept: communicators point there */
static int ncliques;
static uint64_t ids;

static emu_clique *new_clique(int n)
{
    emu_clique *clique = emu_alloc(sizeof *clique);
    clique->n = n;
    clique->number = ncliques++;
    clique->comms = emu_alloc(sizeof *clique->comms * (size_t)n);
    clique->next = emu_cliques;
    emu_cliques = clique;
    return clique;
}

static void check_devices(emu_clique *clique)
{
    for (int a = 0; a < clique->n; a++)
        for (int b = a + 1; b < clique->n; b++)
            if (clique->comms[a]->device == clique->comms[b]->device && !clique->failed) {
                emu_report("nccl",
                           "Duplicate GPU detected: ranks %d and %d of communicator %d are both on device %d; NCCL "
                           "wants a device for each rank",
                           a, b, clique->number, clique->comms[a]->device);
                clique->failed = ncclInvalidUsage;
            }
}

static void join(emu_clique *clique, struct ncclComm *comm, int rank)
{
    comm->clique = clique;
    comm->rank = rank;
    clique->comms[rank] = comm;
    if (++clique->joined == clique->n)
        check_devices(clique);
    emu_wake_host();
}

static struct ncclComm *new_comm(int device, bool blocking)
{
    struct ncclComm *comm = emu_alloc(sizeof *comm);
    comm->device = device;
    comm->blocking = blocking;
    emu_born(EMU_NCCL_COMM);
    return comm;
}

static bool is_complete(const struct ncclComm *comm)
{
    return comm->clique && comm->clique->joined == comm->clique->n;
}

static ncclResult_t state(const struct ncclComm *comm)
{
    if (comm->failed)
        return comm->failed;
    if (!is_complete(comm))
        return ncclInProgress;
    return comm->clique->failed;
}

ncclResult_t emu_nccl_complete(struct ncclComm *comm, const char *call)
{
    double deadline = emu_seconds() + emu_settings.timeout;
    while (!is_complete(comm) && emu_wait_host(deadline))
        ;
    if (is_complete(comm))
        return state(comm);
    emu_report("hang",
               "%s on device %d: %d of %d ranks came in %.1f s; every rank must call it, from a thread of its own or "
               "inside of one group",
               call, comm->device, comm->clique ? comm->clique->joined : 0, comm->clique ? comm->clique->n : 0,
               emu_settings.timeout);
    comm->failed = ncclSystemError;
    return comm->failed;
}

ncclResult_t emu_nccl_usable(struct ncclComm *comm, const char *call)
{
    if (!comm)
        return ncclInvalidArgument;
    if (comm->destroyed || comm->finalized) {
        emu_report("nccl", "%s on a communicator that was %s; destroy it after its last use", call,
                   comm->aborted     ? "aborted"
                   : comm->destroyed ? "destroyed"
                                     : "finalized");
        return ncclInvalidUsage;
    }
    ncclResult_t now = state(comm);
    if (now == ncclInProgress || comm->polls) {
        emu_report("nccl",
                   "%s before the last call on this communicator had ended; it does not block: call "
                   "ncclCommGetAsyncError until it no longer answers ncclInProgress",
                   call);
        return ncclInvalidArgument;
    }
    return now;
}

ncclResult_t emu_nccl_started(struct ncclComm *comm)
{
    if (comm->blocking)
        return ncclSuccess;
    comm->polls = 1 + (int)(emu_hash(emu_settings.seed, (unsigned)comm->seq, (unsigned)comm->rank) % 3);
    return ncclInProgress;
}

static bool wants_blocking(const ncclConfig_t *config, bool otherwise)
{
    return config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking != 0 : otherwise;
}

static bool good_config(const ncclConfig_t *config)
{
    static const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
    return !config || (config->magic == fresh.magic && config->size == fresh.size);
}

static void bury(emu_clique *clique)
{
    for (int r = 0; r < clique->n; r++)
        if (!clique->comms[r] || !clique->comms[r]->destroyed)
            return;
    emu_clique **at = &emu_cliques;
    while (*at != clique)
        at = &(*at)->next;
    *at = clique->next;
    clique->next = ended;
    ended = clique;
}

static void end(struct ncclComm *comm)
{
    comm->destroyed = true;
    if (comm->clique)
        bury(comm->clique);
    emu_op_drop(comm->last);
    comm->last = NULL;
    emu_died(EMU_NCCL_COMM);
}

/* --- making --- */
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    EMU_NCCL_ENTER(ncclGetUniqueId);
    if (!id)
        return ncclInvalidArgument;
    memset(id, 0, sizeof *id);
    emu_lock();
    snprintf(id->internal, sizeof id->internal, "emulated %llu", (unsigned long long)++ids);
    emu_unlock();
    return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t *out, int n, const ncclUniqueId *id, int rank, const ncclConfig_t *config,
                              const char *call)
{
    if (!out || n < 1 || rank < 0 || rank >= n || n > EMU_MAX_DEVICES || !good_config(config))
        return ncclInvalidArgument;
    if (emu_capture_forbids(call))
        return ncclUnhandledCudaError;
    emu_lock();
    emu_clique *clique = emu_cliques;
    while (clique && (memcmp(clique->id, id->internal, sizeof clique->id) || !clique->id[0]))
        clique = clique->next;
    if (!clique) {
        clique = new_clique(n);
        memcpy(clique->id, id->internal, sizeof clique->id);
    }
    ncclResult_t result = ncclInvalidArgument;
    if (clique->n == n && !clique->comms[rank]) {
        struct ncclComm *comm = *out = new_comm(emu_current_device(), wants_blocking(config, true));
        join(clique, comm, rank);
        if (emu_nccl_defer(comm, call))
            result = ncclSuccess;
        else
            result = comm->blocking ? emu_nccl_complete(comm, call) : ncclInProgress;
    } else {
        emu_report("nccl", "%s: rank %d of %d joins a communicator of %d ranks%s", call, rank, n, clique->n,
                   clique->n == n ? ", where this rank is taken" : "");
    }
    emu_unlock();
    return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    EMU_NCCL_ENTER(ncclCommInitRank);
    return init_rank(out, n, &id, rank, NULL, "ncclCommInitRank");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    EMU_NCCL_ENTER(ncclCommInitRankConfig);
    return init_rank(out, n, &id, rank, config, "ncclCommInitRankConfig");
}

ncclResult_t ncclCommInitAll(ncclComm_t *out, int n, const int *devices)
{
    EMU_NCCL_ENTER(ncclCommInitAll);
    if (!out || n < 1 || n > EMU_MAX_DEVICES)
        return ncclInvalidArgument;
    for (int i = 0; i < n; i++)
        if (!emu_valid_device(devices ? devices[i] : i))
            return ncclInvalidArgument;
    if (emu_capture_forbids("ncclCommInitAll"))
        return ncclUnhandledCudaError;
    emu_lock();
    emu_clique *clique = new_clique(n);
    for (int i = 0; i < n; i++) {
        out[i] = new_comm(devices ? devices[i] : i, true);
        join(clique, out[i], i);
    }
    ncclResult_t result = clique->failed;
    for (int i = 0; i < n && result; i++) {
        end(out[i]);
        out[i] = NULL;
    }
    emu_unlock();
    return result;
}

/* All ranks have called: every color becomes a clique, ranks in the order of keys. */
static void split_now(emu_clique *parent)
{
    for (int a = 0; a < parent->n; a++) {
        struct ncclComm *first = parent->comms[a];
        if (!first->split || first->split->clique)
            continue;
        int members[EMU_MAX_DEVICES], n = 0;
        for (int b = 0; b < parent->n; b++)
            if (parent->comms[b]->split && parent->comms[b]->split_color == first->split_color)
                members[n++] = b;
        emu_clique *clique = new_clique(n);
        for (int i = 0; i < n; i++) {
            const struct ncclComm *comm = parent->comms[members[i]];
            int rank = 0;
            for (int k = 0; k < n; k++) {
                int key = parent->comms[members[k]]->split_key;
                rank += key < comm->split_key || (key == comm->split_key && k < i);
            }
            join(clique, comm->split, rank);
        }
    }
    for (int a = 0; a < parent->n; a++) {
        parent->comms[a]->split = NULL;
        parent->comms[a]->split_called = false;
    }
    emu_wake_host();
}

static ncclResult_t split(struct ncclComm *comm, int color, int key, ncclComm_t *out, const ncclConfig_t *config)
{
    emu_clique *parent = comm->clique;
    *out = color == NCCL_SPLIT_NOCOLOR ? NULL : new_comm(comm->device, wants_blocking(config, comm->blocking));
    comm->split = *out;
    comm->split_color = color;
    comm->split_key = key;
    comm->split_called = true;
    bool all = true;
    for (int r = 0; r < parent->n; r++)
        all = all && parent->comms[r]->split_called;
    if (all)
        split_now(parent);
    if (!*out || emu_nccl_defer(*out, "ncclCommSplit"))
        return ncclSuccess;
    return comm->blocking ? emu_nccl_complete(*out, "ncclCommSplit") : emu_nccl_started(comm);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    EMU_NCCL_ENTER(ncclCommSplit);
    if (!out || (color < 0 && color != NCCL_SPLIT_NOCOLOR) || !good_config(config))
        return ncclInvalidArgument;
    if (emu_capture_forbids("ncclCommSplit"))
        return ncclUnhandledCudaError;
    emu_lock();
    ncclResult_t result = emu_nccl_usable(comm, "ncclCommSplit");
    if (!result)
        result = split(comm, color, key, out, config);
    emu_unlock();
    return result;
}

/* --- ending --- */
static ncclResult_t quiesce(struct ncclComm *comm, const char *call)
{
    emu_op *last = comm->last;
    if (!last)
        return ncclSuccess;
    emu_op_keep(last);
    cudaError_t error = emu_wait(last, call);
    emu_op_drop(last);
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    EMU_NCCL_ENTER(ncclCommFinalize);
    emu_lock();
    ncclResult_t result = emu_nccl_usable(comm, "ncclCommFinalize");
    if (!result) {
        result = quiesce(comm, "ncclCommFinalize");
        comm->finalized = true;
        if (!result)
            result = emu_nccl_started(comm);
    }
    emu_unlock();
    return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    EMU_NCCL_ENTER(ncclCommDestroy);
    if (!comm)
        return ncclSuccess;
    emu_lock();
    ncclResult_t result = ncclSuccess;
    if (comm->destroyed) {
        emu_report("nccl", "ncclCommDestroy of a communicator that was %s before",
                   comm->aborted ? "aborted" : "destroyed");
        result = ncclInvalidArgument;
    } else {
        result = quiesce(comm, "ncclCommDestroy");
        end(comm);
    }
    emu_unlock();
    return result;
}

/* Frees this rank only, as the real one: the others wait until they are aborted, too. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    EMU_NCCL_ENTER(ncclCommAbort);
    if (!comm)
        return ncclSuccess;
    emu_lock();
    bool twice = comm->destroyed;
    if (!twice) {
        comm->aborted = true;
        emu_nccl_leave_meetings(comm);
        emu_nccl_leave_transfers(comm);
        end(comm);
        emu_wake_host();
    }
    emu_unlock();
    if (twice)
        emu_report("nccl", "ncclCommAbort of a communicator that has ended before");
    return twice ? ncclInvalidArgument : ncclSuccess;
}

/* --- questions --- */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    EMU_NCCL_ENTER(ncclCommGetAsyncError);
    if (!comm || !result)
        return ncclInvalidArgument;
    emu_lock();
    *result = state(comm);
    if (!*result && comm->polls) {
        comm->polls--;
        *result = ncclInProgress;
    }
    emu_unlock();
    if (*result == ncclInProgress)
        emu_yield();
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    EMU_NCCL_ENTER(ncclCommCount);
    if (!comm || !count || !comm->clique)
        return ncclInvalidArgument;
    *count = comm->clique->n;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    EMU_NCCL_ENTER(ncclCommCuDevice);
    if (!comm || !device)
        return ncclInvalidArgument;
    *device = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    EMU_NCCL_ENTER(ncclCommUserRank);
    if (!comm || !rank || !comm->clique)
        return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
}
