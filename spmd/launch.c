/* A launch: the caller wakes the device threads, waits with a bound, and collects the first failure. */
#include "spmd/auto_map.h"
#include "spmd/program.h"
#include "spmd/host/futex.h"
#include "spmd/host/meet_private.h"
#include "spmd/host/pin.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { NAP_MS = 100, YIELDS = 200, PAUSES = 16 };

void spmd__poison(spmd_mesh *mesh, spmd_status status, const char *text)
{
    pthread_mutex_lock(&mesh->failure_lock);
    bool first = atomic_load(&mesh->fate) == SPMD_FATE_OPEN;
    if (first) {
        mesh->failure = status;
        snprintf(mesh->failure_text, sizeof mesh->failure_text, "%s", text);
        atomic_store(&mesh->fate, SPMD_FATE_POISONED);
    }
    pthread_mutex_unlock(&mesh->failure_lock);
    if (first)
        spmd__meetings_wake(mesh);
}

spmd_status spmd__spoil(spmd_mesh *mesh, spmd_status status)
{
    if (status == SPMD_OK)
        return SPMD_OK;
    pthread_mutex_lock(&mesh->failure_lock);
    if (mesh->spoiled == SPMD_OK) {
        mesh->spoiled = status;
        snprintf(mesh->failure_text, sizeof mesh->failure_text, "%s", spmd_last_error());
    }
    pthread_mutex_unlock(&mesh->failure_lock);
    return status;
}

bool spmd__commit(spmd_mesh *mesh, bool all_succeeded)
{
    pthread_mutex_lock(&mesh->failure_lock);
    if (all_succeeded && atomic_load(&mesh->fate) == SPMD_FATE_OPEN)
        atomic_store(&mesh->fate, SPMD_FATE_COMMITTED);
    bool committed = atomic_load(&mesh->fate) == SPMD_FATE_COMMITTED;
    pthread_mutex_unlock(&mesh->failure_lock);
    return committed;
}

/* "shard 2 (data=2, model=0)" */
static void describe(const spmd_ctx *ctx, char *text, size_t size)
{
    const spmd_mesh *mesh = ctx->mesh;
    size_t used = (size_t)snprintf(text, size, "shard %d (", ctx->id);
    for (int a = 0; a < mesh->naxes && used < size; a++)
        used += (size_t)snprintf(text + used, size - used, "%s%s=%d", a ? ", " : "", mesh->name[a], ctx->coord[a]);
    if (used < size)
        snprintf(text + used, size - used, ")");
}

void spmd__enter_shard(spmd_ctx *ctx)
{
    char where[96];
    describe(ctx, where, sizeof where);
    spmd__error_set_where(where);
}

static void run(spmd_device *device)
{
    spmd__enter_shard(&device->ctx);
    device->ctx.thread = pthread_self();
    spmd_status status = spmd__run_shard(&device->ctx);
    if (status != SPMD_OK)
        spmd__poison(device->mesh, status, spmd_last_error());
    spmd__error_set_where(NULL);
}

/* Launches in a row: a thread that stays awake for some 100 us between them saves both ways of the futex. It yields all
 * the time, because the caller, who prepares the next launch, has no core of its own. */
static void wait_awake(spmd_mesh *mesh, uint32_t seen)
{
    int yields = mesh->ndevices <= mesh->cores ? YIELDS : 0;
    for (int i = 0; i < yields && atomic_load_explicit(&mesh->epoch, memory_order_acquire) == seen; i++) {
        for (int k = 0; k < PAUSES; k++)
            spmd__cpu_relax();
        sched_yield();
    }
}

void *spmd__device_main(void *argument)
{
    spmd_device *device = argument;
    spmd_mesh *mesh = device->mesh;
    const spmd_backend *backend = mesh->backend;
    spmd__pin_thread(device);
    device->opened = backend->open ? backend->open(device) : SPMD_OK;
    if (device->opened != SPMD_OK)
        spmd__poison(mesh, device->opened, spmd_last_error());
    for (uint32_t seen = 0;; seen++) {
        if (atomic_fetch_sub(&mesh->running, 1) == 1)
            spmd__futex_wake_all(&mesh->running);
        wait_awake(mesh, seen);
        while (atomic_load(&mesh->epoch) == seen)
            spmd__futex_wait(&mesh->epoch, seen, -1);
        if (atomic_load(&mesh->quit))
            break;
        run(device);
    }
    if (backend->close)
        backend->close(device);
    spmd__mesh_release(mesh);
    return NULL;
}

