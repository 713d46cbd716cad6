/* NCCL communicators: one for every axis of the mesh and one for all axes, made with the mesh, each used by its
 * device's thread only. They do not block, so that a wait can be given up; after a failure they are aborted and made
 * anew.
 *
 * NCCL refuses two ranks on one GPU; meshes whose shards share GPUs have no communicators and use peer memory alone. */
#include "spmd/cuda/cuda_comms.h"
#include "spmd/host/futex.h"
#include "spmd/host/meet.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

spmd_status spmd__nccl_check(ncclResult_t result, const char *what)
{
    SPMD_CHECK(result == ncclSuccess || result == ncclInProgress, SPMD_ECUDA, "%s: NCCL: %s (%s)", what,
               ncclGetErrorString(result), ncclGetLastError(NULL));
    return SPMD_OK;
}

/* What the environment asks for. */
static spmd_status wanted_transport(spmd_cuda_transport *out)
{
    static const char *const names[] = {"auto", "p2p", "nccl", "copy"};
    const char *text = getenv("SPMD_CUDA_TRANSPORT");
    for (int k = 0; k < 4; k++)
        if (!strcmp(text ? text : "auto", names[k])) {
            *out = (spmd_cuda_transport)k;
            return SPMD_OK;
        }
    return SPMD_FAIL(SPMD_EINVAL, "SPMD_CUDA_TRANSPORT='%s': expected auto, p2p, nccl or copy", text);
}

static bool wanted(const spmd_mesh *mesh, unsigned mask)
{
    unsigned all = (1u << mesh->naxes) - 1;
    return spmd__mask_size(mesh, mask) > 1 && (mask == all || !(mask & (mask - 1)));
}

static spmd_status wait_until_made(const spmd_mesh *mesh, ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    int64_t start = spmd__now_ms();
    while (state == ncclInProgress) {
        SPMD_TRY(spmd__nccl_check(ncclCommGetAsyncError(comm, &state), "making a communicator"));
        SPMD_CHECK(state != ncclInProgress || !mesh->timeout_ms || spmd__now_ms() - start < mesh->timeout_ms,
                   SPMD_ETIMEOUT, "a communicator was not made in %d ms (bound: SPMD_TIMEOUT_MS)", mesh->timeout_ms);
        sched_yield();
    }
    return spmd__nccl_check(state, "making a communicator");
}

