/* Streams are queues of ops. One worker thread a device runs the heads of its queues, in the order that the policy and
 * the seed choose, and (but for the early policy) only when somebody waits: a real device promises no more. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "emu/emu_runtime.h"

static const double idle_seconds = 0.2;                     /* a device runs what it has even when nobody asks */
static pthread_cond_t host_wake = PTHREAD_COND_INITIALIZER; /* of all but the waits for ops */
static unsigned issued, finished;                           /* ops so far */
static int suspended; /* spinning kernels on all devices: what they wait for may be anywhere */

/* Lanes of streams that are gone: their numbers go on, so old ops stay known as ended. */
static struct lane {
    uint32_t number, seq;
} * free_lanes;
static int nfree_lanes, free_lanes_room;
static uint32_t nlanes = 1; /* lane 0 is the host */

/* --- streams --- */
struct CUstream_st *emu_stream_new(int device, unsigned flags, int priority, bool internal)
{
    struct CUstream_st *s = emu_alloc(sizeof *s);
    s->device = device;
    s->flags = flags;
    s->priority = priority;
    s->internal = internal;
    if (nfree_lanes) {
        s->lane = free_lanes[--nfree_lanes].number;
        s->seq = free_lanes[nfree_lanes].seq;
        emu_clock_raise(&s->clock, s->lane, s->seq);
    } else {
        s->lane = nlanes++;
    }
    struct CUstream_st **end = &emu_devices[device].streams;
    while (*end)
        end = &(*end)->next;
    *end = s;
    return s;
}

void emu_stream_delete(struct CUstream_st *s)
{
    struct CUstream_st **at = &emu_devices[s->device].streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (nfree_lanes == free_lanes_room) {
        free_lanes_room = free_lanes_room ? 2 * free_lanes_room : 16;
        free_lanes = emu_resize(free_lanes, sizeof *free_lanes * (size_t)free_lanes_room);
    }
    free_lanes[nfree_lanes++] = (struct lane){s->lane, s->seq};
    emu_clock_free(&s->clock);
    free(s->front);
    free(s);
}

struct CUstream_st *emu_stream_of(cudaStream_t handle, const char *what)
{
    if (!handle || handle == cudaStreamLegacy)
        return emu_devices[emu_current_device()].default_stream;
    for (int d = 0; d < emu_settings.devices; d++)
        for (struct CUstream_st *s = emu_devices[d].streams; s; s = s->next)
            if (s == handle && !s->destroyed)
                return s;
    emu_report("free", "%s: %p is not a stream%s; keep streams until their last use", what, (void *)handle,
               handle == cudaStreamPerThread ? " (the per-thread default stream is not emulated)" : " (any more)");
    return NULL;
}

static bool is_blocking(const struct CUstream_st *s)
{
    return !s->internal && !(s->flags & cudaStreamNonBlocking);
}

/* --- ops --- */
void emu_op_keep(emu_op *op)
{
    op->refs++;
}

void emu_op_drop(emu_op *op)
{
    if (!op || --op->refs)
        return;
    emu_clock_free(&op->clock);
    free(op->args);
    free(op->deps);
    free(op);
}

static void add_dep(emu_op *op, emu_op *dep)
{
    if (dep->done) {
        emu_clock_join(&op->clock, &dep->clock);
        return;
    }
    op->deps = emu_resize(op->deps, sizeof *op->deps * (size_t)(op->ndeps + 1));
    op->deps[op->ndeps++] = dep;
    dep->watchers |= (uint64_t)1 << op->device;
    emu_op_keep(dep);
}

static void after_stream(emu_op *op, struct CUstream_st *other)
{
    emu_clock_join(&op->clock, &other->clock);
    if (other->tail)
        add_dep(op, other->tail);
}

