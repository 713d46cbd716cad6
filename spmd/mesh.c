/* Meshes: parsing, the device threads' birth and end, the log. */
#include "spmd/ctx.h"
#include "spmd/host/meet_private.h"
#include "spmd/host/futex.h"
#include "spmd/host/pin.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY(variable) &variable,
static const spmd_backend *const backends[] = {SPMD_BACKEND_LIST(ENTRY)};
#undef ENTRY
enum { BACKENDS = sizeof backends / sizeof *backends };

#ifdef SPMD_HAVE_CUDA
#define BACKENDS_TEXT "\"host\", \"host-strict\" or \"cuda\""
#else
#define BACKENDS_TEXT "\"host\" or \"host-strict\""
#endif

const char *spmd_backend_name(int k)
{
    return k >= 0 && k < BACKENDS ? backends[k]->name : NULL;
}

static void log_to_stderr(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "spmdkit: %s\n", line);
}

/* One "name=size"; advances *text past it and a following comma. */
static spmd_status parse_axis(spmd_mesh *mesh, const char **text, const char *whole)
{
    const char *p = *text, *start = p;
    SPMD_CHECK(mesh->naxes < SPMD_MAX_AXES, SPMD_EINVAL, "mesh '%s' has more than %d axes", whole, SPMD_MAX_AXES);
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    size_t length = (size_t)(p - start);
    SPMD_CHECK(length > 0 && *p == '=' && !isdigit((unsigned char)*start), SPMD_EINVAL,
               "mesh '%s': expected name=size at '%s', as in \"data=2,model=2\"", whole, start);
    SPMD_CHECK(length < SPMD_MAX_AXIS_NAME, SPMD_EINVAL, "mesh '%s': axis name longer than %d letters", whole,
               SPMD_MAX_AXIS_NAME - 1);
    char *end;
    errno = 0;
    long size = strtol(p + 1, &end, 10); /* which would skip blanks and take a sign */
    SPMD_CHECK(isdigit((unsigned char)p[1]) && errno == 0 && size >= 1 && size <= SPMD_MAX_DEVICES &&
                   (*end == ',' || *end == 0),
               SPMD_EINVAL, "mesh '%s': size of axis at '%s' must be 1 to %d", whole, start, SPMD_MAX_DEVICES);
    memcpy(mesh->name[mesh->naxes], start, length);
    for (int a = 0; a < mesh->naxes; a++)
        SPMD_CHECK(strcmp(mesh->name[a], mesh->name[mesh->naxes]) != 0, SPMD_EINVAL, "mesh '%s': axis '%s' twice",
                   whole, mesh->name[a]);
    mesh->size[mesh->naxes++] = (int)size;
    mesh->ndevices *= (int)size;
    SPMD_CHECK(mesh->ndevices <= SPMD_MAX_DEVICES, SPMD_EINVAL, "mesh '%s' has more than %d devices", whole,
               SPMD_MAX_DEVICES);
    SPMD_CHECK(*end == 0 || end[1] != 0, SPMD_EINVAL, "mesh '%s' ends with a comma", whole);
    *text = *end ? end + 1 : end;
    return SPMD_OK;
}

static spmd_status parse(spmd_mesh *mesh, const char *axes, const char *backend)
{
    SPMD_CHECK(axes && *axes, SPMD_EINVAL, "mesh without axes: expected e.g. \"data=2\"");
    mesh->ndevices = 1;
    for (const char *p = axes; *p;)
        SPMD_TRY(parse_axis(mesh, &p, axes));
    for (size_t k = 0; k < BACKENDS; k++)
        if (!strcmp(backends[k]->name, backend ? backend : "host"))
            mesh->backend = backends[k];
    for (unsigned mask = 0; mask < 1u << mesh->naxes; mask++) {
        mesh->mask_size[mask] = 1;
        for (int a = 0; a < mesh->naxes; a++)
            mesh->mask_size[mask] *= mask >> a & 1 ? mesh->size[a] : 1;
    }
    SPMD_CHECK(mesh->backend || strcmp(backend, "cuda") != 0, SPMD_EUNSUPPORTED,
               "backend 'cuda' is not in this build: configure with -DSPMD_CUDA=ON (needs nvcc) or -DSPMD_CUDA=EMU "
               "(emulated, needs no GPU), or use \"host\"");
    SPMD_CHECK(mesh->backend, SPMD_EUNSUPPORTED, "backend '%s' is not in this build: expected " BACKENDS_TEXT, backend);
    return SPMD_OK;
}

