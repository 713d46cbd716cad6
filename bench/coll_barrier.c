/* How near a small collective comes to what meeting, and what the exchange of its bytes, costs at all. Both know
 * nothing of calls, failures, checks and timeouts. The barrier spins only if every thread has a core, then yields, then
 * sleeps on a futex. In the exchange every cache line carries the number of the round, so that nothing but the lines
 * themselves goes from core to core: nobody adds two messages in less. */
#include "bench/bench.h"
#include "bench/coll_sample.h"
#include "spmd/host/futex.h"
#include "spmd/host/pin.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 10000, BYTES = 1024, SPINS = 4000, YIELDS = 64 };

enum { LINE = 15, LINES = (BYTES / 4 + LINE - 1) / LINE }; /* floats of a line; lines of a message */

typedef struct message_line {
    float data[LINE];
    _Atomic uint32_t round;
} __attribute__((aligned(64))) message_line;

typedef struct barrier {
    _Atomic uint32_t arrived, epoch, sleepers;
    int n, spins;
    double seconds, exchange_seconds; /* written by device 0 */
    message_line box[2][SPMD_MAX_DEVICES][LINES];
    float sum[SPMD_MAX_DEVICES];
} barrier;

static void barrier_wait(barrier *b)
{
    uint32_t epoch = atomic_load(&b->epoch);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == (uint32_t)b->n) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->epoch, 1);
        if (atomic_load(&b->sleepers))
            spmd__futex_wake_all(&b->epoch);
        return;
    }
    for (int k = 0; k < b->spins + YIELDS; k++) {
        if (atomic_load_explicit(&b->epoch, memory_order_acquire) != epoch)
            return;
        if (k < b->spins)
            spmd__cpu_relax();
        else
            sched_yield();
    }
    atomic_fetch_add(&b->sleepers, 1);
    while (atomic_load(&b->epoch) == epoch)
        spmd__futex_wait(&b->epoch, epoch, -1);
    atomic_fetch_sub(&b->sleepers, 1);
}

static void line_wait(const barrier *b, const message_line *line, uint32_t round)
{
    for (int k = 0; atomic_load_explicit(&line->round, memory_order_acquire) != round; k++)
        if (k < b->spins)
            spmd__cpu_relax();
        else
            sched_yield();
}

/* `mine` becomes the sum of all messages: the boxes of even and of odd rounds take turns, as in the library. */
static void exchange(barrier *b, int me, uint32_t round, float mine[LINES * LINE])
{
    message_line(*box)[LINES] = b->box[round % 2];
    for (int l = 0; l < LINES; l++) {
        memcpy(box[me][l].data, mine + l * LINE, sizeof box[me][l].data);
        atomic_store_explicit(&box[me][l].round, round, memory_order_release);
    }
    for (int k = 1; k < b->n; k++)
        for (int l = LINES - 1; l >= 0; l--) { /* the last one comes last: none is fetched while it is written */
            const message_line *line = &box[(me + k) % b->n][l];
            line_wait(b, line, round);
            for (int i = 0; i < LINE; i++)
                mine[l * LINE + i] += line->data[i];
        }
}

static void exchange_many(barrier *b, int me)
{
    float mine[LINES * LINE] = {0};
    exchange(b, me, 1, mine);
    double start = bench_seconds();
    for (uint32_t k = 0; k < CALLS; k++)
        exchange(b, me, k + 2, mine);
    if (me == 0)
        b->exchange_seconds = bench_seconds() - start;
    b->sum[me] = mine[0]; /* so that adding is not optimized away */
}

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)out;
    barrier *b = user;
    barrier_wait(b);
    double start = bench_seconds();
    for (int k = 0; k < CALLS; k++)
        barrier_wait(b);
    if (spmd_ctx_device(ctx) == 0)
        b->seconds = bench_seconds() - start;
    barrier_wait(b);
    exchange_many(b, spmd_ctx_device(ctx));
    return SPMD_OK;
}

static spmd_status take_turns(coll_sample *s, spmd_array *who, barrier *b, coll_barrier_result *out)
{
    enum { TURNS = 5 };
    double psum[TURNS], empty[TURNS], bare[TURNS];
    for (int turn = 0; turn <= TURNS; turn++) { /* the last one overwrites the first: it was cold */
        SPMD_TRY(coll_launch(s, who));
        int n = spmd_mesh_devices(s->setup->mesh);
        memset(b, 0, sizeof *b);
        b->n = n;
        b->spins = n <= spmd__allowed_cores() ? SPINS : 0;
        SPMD_TRY(spmd_shard_map(&(spmd_job){.mesh = s->setup->mesh, .fn = body, .user = b}));
        psum[turn % TURNS] = 1e6 * s->seconds / CALLS;
        empty[turn % TURNS] = 1e6 * b->seconds / CALLS;
        bare[turn % TURNS] = 1e6 * b->exchange_seconds / CALLS;
    }
    out->us = bench_percentile(psum, TURNS, 50);
    out->barrier_us = bench_percentile(empty, TURNS, 50);
    out->bound_us = bench_percentile(bare, TURNS, 50);
    return SPMD_OK;
}

spmd_status coll_measure_barrier(const coll_setup *setup, coll_barrier_result *out)
{
    spmd_array *who;
    SPMD_TRY(coll_make_who(setup, &who));
    coll_sample s = {.setup = setup, .row = coll_find("psum", 4), .calls = CALLS, .warm = 100, .in_place = true};
    s.count = s.in_count = BYTES / (int64_t)spmd_dtype_size(setup->dtype);
    barrier *b = aligned_alloc(_Alignof(barrier), sizeof *b);
    spmd_status status = b ? take_turns(&s, who, b, out) : SPMD_FAIL(SPMD_ENOMEM, "out of memory");
    free(b);
    spmd_array_destroy(who);
    return status;
}