/* The default stream waits for all blocking streams of its device, and they for it. */
static void order_with_default(emu_op *op, struct CUstream_st *s)
{
    emu_device *device = &emu_devices[s->device];
    if (!is_blocking(s))
        return;
    if (s != device->default_stream) {
        after_stream(op, device->default_stream);
        return;
    }
    for (struct CUstream_st *other = device->streams; other; other = other->next)
        if (other != s && is_blocking(other))
            after_stream(op, other);
}

/* May the device run what nobody waits for? */
static bool runs_unasked(const emu_device *device)
{
    if (suspended || emu_settings.policy == EMU_EARLY)
        return true;
    return emu_settings.policy != EMU_LATE && device->demanded;
}

emu_op *emu_issue(struct CUstream_st *s, const emu_work *work, emu_op *const *deps, int ndeps)
{
    emu_op *op = emu_alloc(sizeof *op);
    op->kind = work->kind;
    op->name = work->name;
    op->fn = work->fn;
    op->size = work->size;
    op->args = emu_alloc(work->size);
    if (work->size)
        memcpy(op->args, work->args, work->size);
    op->binding = work->binding;
    op->device = s->device;
    op->stream = s;
    op->lane = s->lane;
    op->seq = ++s->seq;
    op->order = ++issued;
    op->refs = 1;
    emu_clock_join(&op->clock, &emu_host.clock);
    emu_clock_raise(&op->clock, 0, ++emu_host.seq);
    for (int i = 0; i < ndeps; i++)
        add_dep(op, deps[i]);
    order_with_default(op, s);
    if (work->kind == EMU_COLLECTIVE)
        s->collective = op->seq;
    if (s->tail)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    if (!s->undemanded)
        s->undemanded = op;
    if (op->binding)
        op->binding->bind(op);
    if (emu_devices[s->device].asleep || runs_unasked(&emu_devices[s->device]))
        pthread_cond_signal(&emu_devices[s->device].wake);
    return op;
}

/* Everything before it on its stream is demanded first; what it waits for, too. */
void emu_demand(emu_op *last)
{
    struct CUstream_st *s = last->stream;
    if (last->done || last->demanded)
        return;
    while (!last->demanded) {
        emu_op *op = s->undemanded;
        s->undemanded = op->next;
        op->demanded = true;
        emu_devices[op->device].demanded++;
        for (int i = 0; i < op->ndeps; i++)
            emu_demand(op->deps[i]);
        if (op->binding)
            op->binding->demand(op);
    }
    pthread_cond_signal(&emu_devices[last->device].wake);
}

void emu_finish(emu_op *op)
{
    struct CUstream_st *s = op->stream;
    op->done = true;
    op->running = false;
    finished++;
    if (op->demanded)
        emu_devices[op->device].demanded--;
    if (op->error && emu_devices[op->device].sticky == cudaSuccess)
        emu_devices[op->device].sticky = op->error;
    emu_clock_join(&s->clock, &op->clock);
    s->head = op->next;
    if (!s->head)
        s->tail = NULL;
    if (s->undemanded == op)
        s->undemanded = op->next;
    for (int i = 0; i < op->ndeps; i++)
        emu_op_drop(op->deps[i]);
    op->ndeps = 0;
    if (op->waiters)
        pthread_cond_broadcast(&emu_devices[op->device].ended);
    op->watchers |= (uint64_t)1 << op->device; /* the next one of its stream */
    for (int d = 0; d < emu_settings.devices; d++)
        if (op->watchers >> d & 1)
            pthread_cond_signal(&emu_devices[d].wake);
    bool gone = s->destroyed && !s->head;
    emu_op_drop(op);
    if (gone)
        emu_stream_delete(s);
}

/* --- waiting --- */
void emu_wake_host(void)
{
    pthread_cond_broadcast(&host_wake);
}

static int timed_wait(pthread_cond_t *cond, clockid_t clock, double seconds)
{
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_cond_timedwait(cond, emu_mutex(), &until);
}

