/* Private: what the checker keeps about memory, and its logic of order inside of a launch. */
#ifndef EMU_CHECK_H
#define EMU_CHECK_H

#include "emu/emu_kernel.h"
#include "emu/emu_report.h"

/* Who touched memory last inside of a launch, and when: in which interval between barriers of its block (epoch), in
 * which between __syncwarp of its warp. */
typedef struct emu_trace {
    uint32_t epoch; /* 0: nobody */
    uint16_t warp_epoch, who;
    uint32_t site; /* the low half of the address of its code */
} emu_trace;

/* emu_trace.who: a thread (maybe | EMU_ATOMIC); of readers also several lanes of a warp, several warps, or blocks. */
enum { EMU_ATOMIC = 0x8000, EMU_LANES = 0x400, EMU_WARPS = 0x800, EMU_BLOCKS = 0x1000 };

static inline emu_trace emu_trace_now(const emu_thread *thread, bool atomic, const void *site)
{
    const emu_block *block = thread->block;
    return (emu_trace){block->epoch, block->warp_epoch[thread->linear / EMU_WARP],
                       (uint16_t)(thread->linear | (atomic ? EMU_ATOMIC : 0)), (uint32_t)(uintptr_t)site};
}

static inline bool emu_same_warp(emu_trace before, emu_trace now)
{
    int warp = (now.who & (EMU_MAX_THREADS - 1)) / EMU_WARP;
    if (before.who & (EMU_WARPS | EMU_BLOCKS))
        return false;
    return warp ==
           (before.who & EMU_LANES ? before.who & (EMU_LANES - 1) : (before.who & (EMU_MAX_THREADS - 1)) / EMU_WARP);
}

/* Whether what `before` says happened before `now`, which the running thread does. Both are of this launch. */
static inline bool emu_trace_ordered(const emu_execution *ex, const emu_block *block, emu_trace before, emu_trace now)
{
    if (!before.epoch || before.epoch <= ex->grid_epoch || (before.who & now.who & EMU_ATOMIC))
        return true;
    if (before.epoch == now.epoch)
        return ((before.who ^ now.who) & ~EMU_ATOMIC) == 0 ||
               (emu_same_warp(before, now) && before.warp_epoch != now.warp_epoch);
    if (!(before.who & EMU_BLOCKS) && ex->epoch_block[before.epoch - ex->first_epoch] == block->linear)
        return true;   /* a barrier stands between */
    return ex->fenced; /* blocks that order themselves by atomics and fences: not followed */
}

/* A further reader. One that comes after the others stands for all of them. */
static inline void emu_trace_add_reader(const emu_execution *ex, const emu_block *block, emu_trace *readers,
                                        emu_trace now)
{
    emu_trace before = *readers;
    if (before.epoch == now.epoch && before.who == now.who && before.warp_epoch == now.warp_epoch)
        return;
    *readers = now;
    if (emu_trace_ordered(ex, block, before, now) && before.epoch != 0)
        return;
    if (!before.epoch)
        return;
    if (before.epoch != now.epoch)
        *readers = (emu_trace){before.epoch > now.epoch ? before.epoch : now.epoch, 0, EMU_BLOCKS, now.site};
    else if (emu_same_warp(before, now))
        readers->who = (uint16_t)(EMU_LANES | (now.who & (EMU_MAX_THREADS - 1)) / EMU_WARP);
    else
        readers->who = (uint16_t)(before.who & EMU_BLOCKS ? EMU_BLOCKS : EMU_WARPS);
}

/* The writer to keep when `now` writes after `before`: atomics that nothing orders are kept together, for plain
 * accesses race with each of them. */
static inline emu_trace emu_trace_writer(const emu_execution *ex, const emu_block *block, emu_trace before,
                                         emu_trace now)
{
    if (!(before.who & now.who & EMU_ATOMIC))
        return now;
    before.who &= (uint16_t)~EMU_ATOMIC;
    now.who &= (uint16_t)~EMU_ATOMIC;
    emu_trace_add_reader(ex, block, &before, now);
    before.who |= EMU_ATOMIC;
    return before;
}

/* "thread 3 wrote at tile.cu:12", "several threads of warp 1 read at ...". `near` is an address of the same program. */
void emu_trace_text(emu_trace trace, bool write, const void *near, char *text, size_t size);

/* One access, as the shadows look at it. */
typedef struct emu_access {
    emu_op *op;
    emu_execution *ex; /* NULL: an op of a library */
    emu_block *block;
    emu_trace now; /* epoch 0: an op of a library */
    const void *address, *site;
    size_t size;
    bool write;
} emu_access;

void emu_smem_access(const emu_access *access, size_t offset);

/* A flag of spmd_ld_acquire and spmd_st_release: it is not ordered, it orders. */
void emu_flag_access(const emu_access *access);

/* Any memory access of code that is compiled for checking. */
void emu_observe(const void *p, size_t size, bool write, bool atomic, const void *site);

/* Whether the op with this id happened before op. */
bool emu_happened(uint32_t id, const emu_op *op);
/* Readers of a word: 0, an op's id, or a set of ids. */
uint32_t emu_readers_add(uint32_t readers, const emu_op *op);
uint32_t emu_readers_conflict(uint32_t readers, const emu_op *op); /* one that did not happen before op, or 0 */

typedef struct emu_op_info {
    const char *name;
    uint32_t lane, seq;
} emu_op_info;
const emu_op_info *emu_info(uint32_t id);

/* Findings about global memory. */
void emu_found_state(const emu_access *access, bool freed);
void emu_found_unwritten(const emu_access *access);
void emu_found_race(const emu_access *access, emu_trace other, bool other_writes);
void emu_found_stream_race(const emu_access *access, uint32_t other, bool other_writes);
void emu_found_peer(const emu_access *access, int place);
void emu_found_host_memory(const emu_access *access);

/* The checker's own id for bytes behind an allocation's end. */
enum { EMU_NO_BYTE = 0x7fffffff };

#endif