static spmd_status read_environment(spmd_mesh *mesh)
{
    const char *pin = getenv("SPMD_PIN"), *timeout = getenv("SPMD_TIMEOUT_MS"), *seed = getenv("SPMD_SEED");
    char *end;
    mesh->seed = (uint64_t)spmd__now_ms();
    if (seed) {
        errno = 0;
        mesh->seed = strtoull(seed, &end, 10);
        SPMD_CHECK(isdigit((unsigned char)*seed) && !*end && !errno, SPMD_EINVAL,
                   "SPMD_SEED='%s': expected a whole number below 2^64", seed);
    }
    mesh->pin = !(pin && !strcmp(pin, "0"));
    mesh->timeout_ms = 300000;
    if (timeout) {
        long ms = strtol(timeout, &end, 10);
        SPMD_CHECK(*timeout && !*end && ms >= 0 && ms <= 1 << 30, SPMD_EINVAL,
                   "SPMD_TIMEOUT_MS='%s': expected milliseconds, 0 for no bound", timeout);
        mesh->timeout_ms = (int)ms;
    }
    return SPMD_OK;
}

void spmd__mesh_release(spmd_mesh *mesh)
{
    if (atomic_fetch_sub(&mesh->references, 1) != 1)
        return;
    for (int d = 0; mesh->devices && d < mesh->ndevices; d++) {
        spmd__arena_free(&mesh->devices[d].arena);
        for (spmd_slot *s = mesh->devices[d].slots, *next; s; s = next) {
            next = s->next;
            s->destroy(s->value);
            spmd__free(s);
        }
    }
    for (spmd_array *array = mesh->orphans; array;)
        array = spmd__array_free(array);
    for (struct spmd_jit *jit = mesh->orphan_jits; jit;)
        jit = spmd__jit_free(jit);
    for (struct spmd_profile *profile = mesh->orphan_profiles; profile;)
        profile = spmd__profile_free(profile);
    if (mesh->backend && mesh->backend->release)
        mesh->backend->release(mesh);
    spmd__pinning_free(mesh);
    spmd__meetings_free(mesh->meetings);
    spmd__groups_free(mesh);
    pthread_mutex_destroy(&mesh->log_lock);
    pthread_mutex_destroy(&mesh->failure_lock);
    free(mesh->devices);
    free(mesh->job_lists);
    free(mesh);
}

static void stop_threads(spmd_mesh *mesh, int started)
{
    bool lost = atomic_load(&mesh->lost);
    atomic_store(&mesh->quit, true);
    atomic_fetch_add(&mesh->epoch, 1);
    spmd__futex_wake_all(&mesh->epoch);
    for (int d = 0; d < started; d++)
        if (lost)
            pthread_detach(mesh->devices[d].thread);
        else
            pthread_join(mesh->devices[d].thread, NULL);
}

