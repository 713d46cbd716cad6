/* Runs a kernel: blocks become resident, their threads run as fibers. A thread that never blocks runs to its end on the
 * fiber of the one before it, by a plain call, so that kernels without barriers switch twice a block. */
#include "emu/emu_kernel.h"
#include <stdlib.h>
#include <string.h>

_Thread_local emu_builtins emu_now;

static void thread_main(void);
static _Thread_local emu_fiber_pool threads = {EMU_FIBER_STACK, thread_main, NULL};
static _Thread_local emu_execution *idle_executions;

/* --- which thread runs next --- */
static void activate(emu_execution *ex, emu_thread *thread)
{
    emu_block *block = thread->block;
    emu_now.thread = thread;
    emu_now.thread_idx = thread->index;
    emu_now.lane = thread->linear % EMU_WARP;
    if (ex->current != block) {
        ex->current = block;
        emu_now.block_idx = block->index;
    }
}

static emu_thread *start_next(emu_block *block)
{
    int i = emu_order(block, block->started++);
    dim3 dim = emu_now.block_dim;
    emu_thread *thread = &block->thread[i];
    thread->block = block;
    thread->linear = i;
    thread->index.x = (unsigned)i % dim.x;
    thread->index.y = (unsigned)i / dim.x % dim.y;
    thread->index.z = (unsigned)i / (dim.x * dim.y);
    thread->state = EMU_RUNNABLE;
    thread->fiber = NULL;
    thread->copies = thread->groups = 0;
    return thread;
}

static emu_thread *take_next(emu_execution *ex)
{
    for (; ex->fresh; ex->fresh = ex->fresh->next_fresh)
        if (ex->fresh->started < ex->fresh->n)
            return start_next(ex->fresh);
    return ex->head == ex->tail ? NULL : ex->queue[ex->head++ & ex->queue_mask];
}

void emu_make_runnable(emu_execution *ex, emu_thread *thread)
{
    thread->state = EMU_RUNNABLE;
    ex->queue[ex->tail++ & ex->queue_mask] = thread;
}

/* Leaves `from` and goes on with `next`, or with the scheduler when there is none. */
static void go(emu_execution *ex, emu_fiber *from, emu_thread *next)
{
    if (!next) {
        emu_fiber_switch(from, &ex->scheduler);
        return;
    }
    if (!next->fiber)
        next->fiber = emu_fiber_get(&threads);
    activate(ex, next);
    if (next->fiber != from)
        emu_fiber_switch(from, next->fiber);
}

void emu_wait_here(void)
{
    emu_execution *ex = emu_now.running;
    go(ex, emu_now.thread->fiber, take_next(ex));
}

void emu_yield_spinning(emu_execution *ex, emu_thread *thread)
{
    ex->all_spin = true;
    emu_fiber_switch(thread->fiber, &ex->scheduler);
}

/* --- the end of a thread --- */
static void end_thread(emu_execution *ex, emu_thread *thread)
{
    emu_block *block = thread->block;
    int warp = thread->linear / EMU_WARP;
    thread->state = EMU_ENDED;
    block->alive--;
    ex->grid_alive--;
    emu_got_on(ex);
    block->exited[warp] |= 1u << thread->linear % EMU_WARP;
    for (emu_convergence *c = block->meetings; c; c = c->next)
        if (!c->unused && c->warp == warp)
            emu_try_meeting(ex, block, c, NULL);
    if (block->arrived && block->arrived == block->alive)
        emu_release_barrier(ex, block, NULL);
    if (thread->copies)
        emu_report("cp.async",
                   "kernel %s block (%u,%u,%u): thread %d ended with %d asynchronous copies that it never waited for. "
                   "Call __pipeline_commit and __pipeline_wait_prior(0)",
                   ex->launch->name, block->index.x, block->index.y, block->index.z, thread->linear, thread->copies);
    if (!block->alive) {
        block->live = false;
        ex->resident--;
    }
    emu_try_grid(ex, NULL);
}

static void thread_main(void)
{
    emu_fiber_entered();
    for (;;) {
        emu_execution *ex = emu_now.running;
        emu_thread *next = emu_now.thread;
        emu_fiber *self = next->fiber;
        do {
            next->fiber = self;
            activate(ex, next);
            ex->launch->call(ex->pack);
            end_thread(ex, emu_now.thread);
            next = take_next(ex);
        } while (next && !next->fiber);
        emu_fiber_put(&threads, self);
        go(ex, self, next);
    }
}

