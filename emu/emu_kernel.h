/* Private: a kernel while it runs. The threads of a block are fibers on the device's one OS thread. */
#ifndef EMU_KERNEL_H
#define EMU_KERNEL_H

#include "emu/emu_fiber.h"
#include "emu/emu_private.h"

enum {
    EMU_WARP = 32,
    EMU_MAX_THREADS = 1024,
    EMU_MAX_WARPS = EMU_MAX_THREADS / EMU_WARP,
    EMU_MAX_VARIABLES = 32,
    EMU_STATIC_SMEM = 48 << 10, /* what nvcc accepts */
    EMU_MAX_SMEM = 227 << 10,
    EMU_SMEM_GAP = 64, /* between variables, so that an overrun is one */
    EMU_SMEM_SLOT = EMU_MAX_SMEM + EMU_MAX_VARIABLES * 2 * EMU_SMEM_GAP,
};

/* cp.async: the bytes move when the thread waits, so that a missing wait reads what was there before. */
typedef struct emu_async_copy {
    void *to;
    const void *from;
    size_t size, zeros;
    int group;
} emu_async_copy;

typedef enum emu_thread_state { EMU_RUNNABLE, EMU_AT_BARRIER, EMU_AT_GRID, EMU_IN_WARP, EMU_ENDED } emu_thread_state;

typedef struct emu_thread {
    emu_fiber *fiber; /* NULL before it starts */
    struct emu_block *block;
    uint3 index;
    int linear;
    emu_thread_state state;
    int copies, copy_capacity, groups;
    emu_async_copy *copy;
} emu_thread;

/* Lanes of one warp that meet in a warp function. */
struct emu_convergence {
    unsigned mask, arrived;
    int to_read; /* lanes that have not read their values */
    emu_meeting kind;
    int warp, line;
    const char *file;
    bool complete, unused;
    uint64_t value[EMU_WARP];
    struct emu_convergence *next;
};

typedef struct emu_variable {
    const void *tag;
    const char *name;
    size_t offset, size;
} emu_variable;

typedef struct emu_block {
    uint3 index;
    uint32_t linear;
    int n, alive, started;
    bool live;
    unsigned stride, offset; /* the order of its threads */
    /* the barrier that threads wait at: where the first one waits, how many, how many with a true predicate */
    const char *file;
    int line, first, arrived, votes, result;
    /* Intervals between barriers: `epoch` counts in the whole execution, `base` is the block's first, `warp_epoch`
     * counts the __syncwarp of each warp. */
    uint32_t epoch, base;
    uint16_t warp_epoch[EMU_MAX_WARPS];
    unsigned exited[EMU_MAX_WARPS]; /* lanes */
    char *smem;
    size_t smem_used, dynamic_size, static_size;
    emu_variable variable[EMU_MAX_VARIABLES];
    int variables;
    struct emu_smem_shadow *shadow; /* NULL: not checked */
    emu_convergence *meetings;
    emu_thread *thread; /* capacity of them */
    int capacity;
    struct emu_block *next_fresh;
} emu_block;

typedef struct emu_execution {
    emu_op *op;
    const emu_launch_info *launch;
    void *pack;
    emu_fiber scheduler; /* the op's own fiber */
    /* threads that may run: a ring */
    emu_thread **queue;
    size_t head, tail, queue_mask;
    emu_block *fresh; /* blocks with threads that have not started */
    emu_block *current;
    emu_block **blocks;
    int nblocks, resident, max_resident;
    size_t next_block, block_count; /* of the grid */
    size_t spins;                   /* since a thread last got on */
    double deadline;
    bool got_on, all_spin, fenced, failed;
    size_t grid_arrived, grid_alive; /* threads, of a cooperative launch */
    /* Epochs never repeat within an execution, whose memory serves many launches: first_epoch is this launch's, and
     * epochs up to grid_epoch happened before everything since. epoch_block[epoch - first_epoch]: whose it is. */
    uint32_t epoch, first_epoch, grid_epoch;
    uint32_t *epoch_block;
    size_t epoch_capacity;
    unsigned long accesses;
    struct emu_execution *next_idle;
} emu_execution;

/* The op function of a kernel: args is an emu_launch_info, its pack at EMU_PACK_OFFSET. */
enum { EMU_PACK_OFFSET = (sizeof(emu_launch_info) + 15) / 16 * 16 };
void emu_run_kernel(emu_op *op, void *args);
/* In a signal handler of a kernel's thread: ends the launch and leaves for its scheduler. Does not return. */
void emu_abandon_kernel(void);

void emu_wait_here(void); /* the running thread, whose state says for what */
void emu_make_runnable(emu_execution *ex, emu_thread *thread);
void emu_new_epoch(emu_execution *ex, emu_block *block);
void emu_try_meeting(emu_execution *ex, emu_block *block, emu_convergence *meeting, emu_thread *self);
void emu_release_barrier(emu_execution *ex, emu_block *block, emu_thread *self);
void emu_try_grid(emu_execution *ex, emu_thread *self);
void emu_yield_spinning(emu_execution *ex, emu_thread *thread);

static inline void emu_got_on(emu_execution *ex)
{
    ex->spins = 0;
    ex->got_on = true;
}

static inline int emu_order(const emu_block *block, int i)
{
    return (int)((block->offset + (uint64_t)(unsigned)i * block->stride) % (unsigned)block->n);
}

static inline unsigned emu_warp_lanes(const emu_block *block, int warp)
{
    int rest = block->n - warp * EMU_WARP;
    return rest >= EMU_WARP ? 0xffffffffu : (1u << rest) - 1;
}

/* --- the checker's part --- */
struct emu_smem_shadow *emu_shadow_new(void);
void emu_shadow_start(emu_block *block);                                 /* a block starts */
void emu_shadow_variable(emu_block *block, size_t offset, size_t size);  /* memory that it may use */
void emu_check_async_copy(const emu_async_copy *copy, const void *site); /* when the bytes move */
unsigned long emu_count_accesses(unsigned long more);

#endif