/* Device threads leave signals to the program's own threads. */
static spmd_status start_threads(spmd_mesh *mesh)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int started = 0, failed = 0;
    atomic_store(&mesh->running, (uint32_t)mesh->ndevices);
    for (; started < mesh->ndevices; started++) {
        atomic_fetch_add(&mesh->references, 1);
        failed = pthread_create(&mesh->devices[started].thread, NULL, spmd__device_main, &mesh->devices[started]);
        if (failed) {
            atomic_fetch_sub(&mesh->references, 1);
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        stop_threads(mesh, started);
        return SPMD_FAIL(SPMD_ENOMEM, "cannot start a thread for device %d of %d: %s", started, mesh->ndevices,
                         strerror(failed));
    }
    for (uint32_t n; (n = atomic_load(&mesh->running)) != 0;) /* a mesh is ready when its threads know their places */
        spmd__futex_wait(&mesh->running, n, -1);
    for (int d = 0; d < mesh->ndevices; d++)
        if (mesh->devices[d].opened != SPMD_OK) {
            spmd_status status = mesh->devices[d].opened;
            stop_threads(mesh, mesh->ndevices);
            spmd__error_copy(mesh->failure_text);
            return status;
        }
    spmd_status status = mesh->backend->connect ? mesh->backend->connect(mesh) : SPMD_OK;
    if (status != SPMD_OK)
        stop_threads(mesh, mesh->ndevices);
    return status;
}

static void coordinates(const spmd_mesh *mesh, int device, int *coord)
{
    for (int a = mesh->naxes - 1; a >= 0; device /= mesh->size[a], a--)
        coord[a] = device % mesh->size[a];
}

static spmd_status build(spmd_mesh *mesh, const char *axes, const char *backend)
{
    SPMD_TRY(parse(mesh, axes, backend));
    SPMD_TRY(read_environment(mesh));
    mesh->cores = spmd__allowed_cores();
    mesh->devices = aligned_alloc(_Alignof(spmd_device), (size_t)mesh->ndevices * sizeof *mesh->devices);
    SPMD_CHECK(mesh->devices, SPMD_ENOMEM, "out of memory for a mesh of %d devices", mesh->ndevices);
    memset(mesh->devices, 0, (size_t)mesh->ndevices * sizeof *mesh->devices);
    for (int d = 0; d < mesh->ndevices; d++) {
        spmd_device *device = &mesh->devices[d];
        device->mesh = device->arena.mesh = mesh;
        device->id = d;
        strcpy(device->place, "any core");
        device->ctx.mesh = mesh;
        device->ctx.device = device;
        device->ctx.arena = &device->arena;
        device->ctx.data = mesh->backend->remote ? &device->data : &device->arena;
        device->ctx.id = d;
        coordinates(mesh, d, device->ctx.coord);
    }
    SPMD_TRY(mesh->backend->prepare ? mesh->backend->prepare(mesh) : SPMD_OK);
    SPMD_TRY(spmd__meetings_create(mesh));
    SPMD_TRY(spmd__groups_create(mesh));
    spmd__pinning_create(mesh);
    return start_threads(mesh);
}

spmd_status spmd_mesh_create(const char *axes, const char *backend, spmd_mesh **out)
{
    SPMD_CHECK(out, SPMD_EINVAL, "spmd_mesh_create: out must not be NULL");
    *out = NULL;
    spmd_mesh *mesh = calloc(1, sizeof *mesh);
    SPMD_CHECK(mesh, SPMD_ENOMEM, "out of memory for a mesh");
    pthread_mutex_init(&mesh->log_lock, NULL);
    pthread_mutex_init(&mesh->failure_lock, NULL);
    atomic_store(&mesh->references, 1);
    mesh->pid = getpid();
    mesh->log = log_to_stderr;
    spmd_status status = build(mesh, axes, backend);
    if (status != SPMD_OK)
        spmd__mesh_release(mesh);
    else
        *out = mesh;
    return status;
}

spmd_status spmd_mesh_destroy(spmd_mesh *mesh)
{
    if (!mesh)
        return SPMD_OK;
    SPMD_CHECK(mesh->pid == getpid(), SPMD_EFORK, "the mesh belongs to process %ld, this is its child %ld",
               (long)mesh->pid, (long)getpid());
    bool idle = false;
    SPMD_CHECK(atomic_compare_exchange_strong(&mesh->busy, &idle, true), SPMD_EBUSY,
               "the mesh is running a launch: destroy it when spmd_shard_map has returned");
    stop_threads(mesh, mesh->ndevices);
    spmd__mesh_release(mesh);
    return SPMD_OK;
}