/* What the job points to, copied, so that a thread that never comes back reads nothing of the caller's. */
static spmd_status copy_job(spmd_mesh *mesh, const spmd_job *job)
{
    size_t in = (size_t)job->nin, out = (size_t)job->nout;
    size_t size = in * sizeof *job->in + in * sizeof *job->in_host + out * sizeof *job->out +
                  out * sizeof *job->out_specs;
    if (size > mesh->job_lists_size) {
        spmd__free(mesh->job_lists);
        mesh->job_lists_size = 0;
        mesh->job_lists = spmd__alloc(mesh, size);
        if (!mesh->job_lists)
            return SPMD_ENOMEM;
        mesh->job_lists_size = size;
    }
    spmd_array **ins = mesh->job_lists, **outs = ins + in;
    const void **hosts = (const void **)(outs + out);
    spmd_spec *specs = (spmd_spec *)(hosts + in);
    for (size_t k = 0; k < in; k++) {
        ins[k] = job->in[k];
        hosts[k] = job->in_host ? job->in_host[k] : NULL;
    }
    for (size_t k = 0; k < out; k++) {
        outs[k] = job->out[k];
        specs[k] = job->out_specs[k];
    }
    mesh->job = *job;
    mesh->job.in = ins;
    mesh->job.in_host = hosts;
    mesh->job.in_specs = NULL; /* checked; not needed any more */
    mesh->job.out = outs;
    mesh->job.out_specs = specs;
    mesh->job.stats = NULL;
    return SPMD_OK;
}

/* Output arrays that the caller left to us: empty ones, which the shards fill in. */
static spmd_status create_outputs(spmd_mesh *mesh)
{
    for (int k = 0; k < mesh->job.nout; k++) {
        if (mesh->job.out[k])
            continue;
        spmd_array *array = spmd__alloc(mesh, sizeof *array);
        if (!array)
            return SPMD_ENOMEM;
        *array = (spmd_array){.mesh = mesh, .rank = -1, .spec = mesh->job.out_specs[k]};
        mesh->job.out[k] = array;
    }
    return SPMD_OK;
}

static void destroy_outputs(spmd_mesh *mesh, const spmd_job *job)
{
    for (int k = 0; k < job->nout; k++)
        if (!job->out[k] && mesh->job.out[k])
            spmd_array_destroy(mesh->job.out[k]);
}

static int64_t progress(const spmd_mesh *mesh)
{
    int64_t ops = atomic_load(&mesh->running);
    for (int d = 0; d < mesh->ndevices; d++)
        ops += (int64_t)atomic_load_explicit(&mesh->devices[d].recorder.calls, memory_order_relaxed);
    return ops;
}

/* Waits until all threads are back. A launch in which nothing happens for the whole bound is given up, and so are
 * threads that do not come back soon after that: such a mesh is lost. */
static void wait_for_threads(spmd_mesh *mesh)
{
    int64_t last = -1, since = spmd__now_ms(), grace = mesh->timeout_ms / 4 < 5000 ? mesh->timeout_ms / 4 + 200 : 5000;
    bool given_up = false;
    for (uint32_t running; (running = atomic_load(&mesh->running)) != 0;) {
        spmd__futex_wait(&mesh->running, running, NAP_MS);
        int64_t now = spmd__now_ms(), done = progress(mesh);
        if (done != last) {
            last = done;
            since = now;
        }
        if (!mesh->timeout_ms || now - since < (given_up ? grace : mesh->timeout_ms))
            continue;
        if (given_up) {
            atomic_store(&mesh->lost, true);
            return;
        }
        char text[SPMD_ERROR_SIZE / 2];
        spmd__describe_shards(mesh, text, sizeof text);
        SPMD_FAIL(SPMD_ETIMEOUT, "no shard did anything for %d ms: %s (bound: SPMD_TIMEOUT_MS)", mesh->timeout_ms,
                  text);
        spmd__poison(mesh, SPMD_ETIMEOUT, spmd_last_error());
        given_up = true;
        since = now;
    }
}

static void collect_stats(const spmd_mesh *mesh, spmd_stats *stats)
{
    if (!stats)
        return;
    *stats = mesh->devices[0].stats;
    stats->ops = (int64_t)atomic_load(&mesh->devices[0].recorder.calls);
    stats->warnings = atomic_load(&mesh->warnings);
    for (int d = 0; d < mesh->ndevices; d++)
        if ((int64_t)(mesh->devices[d].arena.used + mesh->devices[d].data.used) > stats->arena_bytes)
            stats->arena_bytes = (int64_t)(mesh->devices[d].arena.used + mesh->devices[d].data.used);
}

