/* Private: what the two sides of the emulated CUDA share. The runtime side (memory, streams, graphs, libraries) makes
 * ops and chooses the order in which they run; the device side runs the threads of a kernel and checks what every op
 * touches. One worker thread a device runs its ops. */
#ifndef EMU_PRIVATE_H
#define EMU_PRIVATE_H

#include "emu/emu.h"
#include "emu/emu_intrinsics.h"
#include <pthread.h>

/* Each emulated device has this many multiprocessors; it bounds cooperative launches. */
enum { EMU_MULTIPROCESSORS = 4 };

/* --- ops --- */
typedef enum emu_op_kind {
    EMU_MARK, /* an event, the begin or end of a graph: does nothing */
    EMU_KERNEL,
    EMU_COPY,
    EMU_BLAS,
    EMU_COLLECTIVE,
    EMU_HOST_FUNCTION,
} emu_op_kind;

/* at[lane]: the newest op of that lane that is known to have ended. Every stream, also those inside a graph, is a lane;
 * lane 0 is the host. */
typedef struct emu_clock {
    uint32_t *at;
    uint32_t n;
} emu_clock;

typedef struct emu_op emu_op;
typedef void emu_op_fn(emu_op *op, void *args);

/* A piece of work on a stream. The runtime makes it and frees it; fields below `error` are the runtime's own. */
struct emu_op {
    emu_op_kind kind;
    const char *name; /* for reports; from emu_intern */
    emu_op_fn *fn;    /* NULL: nothing to do */
    void *args;       /* a copy, aligned for any type */
    size_t size;
    int device;
    uint32_t lane, seq; /* its stream's lane, and its place there, from 1 */
    uint32_t id;        /* what the shadow memory keeps; see emu_check_begin */
    /* What happened before it. Issuing: the host's clock, and at[0] = ++emu_host.seq. Starting: joined with its
     * stream's clock and its dependencies'; at[lane] = seq. The op may raise it (flags of other kernels). Ending:
     * joined into its stream's. */
    emu_clock clock;
    struct emu_fiber *fiber; /* of a started op that has not ended */
    cudaError_t error;       /* what it did to its device: sticky */

    struct CUstream_st *stream;
    emu_op **deps; /* other streams' ops that must end first */
    int ndeps, refs, waiters;
    bool running, done, demanded;
    uint64_t watchers;                 /* bit d: an op of device d depends on it */
    unsigned order;                    /* of issuing, on all streams */
    emu_op *next;                      /* of the same stream */
    const struct emu_binding *binding; /* a collective: how its ranks meet */
    void *meeting;                     /* and where */
};

/* --- runtime side: used by the device side --- */
extern struct emu_settings {
    int devices;
    emu_policy policy;
    unsigned seed;
    double timeout; /* seconds */
} emu_settings;
const char *emu_policy_name(void); /* as EMU_POLICY says it */

/* All memory that devices can address is one reservation: a slot for each device, then one for pinned host memory.
 * Fresh device memory is filled with 0xff, NaN as a float. */
extern struct emu_memory {
    char *base;
    size_t slot; /* bytes a slot */
    int devices; /* slots before the pinned one */
} emu_memory;

enum { EMU_ELSEWHERE = -1 };
/* The device that owns the address; emu_memory.devices: pinned host memory; EMU_ELSEWHERE: other host memory. */
static inline int emu_place_of(const void *p)
{
    size_t offset = (size_t)((const char *)p - emu_memory.base);
    return emu_memory.base && offset < emu_memory.slot * ((size_t)emu_memory.devices + 1)
               ? (int)(offset / emu_memory.slot)
               : EMU_ELSEWHERE;
}

/* The host as the checker sees it. All host threads are one lane. Guarded by emu_lock. */
extern struct emu_host {
    emu_clock clock; /* what the host has waited for */
    uint32_t seq;    /* ops issued so far */
} emu_host;

void emu_init(void); /* at the head of every API function; starts everything at the first call */
void emu_lock(void); /* guards the streams, ops and clocks; not held while an op runs */
void emu_unlock(void);
double emu_seconds(void);                /* monotonic */
bool emu_peer_allowed(int from, int to); /* true for from == to; without the lock */
/* Text about the allocation at or nearest to p: "64 bytes behind the 4096 bytes that cudaMalloc returned at 0x... on
 * device 0", "inside ... (freed)", or that there is none. Takes the lock. */
void emu_describe_memory(const void *p, char *text, size_t size);
size_t emu_smem_limit(const void *kernel); /* dynamic shared memory that a launch may ask for */
/* Appends an op with a copy of args to the stream (NULL: the current device's default stream), or to the graph that the
 * stream captures. */
cudaError_t emu_enqueue(cudaStream_t stream, emu_op_kind kind, const char *name, emu_op_fn *fn, const void *args,
                        size_t size);
bool emu_injected(const char *function, cudaError_t *error); /* emu_fail: this call is the one that fails */
cudaError_t emu_return(cudaError_t error);                   /* remembers it for cudaGetLastError */

/* --- device side: used by the runtime side --- */
/* Runs the op on the calling thread, which is its device's worker, until it ends (true) or is suspended (false). Call
 * it again, on the same thread, to go on. */
bool emu_op_step(emu_op *op);
void emu_op_suspend(void);    /* from inside an op */
emu_op *emu_current_op(void); /* NULL: host code */

/* Lets a worker survive and report wild accesses of kernels. Once a process; once a worker thread. */
void emu_catch_faults(void);
void emu_catch_faults_here(void);

void emu_clock_join(emu_clock *into, const emu_clock *from);
void emu_clock_raise(emu_clock *clock, uint32_t lane, uint32_t seq); /* at[lane] = max(at[lane], seq) */
void emu_clock_free(emu_clock *clock);
static inline uint32_t emu_clock_at(const emu_clock *clock, uint32_t lane)
{
    return lane < clock->n ? clock->at[lane] : 0;
}

/* A finding. `kind` is one of emu.h's. Say what happened, where, and the remedy. Any thread, with or without the lock.
 */
void emu_report(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The checker sees kernels that are compiled for it, and what is told here. Nothing is kept unless a part of the
 * program is compiled for checking (emu_checking). Ranges outside of emu_memory are ignored. */
bool emu_checking(void);
void emu_check_begin(emu_op *op);                 /* when it starts, its clock complete: gives it its id */
void emu_check_alloc(const void *p, size_t size); /* fresh: not written */
void emu_check_free(const void *p, size_t size);  /* any access is "memcheck" until it is allocated again */
void emu_check_read(emu_op *op, const void *p, size_t size);
void emu_check_write(emu_op *op, const void *p, size_t size);
/* dst gets src's bytes: what is not written there is not written here, which is no finding between devices. */
void emu_check_copy(emu_op *op, void *dst, const void *src, size_t size);

/* --- helpers of both --- */
void *emu_alloc(size_t size); /* zeros; never NULL: ends the process with a message instead */
void *emu_resize(void *p, size_t size);
const char *emu_intern(const char *text); /* a copy without enclosing parentheses, for ever, one for equal texts */
unsigned emu_hash(unsigned a, unsigned b, unsigned c); /* the seeded choices */
void emu_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