int spmd_mesh_devices(const spmd_mesh *mesh)
{
    return mesh->ndevices;
}

int spmd_mesh_axes(const spmd_mesh *mesh)
{
    return mesh->naxes;
}

const char *spmd_mesh_axis_name(const spmd_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->naxes ? mesh->name[axis] : NULL;
}

int spmd_mesh_axis_size(const spmd_mesh *mesh, int axis)
{
    return axis >= 0 && axis < mesh->naxes ? mesh->size[axis] : 0;
}

int spmd__mask_size(const spmd_mesh *mesh, unsigned mask)
{
    return mesh->mask_size[mask & ((1u << mesh->naxes) - 1)];
}

const char *spmd_mesh_backend(const spmd_mesh *mesh)
{
    return mesh->backend->name;
}

int spmd_mesh_coord(const spmd_mesh *mesh, int device, int axis)
{
    bool known = device >= 0 && device < mesh->ndevices && axis >= 0 && axis < mesh->naxes;
    return known ? mesh->devices[device].ctx.coord[axis] : -1;
}

void spmd_mesh_print(const spmd_mesh *mesh, FILE *file)
{
    fprintf(file, "mesh \"%s\":", mesh->backend->name);
    for (int a = 0; a < mesh->naxes; a++)
        fprintf(file, "%s %s=%d", a ? " x" : "", mesh->name[a], mesh->size[a]);
    fprintf(file, ", %d device%s\n", mesh->ndevices, mesh->ndevices == 1 ? "" : "s");
    for (int d = 0; d < mesh->ndevices; d++) {
        fprintf(file, "  device %d: (", d);
        for (int a = 0; a < mesh->naxes; a++)
            fprintf(file, "%s%s %d", a ? ", " : "", mesh->name[a], mesh->devices[d].ctx.coord[a]);
        fprintf(file, ")  thread on %s\n", mesh->devices[d].place);
    }
}

void spmd_mesh_set_log(spmd_mesh *mesh, spmd_log_fn *log, void *user)
{
    pthread_mutex_lock(&mesh->log_lock);
    mesh->log = log;
    mesh->log_user = user;
    pthread_mutex_unlock(&mesh->log_lock);
}

void spmd_mesh_set_fault_hook(spmd_mesh *mesh, spmd_fault_hook_fn *hook, void *user)
{
    mesh->fault_hook = hook;
    mesh->fault_user = user;
}

/* True if `once` was said before, or if so much was said that silence is kinder. Call with the lock held. */
static bool already_said(spmd_mesh *mesh, const char *once)
{
    for (int k = 0; k < mesh->nsaid; k++)
        if (!strcmp(mesh->said[k], once))
            return true;
    if (mesh->nsaid == (int)(sizeof mesh->said / sizeof *mesh->said))
        return true;
    mesh->said[mesh->nsaid++] = once;
    return false;
}

static void log_line(spmd_mesh *mesh, const char *once, const char *format, va_list args)
{
    char line[SPMD_ERROR_SIZE];
    pthread_mutex_lock(&mesh->log_lock);
    if (!(once && already_said(mesh, once)) && mesh->log) {
        vsnprintf(line, sizeof line, format, args);
        mesh->log(mesh->log_user, line);
    }
    pthread_mutex_unlock(&mesh->log_lock);
}

void spmd__log(spmd_mesh *mesh, const char *once, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(mesh, once, format, args);
    va_end(args);
}

void spmd__warn(spmd_ctx *ctx, const char *once, const char *format, ...)
{
    atomic_fetch_add(&ctx->mesh->warnings, 1);
    va_list args;
    va_start(args, format);
    log_line(ctx->mesh, once, format, args);
    va_end(args);
}