static bool wait_until(pthread_cond_t *cond, clockid_t clock, double deadline)
{
    double left = deadline - emu_seconds();
    if (left <= 0)
        return false;
    (void)timed_wait(cond, clock, left < 0.05 ? left : 0.05);
    return true;
}

bool emu_wait_host(double deadline)
{
    return wait_until(&host_wake, CLOCK_REALTIME, deadline);
}

void emu_yield(void)
{
    sched_yield();
}

static int describe(const emu_op *op, char *text, size_t size)
{
    if (op->binding && op->running)
        return op->binding->describe(op, text, size);
    return snprintf(text, size, "%s (%s)", op->name,
                    op->running ? "running"
                    : op->ndeps ? "waits for another stream"
                                : "not started");
}

static void report_hang(const char *what)
{
    char text[1000] = " none";
    size_t at = 0;
    for (int d = 0; d < emu_settings.devices; d++)
        for (struct CUstream_st *s = emu_devices[d].streams; s; s = s->next) {
            if (s->head && at < sizeof text)
                at += (size_t)snprintf(text + at, sizeof text - at, "\n    device %d, stream %u: ", d, s->lane);
            if (s->head && at < sizeof text)
                at += (size_t)describe(s->head, text + at, sizeof text - at);
        }
    emu_report("hang",
               "%s: nothing has moved for %.1f s; the first op of every stream:%s\n    A collective waits for ranks "
               "that did not call it: make the call, or abort the communicator on every rank",
               what, emu_settings.timeout, text);
}

/* Something moves: an op ended, or one has been running all the time. */
static bool has_moved(unsigned *ended, unsigned steps[])
{
    bool moved = finished != *ended;
    *ended = finished;
    for (int d = 0; d < emu_settings.devices; d++) {
        const emu_device *device = &emu_devices[d];
        moved = moved || (device->busy && device->step == steps[d]);
        steps[d] = device->step;
    }
    return moved;
}

cudaError_t emu_wait(emu_op *op, const char *what)
{
    if (!op)
        return cudaSuccess;
    cudaError_t error = cudaSuccess;
    unsigned ended = finished, steps[EMU_MAX_DEVICES] = {0};
    emu_op_keep(op);
    emu_demand(op);
    op->waiters++;
    double deadline = emu_seconds() + emu_settings.timeout;
    while (!op->done) {
        bool in_time = wait_until(&emu_devices[op->device].ended, CLOCK_MONOTONIC, deadline);
        if (has_moved(&ended, steps))
            deadline = emu_seconds() + emu_settings.timeout;
        else if (!in_time && !op->done) {
            report_hang(what);
            error = cudaErrorLaunchTimeout;
            if (emu_devices[op->device].sticky == cudaSuccess)
                emu_devices[op->device].sticky = error;
            break;
        }
    }
    op->waiters--;
    if (!error)
        emu_clock_join(&emu_host.clock, &op->clock);
    emu_op_drop(op);
    return error;
}

cudaError_t emu_wait_stream(struct CUstream_st *s, const char *what)
{
    if (s->tail)
        return emu_wait(s->tail, what);
    emu_clock_join(&emu_host.clock, &s->clock);
    return cudaSuccess;
}

cudaError_t emu_wait_device(int device, const char *what)
{
    unsigned until = issued;
    for (;;) {
        emu_op *op = NULL; /* the streams may change while this waits: look again each time */
        for (struct CUstream_st *s = emu_devices[device].streams; s && !op; s = s->next)
            for (emu_op *queued = s->head; queued && queued->order <= until; queued = queued->next)
                op = queued;
        if (!op)
            break;
        cudaError_t error = emu_wait(op, what);
        if (error)
            return error;
    }
    for (struct CUstream_st *s = emu_devices[device].streams; s; s = s->next)
        emu_clock_join(&emu_host.clock, &s->clock);
    return cudaSuccess;
}

/* --- the worker --- */
static bool is_ready(const emu_op *op)
{
    if (op->running)
        return false;
    for (int i = 0; i < op->ndeps; i++)
        if (!op->deps[i]->done)
            return false;
    return true;
}

