/* Backend "host-strict": the hostile twin of "host". Same kernels, same results, but
 *   - kernels run late, on a stream thread of the device: code that touches memory before the stream is done shows
 *   - fresh memory is 0xFF (NaN; -1), so that a kernel that reads what nobody wrote shows
 *   - shards start in random order, kernels after random delays, from a seed that the log names (SPMD_SEED sets it)
 * A stream thread has a context and an arena of its own: kernels take their scratch memory there. */
#include "spmd/ctx.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct item {
    const spmd_op *op;
    const spmd_kernel_args *args;
    const char *site;
    bool transposing;
    struct item *next;
} item;

typedef struct stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    item *first, *last;
    bool busy, quit;
    spmd_arena arena;
    spmd_ctx ctx;
    spmd_status status; /* the first failure of this launch */
    char text[SPMD_ERROR_SIZE];
    uint64_t random;
} stream;

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void nap(uint64_t *state, unsigned one_in, unsigned most_us)
{
    uint64_t r = next_random(state);
    if (r % one_in == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)((r >> 32) % most_us) * 1000}, NULL);
}

static spmd_status run_item(stream *s, const item *work)
{
    spmd_ctx *ctx = &s->ctx;
    ctx->site = work->site;
    ctx->transposing = work->transposing;
    nap(&s->random, 16, 200);
    SPMD_CHECK(work->op->host, SPMD_EUNSUPPORTED, "%s has no kernel for backend host-strict", work->op->name);
    return spmd__run_timed(ctx, work->op, work->op->host, work->args);
}

static void *stream_main(void *argument)
{
    spmd_device *device = argument;
    stream *s = device->stream;
    spmd__enter_shard(&s->ctx);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->quit)
            pthread_cond_wait(&s->changed, &s->lock);
        if (!s->first)
            break;
        item *work = s->first;
        s->first = work->next;
        s->busy = true;
        bool failed = s->status != SPMD_OK;
        pthread_mutex_unlock(&s->lock);
        spmd_status status = failed ? SPMD_OK : run_item(s, work); /* after a failure the rest is dropped */
        if (status != SPMD_OK) /* at once: other shards must not wait for this one */
            spmd__poison(device->mesh, status, spmd_last_error());
        pthread_mutex_lock(&s->lock);
        if (status != SPMD_OK) {
            s->status = status;
            snprintf(s->text, sizeof s->text, "%s", spmd_last_error());
        }
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static spmd_status strict_open(spmd_device *device)
{
    stream *s = calloc(1, sizeof *s);
    SPMD_CHECK(s, SPMD_ENOMEM, "out of memory for the stream of device %d", device->id);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->random = device->mesh->seed + (uint64_t)device->id * 0x632BE59BD9B4E019u;
    s->arena.mesh = device->mesh;
    s->ctx.mesh = device->mesh;
    s->ctx.device = device;
    s->ctx.arena = &s->arena;
    s->ctx.id = device->id;
    memcpy(s->ctx.coord, device->ctx.coord, sizeof s->ctx.coord);
    device->stream = s;
    int error = pthread_create(&s->thread, NULL, stream_main, device);
    if (error) {
        device->stream = NULL;
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->changed);
        free(s);
        return SPMD_FAIL(SPMD_ENOMEM, "cannot start the stream thread of device %d: %s", device->id, strerror(error));
    }
    return SPMD_OK;
}

static void strict_close(spmd_device *device)
{
    stream *s = device->stream;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    spmd__arena_free(&s->arena);
    free(s);
    device->stream = NULL;
}

static void strict_begin(spmd_ctx *ctx)
{
    stream *s = ctx->device->stream;
    s->status = SPMD_OK;
    s->ctx.launch = ctx->launch;
    spmd__arena_reset(&s->arena);
    nap(&s->random, 1, 1000);
}

static spmd_status strict_run(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    stream *s = ctx->device->stream;
    item *work = spmd__scratch(ctx, sizeof *work);
    if (!work)
        return SPMD_ENOMEM;
    *work = (item){.op = op, .args = args, .site = ctx->site, .transposing = ctx->transposing};
    pthread_mutex_lock(&s->lock);
    if (s->first)
        s->last->next = work;
    else
        s->first = work;
    s->last = work;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return SPMD_OK;
}

static spmd_status strict_sync(spmd_ctx *ctx)
{
    stream *s = ctx->device->stream;
    pthread_mutex_lock(&s->lock);
    while (s->first || s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    spmd_status status = s->status;
    pthread_mutex_unlock(&s->lock);
    if (status != SPMD_OK)
        spmd__error_copy(s->text);
    return status;
}

const spmd_backend spmd__backend_host_strict = {.name = "host-strict",
                                                .open = strict_open,
                                                .close = strict_close,
                                                .begin = strict_begin,
                                                .run = strict_run,
                                                .sync = strict_sync,
                                                .late = true,
                                                .hostile = true};
