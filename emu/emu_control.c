/* The emulator as a whole: settings, its start, what it owns. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "emu/emu_runtime.h"

struct emu_settings emu_settings = {.devices = 2, .policy = EMU_RANDOM, .seed = 1, .timeout = 20};
struct emu_host emu_host;
emu_device *emu_devices;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static atomic_bool forked; /* the workers stayed in the parent */
static atomic_long living[EMU_THINGS];
static _Thread_local int current_device;

void emu_lock(void)
{
    pthread_mutex_lock(&lock);
}

void emu_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

pthread_mutex_t *emu_mutex(void)
{
    return &lock;
}

double emu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long number_from(const char *variable, long otherwise, long least, long most)
{
    const char *text = getenv(variable);
    if (!text || !*text)
        return otherwise;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || value < least || value > most)
        emu_fatal("%s is '%s': it must be a number from %ld to %ld", variable, text, least, most);
    return value;
}

static const char *const policy_names[] = {"early", "late", "random", "newest"};

const char *emu_policy_name(void)
{
    return policy_names[emu_settings.policy];
}

static emu_policy policy_from(const char *variable, emu_policy otherwise)
{
    const char *text = getenv(variable);
    if (!text || !*text)
        return otherwise;
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, policy_names[i]))
            return (emu_policy)i;
    emu_fatal("%s is '%s': it must be early, late, random or newest", variable, text);
}

/* The environment sets what emu_configure did not. */
static bool configured_devices, configured_policy;

void emu_configure(int devices, emu_policy policy, unsigned seed)
{
    emu_lock();
    if (emu_devices && devices > 0 && devices != emu_settings.devices)
        emu_fatal("emu_configure: there are %d devices since the first CUDA call, not %d; call it earlier",
                  emu_settings.devices, devices);
    if (devices < 0 || devices > EMU_MAX_DEVICES)
        emu_fatal("emu_configure: %d devices: it must be from 1 to %d (0: as it is)", devices, EMU_MAX_DEVICES);
    if (devices > 0) {
        emu_settings.devices = devices;
        configured_devices = true;
    }
    emu_settings.policy = policy;
    emu_settings.seed = seed;
    configured_policy = true;
    for (int d = 0; emu_devices && d < emu_settings.devices; d++)
        emu_devices[d].picks = 0;
    emu_unlock();
}

void emu_set_timeout(double seconds)
{
    emu_lock();
    emu_settings.timeout = seconds;
    emu_unlock();
}

static void in_child(void)
{
    forked = true;
}

static void start(void)
{
    struct emu_settings *s = &emu_settings;
    emu_lock();
    if (!configured_devices)
        s->devices = (int)number_from("EMU_DEVICES", s->devices, 1, EMU_MAX_DEVICES);
    if (!configured_policy) {
        s->policy = policy_from("EMU_POLICY", s->policy);
        s->seed = (unsigned)number_from("EMU_SEED", s->seed, 0, 0xffffffffL);
    }
    emu_memory_start();
    emu_catch_faults();
    emu_device *devices = emu_alloc(sizeof *devices * (size_t)s->devices);
    emu_devices = devices;
    for (int d = 0; d < s->devices; d++) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&devices[d].wake, &monotonic);
        pthread_cond_init(&devices[d].ended, &monotonic);
        pthread_condattr_destroy(&monotonic);
        devices[d].default_stream = emu_stream_new(d, cudaStreamDefault, 0, false);
    }
    pthread_atfork(NULL, NULL, in_child);
    for (int d = 0; d < s->devices; d++) {
        pthread_t thread;
        pthread_attr_t detached;
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&detached, 1 << 20);
        if (pthread_create(&thread, &detached, emu_worker, &devices[d]))
            emu_fatal("no thread for device %d", d);
        pthread_attr_destroy(&detached);
    }
    emu_unlock();
}

void emu_init(void)
{
    pthread_once(&started, start);
}

bool emu_unusable(emu_api api, cudaError_t *error)
{
    if (forked) {
        emu_report("host",
                   "%s in a process that was forked after the first CUDA call; CUDA does not survive fork, "
                   "call nothing before it",
                   emu_api_name(api));
        *error = cudaErrorInitializationError;
        return true;
    }
    const emu_op *op = emu_current_op();
    if (op && op->kind == EMU_HOST_FUNCTION) {
        emu_report("host",
                   "%s inside a host function (cudaLaunchHostFunc), which must not call CUDA; set a flag there "
                   "and make the call from a host thread",
                   emu_api_name(api));
        *error = cudaErrorNotPermitted;
        return true;
    }
    return false;
}

int emu_current_device(void)
{
    return current_device;
}

void emu_set_current_device(int device)
{
    current_device = device;
}

bool emu_valid_device(int device)
{
    return device >= 0 && device < emu_settings.devices;
}

void emu_reset_device(int device)
{
    emu_lock();
    if (emu_devices && emu_valid_device(device))
        emu_devices[device].sticky = cudaSuccess;
    emu_unlock();
}

void emu_born(emu_thing thing)
{
    atomic_fetch_add(&living[thing], 1);
}

void emu_died(emu_thing thing)
{
    atomic_fetch_sub(&living[thing], 1);
}

static const char *const thing_names[] = {"device memory", "pinned memory",    "stream",        "event",
                                          "graph",         "executable graph", "cuBLAS handle", "NCCL communicator"};

long emu_live(const char *thing)
{
    long sum = 0;
    for (int i = 0; i < EMU_THINGS; i++)
        if (!thing || !strcmp(thing, thing_names[i]))
            sum += atomic_load(&living[i]);
    return sum;
}

void emu_report_leaks(void)
{
    for (int i = 0; i < EMU_THINGS; i++)
        if (atomic_load(&living[i]))
            emu_report("leak", "%ld of: %s, still there; destroy or free what was made", atomic_load(&living[i]),
                       thing_names[i]);
}