/* The i-th op that may run now (or their number, for i < 0, in *count); the newest, if the policy says so. */
static emu_op *candidate(const emu_device *device, bool unasked, int i, int *count)
{
    int n = 0;
    emu_op *found = NULL;
    for (struct CUstream_st *s = device->streams; s; s = s->next) {
        emu_op *op = s->head;
        if (!op || !(unasked || op->demanded) || !is_ready(op))
            continue;
        bool newest = emu_settings.policy == EMU_NEWEST && (!found || op->order > found->order);
        if (newest || (emu_settings.policy != EMU_NEWEST && n == i))
            found = op;
        n++;
    }
    *count = n;
    return found;
}

static void start_op(emu_op *op)
{
    op->running = true;
    emu_clock_join(&op->clock, &op->stream->clock);
    for (int i = 0; i < op->ndeps; i++)
        emu_clock_join(&op->clock, &op->deps[i]->clock);
    emu_clock_raise(&op->clock, op->lane, op->seq);
}

static void wake_workers(void)
{
    for (int d = 0; d < emu_settings.devices; d++)
        pthread_cond_signal(&emu_devices[d].wake);
}

static void keep_suspended(emu_device *device, emu_op *op)
{
    if (device->nsuspended == device->suspended_room) {
        device->suspended_room += 16;
        device->suspended = emu_resize(device->suspended, sizeof(emu_op *) * (size_t)device->suspended_room);
    }
    device->suspended[device->nsuspended++] = op;
    suspended++;
    wake_workers();
}

static emu_op *take_suspended(emu_device *device, unsigned i)
{
    emu_op *op = device->suspended[i];
    device->suspended[i] = device->suspended[--device->nsuspended];
    suspended--;
    return op;
}

/* Runs or resumes the op, without the lock. */
static void step(emu_device *device, emu_op *op, bool resumed)
{
    device->busy = true;
    device->step++;
    emu_unlock();
    if (!resumed)
        emu_check_begin(op);
    else
        sched_yield(); /* it spins: let the others go first */
    bool ended = !op->fn || emu_op_step(op);
    emu_lock();
    device->busy = false;
    if (!ended)
        keep_suspended(device, op);
    else if (op->binding)
        op->binding->depart(op);
    else
        emu_finish(op);
}

/* Waits until there may be something to do; true: it has been idle for long. */
static bool rest(emu_device *device)
{
    bool queued = false;
    for (struct CUstream_st *s = device->streams; s; s = s->next)
        queued = queued || (s->head && !s->head->running);
    if (queued)
        return timed_wait(&device->wake, CLOCK_MONOTONIC, idle_seconds) == ETIMEDOUT;
    device->asleep = true;
    pthread_cond_wait(&device->wake, emu_mutex());
    device->asleep = false;
    return false;
}

void *emu_worker(void *self)
{
    emu_device *device = self;
    emu_set_current_device((int)(device - emu_devices));
    emu_catch_faults_here();
    emu_lock();
    for (bool idle = false;;) {
        bool unasked = idle || runs_unasked(device);
        int n;
        emu_op *op = candidate(device, unasked, 0, &n);
        unsigned all = (unsigned)(n + device->nsuspended), pick = 0;
        if (!all) {
            idle = rest(device);
            continue;
        }
        idle = false;
        if (emu_settings.policy == EMU_RANDOM)
            pick = emu_hash(emu_settings.seed, (unsigned)(device - emu_devices), device->picks++) % all;
        else if (!n)
            pick = device->picks++ % all;
        if (pick >= (unsigned)n) {
            step(device, take_suspended(device, pick - (unsigned)n), true);
            continue;
        }
        if (emu_settings.policy == EMU_RANDOM)
            op = candidate(device, unasked, (int)pick, &n);
        start_op(op);
        if (!op->binding || op->binding->arrive(op))
            step(device, op, false);
    }
    return NULL;
}
