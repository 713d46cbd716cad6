/* What a kernel's threads call: barriers, warp functions, shared memory, asynchronous copies, spinning. */
#include "emu/emu_kernel.h"
#include <string.h>

/* --- shared memory --- */
void *emu_smem_dynamic(void)
{
    return emu_now.thread->block->smem;
}

static void *too_much_smem(const emu_block *block, const char *name, size_t size)
{
    const emu_execution *ex = emu_now.running;
    emu_report(
        "launch",
        "kernel %s: shared variable %s of %zu bytes beside %zu static and %zu dynamic ones. nvcc accepts %d bytes "
        "of static shared memory, a block has %d in all: use SPMD_SMEM_DYN, or smaller tiles",
        ex->launch->name, name, size, block->static_size, block->dynamic_size, EMU_STATIC_SMEM, EMU_MAX_SMEM);
    emu_fatal("kernel %s cannot go on without its shared variable %s", ex->launch->name, name);
}

void *emu_smem(const void *tag, const char *name, size_t size, size_t align)
{
    emu_block *block = emu_now.thread->block;
    for (int i = 0; i < block->variables; i++)
        if (block->variable[i].tag == tag)
            return block->smem + block->variable[i].offset;
    if (align < 16)
        align = 16;
    size_t offset = (block->smem_used + EMU_SMEM_GAP + align - 1) & ~(align - 1);
    if (block->variables == EMU_MAX_VARIABLES || block->static_size + size > EMU_STATIC_SMEM ||
        block->static_size + size + block->dynamic_size > EMU_MAX_SMEM)
        return too_much_smem(block, name, size);
    block->variable[block->variables++] = (emu_variable){tag, name, offset, size};
    block->static_size += size;
    block->smem_used = offset + size;
    memset(block->smem + offset, 0xff, size);
    if (block->shadow)
        emu_shadow_variable(block, offset, size);
    return block->smem + offset;
}

/* --- barriers --- */
void emu_release_barrier(emu_execution *ex, emu_block *block, emu_thread *self)
{
    if (block->alive < block->n)
        emu_report(
            "sync",
            "kernel %s block (%u,%u,%u): %d of %d threads ended without reaching the barrier at %s:%d. Every thread "
            "of a block must reach it: guard the work, not the barrier",
            ex->launch->name, block->index.x, block->index.y, block->index.z, block->n - block->alive, block->n,
            block->file, block->line);
    block->arrived = 0;
    block->result = block->votes;
    block->votes = 0;
    emu_new_epoch(ex, block);
    for (int i = 0; i < block->n; i++) {
        emu_thread *thread = &block->thread[emu_order(block, i)];
        if (thread->state == EMU_AT_BARRIER && thread != self)
            emu_make_runnable(ex, thread);
    }
}

int emu_syncthreads(const char *file, int line, bool predicate)
{
    emu_execution *ex = emu_now.running;
    emu_thread *thread = emu_now.thread;
    emu_block *block = thread->block;
    emu_got_on(ex);
    if (!block->arrived) {
        block->file = file;
        block->line = line;
        block->first = thread->linear;
    } else if (block->line != line || strcmp(block->file, file) != 0) {
        emu_report("sync",
                   "kernel %s block (%u,%u,%u): threads wait at different barriers: thread %d at %s:%d, thread %d at "
                   "%s:%d. All threads of a block must reach the same __syncthreads",
                   ex->launch->name, block->index.x, block->index.y, block->index.z, block->first, block->file,
                   block->line, thread->linear, file, line);
    }
    block->votes += predicate;
    if (++block->arrived == block->alive) {
        emu_release_barrier(ex, block, thread);
    } else {
        thread->state = EMU_AT_BARRIER;
        emu_wait_here();
    }
    return block->result;
}