/* --- blocks --- */
static unsigned greatest_divisor(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Threads start in an order that hides no missing barrier: by number, backwards, or with a stride. */
static void choose_order(emu_block *block, unsigned seed)
{
    unsigned n = (unsigned)block->n;
    block->stride = 1;
    block->offset = 0;
    if (emu_settings.policy == EMU_RANDOM) {
        block->stride += emu_hash(seed, block->linear, 7) % n;
        while (greatest_divisor(block->stride, n) != 1)
            block->stride++;
        block->offset = emu_hash(seed, block->linear, 9) % n;
    } else if (emu_settings.policy == EMU_LATE) {
        block->stride = n > 1 ? n - 1 : 1;
        block->offset = n - 1;
    }
}

void emu_new_epoch(emu_execution *ex, emu_block *block)
{
    size_t i = ++ex->epoch - ex->first_epoch;
    if (i >= ex->epoch_capacity) {
        ex->epoch_capacity = 2 * i + 256;
        ex->epoch_block = emu_resize(ex->epoch_block, ex->epoch_capacity * sizeof *ex->epoch_block);
    }
    ex->epoch_block[i] = block->linear;
    block->epoch = ex->epoch;
}

static emu_block *free_block(emu_execution *ex)
{
    for (int i = 0; i < ex->nblocks; i++)
        if (!ex->blocks[i]->live)
            return ex->blocks[i];
    emu_block *block = emu_alloc(sizeof *block);
    block->smem = aligned_alloc(1024, (EMU_SMEM_SLOT + 1023) & ~(size_t)1023);
    if (!block->smem)
        emu_fatal("no memory for a block's shared memory");
    ex->blocks = emu_resize(ex->blocks, ((size_t)ex->nblocks + 1) * sizeof(emu_block *));
    ex->blocks[ex->nblocks++] = block;
    return block;
}

static void grow_queue(emu_execution *ex, size_t threads_a_block)
{
    size_t want = 64;
    while (want < threads_a_block * (size_t)ex->nblocks)
        want *= 2;
    if (want <= ex->queue_mask)
        return;
    emu_thread **queue = emu_alloc(want * sizeof(emu_thread *));
    size_t n = 0;
    while (ex->head != ex->tail)
        queue[n++] = ex->queue[ex->head++ & ex->queue_mask];
    free(ex->queue);
    ex->queue = queue;
    ex->queue_mask = want - 1;
    ex->head = 0;
    ex->tail = n;
}

static void start_block(emu_execution *ex, unsigned seed)
{
    const emu_launch_info *launch = ex->launch;
    emu_block *block = free_block(ex);
    size_t place = ex->next_block++;
    if (emu_settings.policy == EMU_RANDOM && seed & 8)
        place = ex->block_count - 1 - place;
    block->linear = (uint32_t)place;
    block->index.x = (unsigned)(place % launch->grid.x);
    block->index.y = (unsigned)(place / launch->grid.x % launch->grid.y);
    block->index.z = (unsigned)(place / ((size_t)launch->grid.x * launch->grid.y));
    block->n = block->alive = (int)(launch->block.x * launch->block.y * launch->block.z);
    if (block->capacity < block->n) {
        block->thread = emu_resize(block->thread, (size_t)block->n * sizeof(emu_thread));
        memset(block->thread + block->capacity, 0, (size_t)(block->n - block->capacity) * sizeof(emu_thread));
        block->capacity = block->n;
    }
    grow_queue(ex, (size_t)block->n);
    block->live = true;
    block->started = block->arrived = block->votes = block->result = block->variables = 0;
    memset(block->warp_epoch, 0, sizeof block->warp_epoch);
    memset(block->exited, 0, sizeof block->exited);
    for (emu_convergence *c = block->meetings; c; c = c->next)
        c->unused = true;
    choose_order(block, seed);
    emu_new_epoch(ex, block);
    block->base = block->epoch;
    block->dynamic_size = launch->smem;
    block->static_size = 0;
    block->smem_used = (launch->smem + 127) & ~(size_t)127;
    memset(block->smem, 0xff, block->smem_used + EMU_SMEM_GAP); /* NaN as floats */
    if (emu_checking()) {
        if (!block->shadow)
            block->shadow = emu_shadow_new();
        emu_shadow_start(block);
    }
    ex->current = NULL; /* the object may have been another block */
    block->next_fresh = ex->fresh;
    ex->fresh = block;
    ex->resident++;
}

/* --- a launch --- */
static void give_up(emu_execution *ex)
{
    for (int i = 0; i < ex->nblocks; i++) {
        emu_block *block = ex->blocks[i];
        for (int t = 0; block->live && t < block->n; t++) {
            emu_thread *thread = &block->thread[emu_order(block, t)];
            if (t < block->started && thread->state != EMU_ENDED)
                emu_fiber_restart(&threads, thread->fiber);
        }
        block->live = false;
    }
    ex->failed = true;
    ex->fresh = NULL;
    ex->head = ex->tail;
    ex->resident = 0;
    ex->next_block = ex->block_count;
}

void emu_abandon_kernel(void)
{
    static _Thread_local emu_fiber left; /* nobody goes on with it */
    emu_execution *ex = emu_now.running;
    give_up(ex);
    emu_fiber_switch(&left, &ex->scheduler);
}

static void report_stuck(emu_execution *ex)
{
    for (int i = 0; i < ex->nblocks; i++) {
        const emu_block *block = ex->blocks[i];
        int at[EMU_ENDED + 1] = {0};
        for (int t = 0; block->live && t < block->n; t++) /* no thread could go on: all have started */
            at[block->thread[t].state]++;
        if (block->live)
            emu_report(
                "sync",
                "kernel %s block (%u,%u,%u) is stuck: %d threads wait at __syncthreads (%s:%d), %d at grid.sync, "
                "%d in warp functions whose mask names lanes that do not come, %d have ended. A mask names "
                "exactly the lanes that arrive; every thread reaches every barrier",
                ex->launch->name, block->index.x, block->index.y, block->index.z, at[EMU_AT_BARRIER],
                block->arrived ? block->file : "none", block->arrived ? block->line : 0, at[EMU_AT_GRID],
                at[EMU_IN_WARP], at[EMU_ENDED]);
    }
    give_up(ex);
}

/* Every thread that could run spins. Another block may set the flag, if it may become resident; else other ops may. */
static void wait_for_others(emu_execution *ex)
{
    enum { MOST_RESIDENT = 64 };
    emu_builtins here = emu_now;
    ex->all_spin = false;
    ex->spins = 0;
    if (ex->got_on)
        ex->deadline = emu_seconds() + emu_settings.timeout;
    ex->got_on = false;
    if (ex->next_block < ex->block_count && ex->max_resident < MOST_RESIDENT) {
        ex->max_resident++;
        return;
    }
    if (emu_seconds() > ex->deadline) {
        emu_report("hang",
                   "kernel %s: every thread spins for %.1f s on a flag that nobody sets. Look for the kernel, block or "
                   "device that should call spmd_st_release",
                   ex->launch->name, emu_settings.timeout);
        give_up(ex);
        return;
    }
    emu_op_suspend();
    emu_now = here;
    ex->current = NULL;
}

static void run_blocks(emu_execution *ex, unsigned seed)
{
    ex->got_on = true;
    for (;;) {
        while (ex->resident < ex->max_resident && ex->next_block < ex->block_count)
            start_block(ex, seed);
        emu_thread *next = take_next(ex);
        if (next) {
            go(ex, &ex->scheduler, next);
            if (ex->all_spin)
                wait_for_others(ex);
        } else if (ex->resident) {
            report_stuck(ex);
        } else if (ex->next_block >= ex->block_count) {
            return;
        }
    }
}

static emu_execution *idle_execution(void)
{
    emu_execution *ex = idle_executions;
    if (ex)
        idle_executions = ex->next_idle;
    else
        ex = emu_alloc(sizeof *ex);
    return ex;
}

void emu_run_kernel(emu_op *op, void *args)
{
    const emu_launch_info *launch = args;
    emu_execution *ex = idle_execution();
    unsigned seed = emu_hash(emu_settings.seed, op->lane, op->seq);
    ex->op = op;
    ex->launch = launch;
    ex->pack = (char *)args + EMU_PACK_OFFSET;
    ex->scheduler = (emu_fiber){.stack = op->fiber->stack, .stack_size = op->fiber->stack_size};
    ex->block_count = (size_t)launch->grid.x * launch->grid.y * launch->grid.z;
    ex->next_block = 0;
    ex->max_resident = launch->cooperative                 ? (int)ex->block_count
                       : emu_settings.policy == EMU_RANDOM ? 1 + (int)(seed % 3)
                                                           : 1;
    ex->fenced = ex->failed = ex->all_spin = false;
    ex->spins = ex->grid_arrived = 0;
    ex->grid_alive = ex->block_count * launch->block.x * launch->block.y * launch->block.z;
    ex->first_epoch = ex->grid_epoch = ex->epoch;
    ex->current = ex->fresh = NULL;
    emu_now = (emu_builtins){.block_dim = launch->block, .grid_dim = launch->grid, .running = ex};
    run_blocks(ex, seed);
    if (ex->failed && op->error == cudaSuccess)
        op->error = cudaErrorLaunchFailure;
    emu_count_accesses(ex->accesses);
    ex->accesses = 0;
    emu_now = (emu_builtins){0};
    ex->next_idle = idle_executions;
    idle_executions = ex;
}
