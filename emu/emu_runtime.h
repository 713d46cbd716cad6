/* Private: what the runtime side of the emulated CUDA shares among its files. Everything here is guarded by emu_lock
 * unless it says otherwise. */
#ifndef EMU_RUNTIME_H
#define EMU_RUNTIME_H

#include "emu/emu_apis.h"
#include "emu/emu_private.h"
#include <cublas_v2.h>
#include <nccl.h>

/* --- entry of every API function: starts the emulator, counts the call, and lets emu_fail have its way --- */
/* True: emu_fail ordered that this call does nothing and returns *error. Without the lock. */
bool emu_enter(emu_api api, int *error);
/* Is this process one in which CUDA cannot work: forked after the first call, or inside a host function? Reported. */
bool emu_unusable(emu_api api, cudaError_t *error);
#define EMU_CUDA_ENTER(name)                          \
    do {                                              \
        int ordered_;                                 \
        cudaError_t error_;                           \
        if (emu_enter(EMU_API_##name, &ordered_))     \
            return emu_return((cudaError_t)ordered_); \
        if (emu_unusable(EMU_API_##name, &error_))    \
            return emu_return(error_);                \
    } while (0)
#define EMU_BLAS_ENTER(name)                      \
    do {                                          \
        int ordered_;                             \
        if (emu_enter(EMU_API_##name, &ordered_)) \
            return (cublasStatus_t)ordered_;      \
    } while (0)
#define EMU_NCCL_ENTER(name)                      \
    do {                                          \
        int ordered_;                             \
        if (emu_enter(EMU_API_##name, &ordered_)) \
            return (ncclResult_t)ordered_;        \
    } while (0)
const char *emu_api_name(emu_api api);

/* --- things that live, for emu_live --- */
typedef enum emu_thing {
    EMU_DEVICE_MEMORY,
    EMU_PINNED_MEMORY,
    EMU_STREAM,
    EMU_EVENT,
    EMU_GRAPH,
    EMU_GRAPH_EXEC,
    EMU_BLAS_HANDLE,
    EMU_NCCL_COMM,
    EMU_THINGS
} emu_thing;
void emu_born(emu_thing thing); /* without the lock, too */
void emu_died(emu_thing thing);

/* --- devices --- */
typedef struct emu_device {
    struct CUstream_st *streams, *default_stream; /* a list, the default stream first */
    pthread_cond_t wake, ended;                   /* the worker's; of host threads that wait for its ops */
    int demanded;                                 /* ops that someone waits for */
    emu_op **suspended;                           /* kernels that spin */
    int nsuspended, suspended_room;
    unsigned picks; /* choices so far */
    unsigned step;  /* runs of ops so far */
    bool busy;      /* is one running now? */
    bool asleep;    /* the worker has nothing to wait for but an op */
    cudaError_t sticky;
    uint64_t peers; /* bit d: may touch memory of device d */
} emu_device;
extern emu_device *emu_devices;
enum { EMU_MAX_DEVICES = 64 };

pthread_mutex_t *emu_mutex(void); /* of emu_lock: to wait with */
int emu_current_device(void);     /* of this thread; without the lock */
void emu_set_current_device(int device);
bool emu_valid_device(int device);

/* --- work and streams --- */
/* How an op of several streams runs. Every function is called with the lock. */
typedef struct emu_binding {
    void (*bind)(emu_op *op);   /* issued; for a graph, at every launch */
    bool (*arrive)(emu_op *op); /* it is its turn. true: run fn now and call depart; false: another op will end it */
    void (*depart)(emu_op *op); /* fn has run: end the ops that are complete */
    void (*demand)(emu_op *op); /* someone waits for it: demand its partners, too */
    int (*describe)(const emu_op *op, char *text, size_t size); /* whom it waits for; as snprintf */
} emu_binding;

/* What an op does, before it is on a stream; also a node of a graph. */
typedef struct emu_work {
    emu_op_kind kind;
    const char *name;
    emu_op_fn *fn;
    const void *args; /* copied by whoever keeps it */
    size_t size;
    const emu_binding *binding; /* NULL but for collectives */
} emu_work;

struct CUstream_st {
    int device, priority;
    unsigned flags;
    uint32_t lane, seq;  /* seq: of the newest op */
    uint32_t collective; /* seq of the newest collective; 0: none */
    emu_op *head, *tail;
    emu_op *undemanded; /* the first op that nobody waits for: those before it are demanded */
    emu_clock clock;    /* what has happened before its next op */
    bool internal;      /* a lane of a graph */
    bool destroyed;
    struct emu_capture *capture; /* NULL: it runs what it gets */
    int capture_lane;
    int *front, nfront;       /* nodes of the capture that the next one depends on */
    struct CUstream_st *next; /* of the device */
};

struct CUstream_st *emu_stream_new(int device, unsigned flags, int priority, bool internal);
void emu_stream_delete(struct CUstream_st *stream); /* which is empty */
/* The stream that a handle means; NULL and reported: it was destroyed. */
struct CUstream_st *emu_stream_of(cudaStream_t handle, const char *what);

/* Appends the work; deps must end first. */
emu_op *emu_issue(struct CUstream_st *stream, const emu_work *work, emu_op *const *deps, int ndeps);
void emu_op_keep(emu_op *op);
void emu_op_drop(emu_op *op); /* NULL: nothing */
void emu_demand(emu_op *op);
void emu_finish(emu_op *op);
/* Waits until the op has ended (NULL: it has) or the timeout is over, which is reported with the heads of all queues
 * and left on the device. Raises the host's clock. `what` is the API function. Gives up the lock meanwhile. */
cudaError_t emu_wait(emu_op *op, const char *what);
cudaError_t emu_wait_stream(struct CUstream_st *stream, const char *what);
cudaError_t emu_wait_device(int device, const char *what); /* for what its streams have now */
/* emu_wait for anything else: waits for a change of state that emu_wake_host announces. false: the deadline is over. */
bool emu_wait_host(double deadline);
void emu_wake_host(void);
/* A sleep without the lock for a poll (cudaEventQuery, ncclCommGetAsyncError): lets the workers run. */
void emu_yield(void);
void *emu_worker(void *device); /* the thread */
/* Work with a binding; otherwise emu_enqueue. Without the lock. */
cudaError_t emu_enqueue_work(cudaStream_t stream, const emu_work *work);
/* "a collective may be in flight on this device", if so reported: call must not happen then. */
void emu_check_idle_of_collectives(int device, const char *call);
/* The op reads or writes memory that a library was given: for the checker, and that devices can reach it at all. */
void emu_use(emu_op *op, const void *p, size_t size, bool write);
/* Reports, and true, when handle's device, stream's device and the current one differ. Without the lock. */
bool emu_wrong_device(const char *call, int device, cudaStream_t stream);

/* --- capture --- */
/* true, and reported: a capture forbids this call, and is now invalid. Without the lock. */
bool emu_capture_forbids(const char *call);
cudaError_t emu_capture_work(struct CUstream_st *stream, const emu_work *work); /* instead of emu_issue */
void emu_capture_spoil(struct CUstream_st *stream);                             /* its capture becomes invalid */
void emu_capture_leave(struct CUstream_st *stream);                             /* the same, and it is gone */
/* false, and reported: the default stream of this device may not be used while a stream that it waits for captures. */
bool emu_capture_allows_default(int device, const char *call);
cudaError_t emu_capture_record(struct CUstream_st *stream, cudaEvent_t event);
cudaError_t emu_capture_wait(struct CUstream_st *stream, cudaEvent_t event);
void emu_capture_forget(cudaEvent_t event);

struct CUevent_st {
    int device;
    unsigned flags;
    emu_op *last;                /* of the newest record; NULL: none */
    struct emu_capture *capture; /* recorded in this capture */
    int *front, nfront;
    unsigned polls;
};

/* --- memory --- */
void emu_memory_start(void);
cudaError_t emu_memory_new(int slot, size_t size, const char *call, void **out);
cudaError_t emu_memory_delete(void *p, const char *call);
size_t emu_memory_used(int slot);
size_t emu_memory_total(void); /* of each device */
/* The start and size of the allocation that holds p; false: none. */
bool emu_memory_find(const void *p, char **start, size_t *size);
bool emu_is_pinned(const void *p); /* by cudaMallocHost, cudaHostAlloc or cudaHostRegister */

/* --- libraries --- */
enum { EMU_BLAS_WORKSPACE = 4096 }; /* what the products that use one want of it */

#endif