/* The first failure's status and text; the text says so if arrays of the caller's have been written already. */
static spmd_status take_failure(spmd_mesh *mesh, const spmd_job *job)
{
    bool given = false;
    for (int k = 0; k < job->nout; k++)
        given |= job->out[k] != NULL;
    bool written = atomic_load(&mesh->updating) || mesh->spoiled != SPMD_OK;
    char text[SPMD_ERROR_SIZE + 64];
    pthread_mutex_lock(&mesh->failure_lock);
    spmd_status status = mesh->spoiled != SPMD_OK ? mesh->spoiled : mesh->failure;
    snprintf(text, sizeof text, "%s%s", given && written ? "output arrays are now undefined: " : "",
             mesh->failure_text);
    pthread_mutex_unlock(&mesh->failure_lock);
    spmd__error_copy(text);
    return status;
}

static spmd_status launch(spmd_mesh *mesh, const spmd_job *job, bool automatic)
{
    SPMD_TRY(copy_job(mesh, job));
    if (mesh->failed_before && mesh->backend->connect)
        SPMD_TRY(mesh->backend->connect(mesh));
    spmd_status status = create_outputs(mesh);
    mesh->automatic = automatic;
    mesh->jit_entry = job->jit ? spmd__jit_entry(job, automatic) : NULL;
    if (job->jit && !mesh->jit_entry)
        status = SPMD_ENOMEM;
    bool recording = mesh->jit_entry && !mesh->jit_entry->program[0];
    if (status == SPMD_OK) {
        if (mesh->failed_before)
            spmd__meetings_reset(mesh);
        atomic_store(&mesh->fate, SPMD_FATE_OPEN);
        atomic_store(&mesh->warnings, 0);
        atomic_store(&mesh->updating, false);
        mesh->spoiled = SPMD_OK;
        mesh->launches++;
        if (mesh->backend->hostile)
            spmd__log(mesh, "seed", "host-strict: SPMD_SEED=%llu", (unsigned long long)mesh->seed);
        atomic_store(&mesh->running, (uint32_t)mesh->ndevices);
        atomic_fetch_add(&mesh->epoch, 1);
        spmd__futex_wake_all(&mesh->epoch);
        wait_for_threads(mesh);
        mesh->failed_before = atomic_load(&mesh->fate) != SPMD_FATE_COMMITTED || mesh->spoiled != SPMD_OK;
        if (mesh->failed_before) {
            if (mesh->failure == SPMD_ETIMEOUT)
                spmd__recorder_print(mesh);
            status = take_failure(mesh, job);
        }
    }
    if (!atomic_load(&mesh->lost)) /* else the shards' records belong to a thread that still runs */
        collect_stats(mesh, job->stats);
    if (status != SPMD_OK)
        destroy_outputs(mesh, job);
    if (status != SPMD_OK && recording && !atomic_load(&mesh->lost))
        spmd__jit_forget(job->jit, mesh->jit_entry);
    if (status == SPMD_OK && job->nout)
        memcpy(job->out, mesh->job.out, (size_t)job->nout * sizeof *job->out);
    return status;
}

static spmd_status map(const char *name, const spmd_job *job, bool automatic)
{
    SPMD_CHECK(job && job->mesh && job->fn, SPMD_EINVAL, "%s: job, job->mesh and job->fn must not be NULL", name);
    spmd_mesh *mesh = job->mesh;
    SPMD_CHECK(!job->jit || job->jit->mesh == mesh, SPMD_EINVAL, "%s: job->jit was created for another mesh", name);
    SPMD_CHECK(!job->profile || spmd__profile_is_of(job->profile, mesh), SPMD_EINVAL,
               "%s: job->profile was created for another mesh", name);
    SPMD_CHECK(!spmd__error_in_shard(), SPMD_EINVAL, "%s inside a shard function: launches do not nest", name);
    SPMD_CHECK(mesh->pid == getpid(), SPMD_EFORK,
               "the mesh was created by process %ld, this is its child %ld: create it after the fork (with Check: in a "
               "checked fixture, or set CK_FORK=no)",
               (long)mesh->pid, (long)getpid());
    SPMD_CHECK(!atomic_load(&mesh->lost), SPMD_EMESHLOST,
               "a thread of this mesh never came back from an earlier launch: destroy the mesh and create another");
    bool idle = false;
    SPMD_CHECK(atomic_compare_exchange_strong(&mesh->busy, &idle, true), SPMD_EBUSY,
               "the mesh is already running a launch: one at a time; use another mesh");
    spmd_status status = spmd__job_check(job);
    if (status == SPMD_OK)
        status = launch(mesh, job, automatic);
    atomic_store(&mesh->busy, false);
    return status;
}

spmd_status spmd_shard_map(const spmd_job *job)
{
    return map("spmd_shard_map", job, false);
}

spmd_status spmd_auto_map(const spmd_job *job)
{
    return map("spmd_auto_map", job, true);
}