/* The communicator of the devices that differ from `first` only along the axes of the mask. */
static spmd_status make_group(spmd_mesh *mesh, int first, unsigned mask)
{
    ncclUniqueId id;
    spmd_axes axes;
    spmd_group group;
    spmd__mask_axes(mask, &axes);
    spmd__find_group(&mesh->devices[first].ctx, &axes, &group);
    SPMD_TRY(spmd__nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId"));
    SPMD_TRY(spmd__nccl_check(ncclGroupStart(), "ncclGroupStart"));
    spmd_status status = SPMD_OK;
    for (int k = 0; k < group.n && status == SPMD_OK; k++) {
        spmd_cuda_device *cuda = spmd__cuda_of(&mesh->devices[group.device[k]]);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        status = spmd__cuda_check(cudaSetDevice(cuda->gpu), "cudaSetDevice");
        if (status == SPMD_OK)
            status = spmd__nccl_check(ncclCommInitRankConfig(&cuda->comm[mask], group.n, id, k, &config),
                                      "ncclCommInitRankConfig");
    }
    spmd_status ended = spmd__nccl_check(ncclGroupEnd(), "ncclGroupEnd");
    SPMD_TRY(status);
    SPMD_TRY(ended);
    for (int k = 0; k < group.n; k++)
        SPMD_TRY(wait_until_made(mesh, spmd__cuda_of(&mesh->devices[group.device[k]])->comm[mask]));
    return SPMD_OK;
}

static spmd_status make_all(spmd_mesh *mesh)
{
    for (unsigned mask = 1; mask < 1u << mesh->naxes; mask++)
        for (int d = 0; wanted(mesh, mask) && d < mesh->ndevices; d++) {
            bool first = true; /* of its group: no coordinate along the mask */
            for (int a = 0; a < mesh->naxes; a++)
                first &= !(mask >> a & 1) || mesh->devices[d].ctx.coord[a] == 0;
            if (first)
                SPMD_TRY(make_group(mesh, d, mask));
        }
    return SPMD_OK;
}

static void end_comms(spmd_device *device, ncclResult_t (*end)(ncclComm_t))
{
    spmd_cuda_device *cuda = spmd__cuda_of(device);
    spmd__cuda_drop_graphs(cuda); /* a communicator waits for those that hold it */
    for (int mask = 0; mask < 1 << SPMD_MAX_AXES; mask++) {
        if (cuda->comm[mask])
            (void)end(cuda->comm[mask]);
        cuda->comm[mask] = NULL;
    }
}

void spmd__cuda_abort(spmd_device *device)
{
    end_comms(device, ncclCommAbort);
}

void spmd__cuda_disconnect(spmd_device *device)
{
    end_comms(device, ncclCommDestroy);
}

static bool all_reachable(const spmd_mesh *mesh)
{
    for (int d = 0; d < mesh->ndevices; d++)
        for (int other = 0; other < mesh->ndevices; other++)
            if (!(spmd__cuda_of(&mesh->devices[d])->reach >> other & 1))
                return false;
    return true;
}

static bool share_gpus(const spmd_mesh *mesh)
{
    return mesh->ndevices > ((const spmd_cuda_mesh *)mesh->backend_state)->gpus;
}

/* Have all devices all communicators, without an error? */
static bool complete(const spmd_mesh *mesh)
{
    for (int d = 0; d < mesh->ndevices; d++)
        for (unsigned mask = 1; mask < 1u << mesh->naxes; mask++) {
            ncclComm_t comm = spmd__cuda_of(&mesh->devices[d])->comm[mask];
            ncclResult_t state = ncclSuccess;
            if (wanted(mesh, mask) && (!comm || ncclCommGetAsyncError(comm, &state) || state != ncclSuccess))
                return false;
        }
    return true;
}

spmd_status spmd__cuda_connect(spmd_mesh *mesh)
{
    spmd_cuda_mesh *state = mesh->backend_state;
    SPMD_TRY(wanted_transport(&state->transport));
    state->copies = state->transport == SPMD_CUDA_COPY || !all_reachable(mesh);
    SPMD_CHECK(state->transport != SPMD_CUDA_NCCL || !share_gpus(mesh), SPMD_EUNSUPPORTED,
               "SPMD_CUDA_TRANSPORT=nccl: NCCL wants a GPU a shard, but %d shards share %d; use p2p", mesh->ndevices,
               state->gpus);
    if (state->transport == SPMD_CUDA_P2P || state->transport == SPMD_CUDA_COPY || share_gpus(mesh) || complete(mesh))
        return SPMD_OK;
    int before = 0;
    for (int d = 0; d < mesh->ndevices; d++)
        spmd__cuda_abort(&mesh->devices[d]); /* all, before any is made again */
    (void)cudaGetDevice(&before);
    spmd_status status = make_all(mesh);
    (void)cudaSetDevice(before);
    if (status == SPMD_OK)
        return SPMD_OK;
    for (int d = 0; d < mesh->ndevices; d++)
        spmd__cuda_abort(&mesh->devices[d]);
    if (state->transport == SPMD_CUDA_NCCL)
        return status;
    spmd__log(mesh, "nccl", "backend cuda: collectives go without NCCL: %s", spmd_last_error());
    return SPMD_OK;
}

/* What kernels noted, when they are done. */
static spmd_status noted(spmd_cuda_device *cuda)
{
    const spmd_cuda_note note = *cuda->note;
    *cuda->note = (spmd_cuda_note){0};
    return note.taken ? SPMD_FAIL(SPMD_EINVAL, note.text, note.value, note.position, note.last, note.size) : SPMD_OK;
}

spmd_status spmd__nccl_enqueued(spmd_ctx *ctx, ncclComm_t comm, ncclResult_t result, const char *what)
{
    spmd_mesh *mesh = ctx->mesh;
    int64_t start = spmd__now_ms();
    while (result == ncclInProgress) {
        SPMD_TRY(spmd__nccl_check(ncclCommGetAsyncError(comm, &result), what));
        if (result != ncclInProgress)
            break;
        SPMD_CHECK(atomic_load(&mesh->fate) != SPMD_FATE_POISONED, SPMD_EABORTED, "another shard failed first");
        SPMD_CHECK(!mesh->timeout_ms || spmd__now_ms() - start < mesh->timeout_ms, SPMD_ETIMEOUT,
                   "%s was not enqueued in %d ms (bound: SPMD_TIMEOUT_MS)", what, mesh->timeout_ms);
        sched_yield();
    }
    return spmd__nccl_check(result, what);
}

/* Is what the shard has put on its streams done? */
static cudaError_t query(const spmd_cuda_device *cuda)
{
    cudaError_t error = cudaStreamQuery(cuda->compute);
    return error == cudaSuccess && cuda->beside ? cudaStreamQuery(cuda->second) : error;
}

static cudaError_t synchronize(spmd_cuda_device *cuda)
{
    cudaError_t error = cudaStreamSynchronize(cuda->compute);
    cudaError_t second = cuda->beside ? cudaStreamSynchronize(cuda->second) : cudaSuccess;
    cuda->beside = false;
    return error != cudaSuccess ? error : second;
}

/* A collective of NCCL ends only if all its ranks take part, so the wait looks around. */
spmd_status spmd__cuda_wait(spmd_ctx *ctx)
{
    spmd_cuda_device *cuda = spmd__cuda_of(ctx->device);
    spmd_mesh *mesh = ctx->mesh;
    int64_t start = spmd__now_ms();
    cudaError_t error = cudaSuccess;
    while (cuda->collective && (error = query(cuda)) == cudaErrorNotReady) {
        bool late = mesh->timeout_ms && spmd__now_ms() - start > mesh->timeout_ms;
        if (!late && atomic_load(&mesh->fate) != SPMD_FATE_POISONED) {
            sched_yield();
            continue;
        }
        spmd__cuda_abort(ctx->device);
        cuda->collective = false;
        (void)synchronize(cuda);
        (void)noted(cuda);
        SPMD_CHECK(!late, SPMD_ETIMEOUT, "a collective did not end in %d ms (bound: SPMD_TIMEOUT_MS)",
                   mesh->timeout_ms);
        return SPMD_FAIL(SPMD_EABORTED, "another shard failed first");
    }
    cuda->collective = false;
    if (error != cudaSuccess) /* what is on the stream may wait for a peer for ever */
        spmd__cuda_abort(ctx->device);
    cudaError_t waited = synchronize(cuda);
    SPMD_TRY(spmd__cuda_check(error != cudaSuccess ? error : waited, "the shard's stream"));
    return noted(cuda);
}
