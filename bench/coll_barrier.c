/* How near the smallest collective comes to what meeting costs at all. The barrier knows nothing of failures, checks
 * and timeouts; it spins only if every thread has a core, then yields, then sleeps on a futex. */
#include "bench/bench.h"
#include "bench/coll_sample.h"
#include "spmd/host/futex.h"
#include "spmd/host/pin.h"
#include <sched.h>

enum { CALLS = 10000, BYTES = 1024, SPINS = 4000, YIELDS = 64 };

typedef struct barrier {
    _Atomic uint32_t arrived, epoch, sleepers;
    int n, spins;
    double seconds; /* written by device 0 */
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
    return SPMD_OK;
}

static spmd_status take_turns(coll_sample *s, spmd_array *who, coll_barrier_result *out)
{
    enum { TURNS = 5 };
    double psum[TURNS], empty[TURNS];
    int n = spmd_mesh_devices(s->setup->mesh);
    barrier b = {.n = n, .spins = n <= spmd__allowed_cores() ? SPINS : 0};
    spmd_job job = {.mesh = s->setup->mesh, .fn = body, .user = &b};
    for (int turn = 0; turn <= TURNS; turn++) { /* the last one overwrites the first: it was cold */
        SPMD_TRY(coll_launch(s, who));
        SPMD_TRY(spmd_shard_map(&job));
        psum[turn % TURNS] = 1e6 * s->seconds / CALLS;
        empty[turn % TURNS] = 1e6 * b.seconds / CALLS;
    }
    out->us = bench_percentile(psum, TURNS, 50);
    out->barrier_us = bench_percentile(empty, TURNS, 50);
    return SPMD_OK;
}

spmd_status coll_measure_barrier(const coll_setup *setup, coll_barrier_result *out)
{
    spmd_array *who;
    SPMD_TRY(coll_make_who(setup, &who));
    coll_sample s = {.setup = setup, .row = coll_find("psum", 4), .calls = CALLS, .warm = 100, .in_place = true};
    s.count = s.in_count = BYTES / (int64_t)spmd_dtype_size(setup->dtype);
    spmd_status status = take_turns(&s, who, out);
    spmd_array_destroy(who);
    return status;
}