void emu_try_grid(emu_execution *ex, emu_thread *self)
{
    if (!ex->grid_arrived || ex->grid_arrived != ex->grid_alive)
        return;
    ex->grid_arrived = 0;
    ex->grid_epoch = ex->epoch;
    for (int i = 0; i < ex->nblocks; i++) {
        emu_block *block = ex->blocks[i];
        if (block->live)
            emu_new_epoch(ex, block);
        for (int t = 0; block->live && t < block->n; t++) {
            emu_thread *thread = &block->thread[emu_order(block, t)];
            if (thread->state == EMU_AT_GRID && thread != self)
                emu_make_runnable(ex, thread);
        }
    }
}

void emu_sync_grid(const char *file, int line)
{
    emu_execution *ex = emu_now.running;
    emu_thread *thread = emu_now.thread;
    if (!ex->launch->cooperative) {
        emu_report(
            "sync",
            "kernel %s calls grid.sync at %s:%d, but was not launched by SPMD_LAUNCH_COOPERATIVE: its blocks need "
            "not run at the same time",
            ex->launch->name, file, line);
        ex->failed = true;
        return;
    }
    emu_got_on(ex);
    ex->grid_arrived++;
    thread->state = EMU_AT_GRID;
    emu_try_grid(ex, thread);
    if (ex->grid_arrived)
        emu_wait_here();
    else
        thread->state = EMU_RUNNABLE;
}

/* --- warp functions --- */
static const char *const meeting_names[] = {"__syncwarp", "a shuffle", "a vote", "a matrix function"};

void emu_try_meeting(emu_execution *ex, emu_block *block, emu_convergence *meeting, emu_thread *self)
{
    int warp = meeting->warp;
    unsigned awaited = meeting->mask & emu_warp_lanes(block, warp) & ~block->exited[warp];
    if (meeting->complete || (meeting->arrived & awaited) != awaited)
        return;
    meeting->complete = true;
    meeting->to_read = __builtin_popcount(meeting->arrived);
    /* Only __syncwarp orders what lanes do to memory: CUDA promises it of no other warp function. */
    if (meeting->kind == EMU_SYNCWARP)
        block->warp_epoch[warp]++;
    for (int lane = 0; lane < EMU_WARP; lane++) {
        emu_thread *thread = &block->thread[warp * EMU_WARP + lane];
        if (meeting->arrived >> lane & 1 && thread != self)
            emu_make_runnable(ex, thread);
    }
}

/* The meeting of this mask that waits for this lane, or a new one. */
static emu_convergence *find_meeting(emu_block *block, int warp, int lane, unsigned mask)
{
    emu_convergence *unused = NULL;
    for (emu_convergence *c = block->meetings; c; c = c->next) {
        if (c->unused)
            unused = c;
        else if (c->warp == warp && !c->complete && c->mask == mask && !(c->arrived >> lane & 1))
            return c;
    }
    if (!unused) {
        unused = emu_alloc(sizeof *unused);
        unused->next = block->meetings;
        block->meetings = unused;
    }
    unused->arrived = 0;
    unused->unused = unused->complete = false;
    unused->mask = mask;
    unused->warp = warp;
    return unused;
}

emu_convergence *emu_converge(unsigned mask, emu_meeting kind, uint64_t value, const char *file, int line)
{
    emu_execution *ex = emu_now.running;
    emu_thread *thread = emu_now.thread;
    emu_block *block = thread->block;
    int warp = thread->linear / EMU_WARP, lane = thread->linear % EMU_WARP;
    if (!(mask >> lane & 1))
        emu_report(
            "sync",
            "kernel %s block (%u,%u,%u) thread %d: lane %d calls %s at %s:%d with mask %08x, which leaves it out. "
            "A mask names exactly the lanes that arrive",
            ex->launch->name, block->index.x, block->index.y, block->index.z, thread->linear, lane, meeting_names[kind],
            file, line, mask);
    emu_convergence *meeting = find_meeting(block, warp, lane, mask);
    if (!meeting->arrived) {
        meeting->kind = kind;
        meeting->file = file;
        meeting->line = line;
    } else if (meeting->kind != kind) {
        emu_report(
            "sync",
            "kernel %s block (%u,%u,%u): lanes of warp %d meet in different warp functions: %s at %s:%d and %s at "
            "%s:%d. All lanes of the mask must call the same one",
            ex->launch->name, block->index.x, block->index.y, block->index.z, warp, meeting_names[meeting->kind],
            meeting->file, meeting->line, meeting_names[kind], file, line);
    }
    meeting->arrived |= 1u << lane;
    meeting->value[lane] = value;
    thread->state = EMU_IN_WARP;
    emu_try_meeting(ex, block, meeting, thread);
    if (meeting->complete)
        thread->state = EMU_RUNNABLE;
    else
        emu_wait_here();
    return meeting;
}

uint64_t emu_value_of(const emu_convergence *meeting, int lane)
{
    const emu_thread *thread = emu_now.thread;
    if (meeting->arrived >> lane & 1)
        return meeting->value[lane];
    emu_report("sync",
               "kernel %s block (%u,%u,%u) thread %d: a shuffle at %s:%d reads lane %d, which does not take part (mask "
               "%08x, arrived %08x). Lanes must not end or branch away before it",
               emu_now.running->launch->name, thread->block->index.x, thread->block->index.y, thread->block->index.z,
               thread->linear, meeting->file, meeting->line, lane, meeting->mask, meeting->arrived);
    return 0xdeadbeefdeadbeefull;
}

unsigned emu_arrived(const emu_convergence *meeting)
{
    return meeting->arrived;
}

void emu_release(emu_convergence *meeting)
{
    if (--meeting->to_read == 0)
        meeting->unused = true;
}

/* --- spinning --- */
void emu_spin(void)
{
    emu_execution *ex = emu_now.running;
    emu_thread *thread = emu_now.thread;
    emu_make_runnable(ex, thread);
    if (++ex->spins > ex->tail - ex->head && !(ex->fresh && ex->fresh->started < ex->fresh->n))
        emu_yield_spinning(ex, thread);
    else
        emu_wait_here();
}

void emu_fence(void)
{
    emu_now.running->fenced = true;
}

void emu_trap(const char *file, int line)
{
    emu_execution *ex = emu_now.running;
    emu_report("launch", "kernel %s: thread %d calls __trap at %s:%d", ex->launch->name, emu_now.thread->linear, file,
               line);
    ex->failed = true;
}

/* --- asynchronous copies --- */
void emu_copy_async(void *to, const void *from, size_t size, size_t zeros)
{
    emu_thread *thread = emu_now.thread;
    if ((size != 4 && size != 8 && size != 16) || (uintptr_t)to % size || (uintptr_t)from % size || zeros > size)
        emu_report("cp.async",
                   "kernel %s thread %d: an asynchronous copy of %zu bytes (%zu zeros) from %p to %p. It moves 4, 8 or "
                   "16 bytes between addresses that are multiples of its size",
                   emu_now.running->launch->name, thread->linear, size, zeros, from, to);
    if (thread->copies == thread->copy_capacity) {
        thread->copy_capacity = 2 * thread->copy_capacity + 8;
        thread->copy = emu_resize(thread->copy, (size_t)thread->copy_capacity * sizeof *thread->copy);
    }
    thread->copy[thread->copies++] = (emu_async_copy){to, from, size, zeros < size ? zeros : size, thread->groups};
}

void emu_copy_commit(void)
{
    emu_now.thread->groups++;
}

void emu_copy_wait(size_t prior)
{
    emu_thread *thread = emu_now.thread;
    int kept = 0;
    for (int i = 0; i < thread->copies; i++) {
        const emu_async_copy *copy = &thread->copy[i];
        if (copy->group + (int)prior >= thread->groups) {
            thread->copy[kept++] = *copy;
            continue;
        }
        emu_check_async_copy(copy, __builtin_return_address(0));
        memcpy(copy->to, copy->from, copy->size - copy->zeros);
        memset((char *)copy->to + copy->size - copy->zeros, 0, copy->zeros);
    }
    thread->copies = kept;
}
