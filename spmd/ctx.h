/* Private: the structs behind a mesh, its devices, a launch and a shard's context. */
#ifndef SPMD_CTX_H
#define SPMD_CTX_H

#include "spmd/backend.h"
#include "spmd/error.h"
#include "spmd/known.h"
#include "spmd/recorder.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef enum spmd_fate { SPMD_FATE_OPEN, SPMD_FATE_POISONED, SPMD_FATE_COMMITTED } spmd_fate;

typedef struct spmd_chunk {
    struct spmd_chunk *next;
    char *memory;
    size_t size, used;
} spmd_chunk;

/* Bump allocation for one launch. Chunks stay for the next launch, so that a repeated step allocates nothing. */
typedef struct spmd_arena {
    spmd_mesh *mesh;
    size_t fixed; /* not 0: device memory, taken once and given by the backend; these bytes and no more */
    spmd_chunk *first, *current;
    size_t used; /* bytes handed out in this launch */
} spmd_arena;

void *spmd__arena_get(spmd_arena *arena, size_t bytes); /* 64-byte aligned; NULL with the error text set */
typedef struct spmd_mark {
    spmd_chunk *chunk;
    size_t used, total;
} spmd_mark;
static inline spmd_mark spmd__arena_mark(const spmd_arena *arena)
{
    return (spmd_mark){arena->current, arena->current ? arena->current->used : 0, arena->used};
}
void spmd__arena_release(spmd_arena *arena, spmd_mark mark); /* what was taken since then is free again */
bool spmd__arena_holds(const spmd_arena *arena, const void *memory);
void spmd__arena_reset(spmd_arena *arena);
void spmd__arena_free(spmd_arena *arena);

struct spmd_ctx {
    spmd_mesh *mesh;
    spmd_device *device;
    spmd_arena *arena; /* of the thread that uses this context */
    spmd_arena *data;  /* of values: the same, or the device's own memory */
    int id, coord[SPMD_MAX_AXES];
    pthread_t thread;
    uint32_t launch, next_id;
    const char *site;                            /* where the user's present call stands */
    uint64_t stream_hash;                        /* of every op's name, attributes and shapes */
    uint32_t *valid_from, nslots, slot_capacity; /* by memory slot: older values of it are stale (spmd_donate) */
    spmd_call *tape;
    int ntape, tape_capacity, depth;  /* depth: value_and_grad calls whose loss function runs */
    unsigned loss_axes;               /* A of semantics: axes on which the loss being differentiated varies */
    bool transposing;                 /* collectives issued now are implied by transposition */
    struct spmd_program *program;     /* being recorded; NULL: ops run */
    struct spmd_automatic *automatic; /* how the user's values lie (spmd/auto.h); NULL: explicit mode */
};

typedef struct spmd_slot {
    const void *key;
    void *value;
    void (*destroy)(void *);
    struct spmd_slot *next;
} spmd_slot;

struct spmd_device {
    spmd_mesh *mesh;
    int id;
    pthread_t thread;
    spmd_arena arena;
    spmd_arena data; /* of a remote device: its values */
    spmd_slot *slots;
    uint32_t meetings[1 << SPMD_MAX_AXES]; /* sequence of the last meeting, by mask of axes */
    spmd_recorder recorder;
    spmd_stats stats;
    void *stream;       /* the backend's */
    spmd_status opened; /* of backend->open */
    char place[64];     /* "cores 0" or "any core" */
    spmd_ctx ctx;
    spmd_known known[SPMD_KNOWN_CALLS];
} __attribute__((aligned(128))); /* no two threads write into one cache line, nor into a pair of them */

struct spmd_mesh {
    int naxes, size[SPMD_MAX_AXES], ndevices;
    int mask_size[1 << SPMD_MAX_AXES]; /* products of sizes */
    char name[SPMD_MAX_AXES][SPMD_MAX_AXIS_NAME];
    const spmd_backend *backend;
    void *backend_state;
    pid_t pid;
    int cores;      /* in the affinity mask at creation */
    int timeout_ms; /* 0: no bound */
    bool pin;
    uint64_t seed;  /* host-strict: of its delays */
    int forced_way; /* spmd_way of collectives/coll.h; 0 but in a bench */
    spmd_fault_hook_fn *fault_hook;
    void *fault_user;

    pthread_mutex_t log_lock; /* also guards `said` */
    spmd_log_fn *log;
    void *log_user;
    const char *said[32]; /* sites already warned about */
    int nsaid;

    spmd_device *devices;
    struct spmd_array *orphans; /* destroyed while a stuck thread might use them */
    struct spmd_jit *orphan_jits;
    struct spmd_profile *orphan_profiles;
    struct spmd_meetings *meetings;
    struct spmd_found *groups; /* host/group.c */
    struct spmd_pinning *pinning;

    /* launch */
    atomic_bool busy, quit, lost;
    _Atomic uint32_t epoch;   /* one more: threads run `job` */
    _Atomic uint32_t running; /* threads not yet back */
    _Atomic int references;   /* the owner and the threads: the last one frees the mesh */
    spmd_job job;             /* a copy, with its lists: a stuck thread may outlive the caller's */
    void *job_lists;
    size_t job_lists_size;
    uint32_t launches;
    struct spmd_jit_entry *jit_entry; /* the job's programs; NULL: eager */
    bool automatic;
    bool failed_before; /* the meetings must be reset */
    _Atomic int64_t warnings;
    atomic_bool updating; /* a program has begun to write into outputs' blocks */

    /* How the launch ends: with the first failure, or committed once every shard has succeeded; never both. */
    atomic_int fate; /* spmd_fate; changed under the lock */
    pthread_mutex_t failure_lock;
    spmd_status failure, spoiled; /* spoiled: of a launch that was committed */
    char failure_text[SPMD_ERROR_SIZE];
};

/* What a launch used must then stay until the mesh is freed: a thread that never came back may still use it. */
static inline bool spmd__has_stuck_thread(const spmd_mesh *mesh)
{
    return atomic_load(&mesh->lost) && atomic_load(&mesh->running);
}

/* Blocks: memory on a device that outlives a launch. put, get and copy are done when they return, or on the shard's
 * stream. */
void *spmd__block_alloc(spmd_device *device, size_t bytes); /* not cleared; NULL with the error text set */
void spmd__block_free(spmd_mesh *mesh, void *block);
spmd_status spmd__block_put(spmd_device *device, void *to, const void *host, size_t bytes);
spmd_status spmd__block_get(spmd_device *device, void *host, const void *from, size_t bytes);
spmd_status spmd__block_copy(spmd_ctx *ctx, void *to, const void *from, size_t bytes);
/* Memory for a value of this launch. */
void *spmd__data(spmd_ctx *ctx, size_t bytes);

/* Appends a copy of the call and its tensors to a list that grows in the arena; in `call` out follows in. */
spmd_status spmd__append_call(spmd_arena *arena, const spmd_call *call, spmd_call **list, int *n, int *capacity);

/* False if the mesh's fault hook wants the operation to fail. */
static inline bool spmd__permitted(const spmd_mesh *mesh, spmd_operation operation, size_t bytes)
{
    return !mesh->fault_hook || mesh->fault_hook(mesh->fault_user, operation, bytes);
}
void *spmd__device_main(void *device);                 /* launch.c: a device thread's life */
void spmd__enter_shard(spmd_ctx *ctx);                 /* messages of this thread name the shard from now on */
spmd_status spmd__run_shard(spmd_ctx *ctx);            /* boundary.c: inputs, function, outputs */
spmd_status spmd__job_check(const spmd_job *job);      /* boundary.c: before any thread starts */
spmd_array *spmd__array_free(spmd_array *array);       /* array.c; returns the next orphan */
struct spmd_jit *spmd__jit_free(struct spmd_jit *jit); /* jit.c; likewise */
bool spmd__profile_is_of(const struct spmd_profile *profile, const spmd_mesh *mesh);
struct spmd_profile *spmd__profile_free(struct spmd_profile *profile); /* profile.c; likewise */
void spmd__mesh_release(spmd_mesh *mesh);                              /* drops one reference */
spmd_status spmd__check_update(const spmd_array *array); /* array.c: may it be copied into (the fault hook)? */
spmd_status spmd__update_block(spmd_array *array, int device, const void *host);
/* Ends the launch with this shard's failure; the first one wins, and none does after a commit. */
void spmd__poison(spmd_mesh *mesh, spmd_status status, const char *text);
/* A shard could not write its outputs although the launch was committed. Returns status. */
spmd_status spmd__spoil(spmd_mesh *mesh, spmd_status status);
/* True if the launch is committed: this shard says that all have succeeded, or another one has said so before. */
bool spmd__commit(spmd_mesh *mesh, bool all_succeeded);

/* ESTALE unless the tensor is a value of this launch whose memory still holds it. */
spmd_status spmd__stale(const spmd_ctx *ctx, const char *who, int k, const spmd_tensor *tensor); /* which of both */
static inline spmd_status spmd__check_alive(const spmd_ctx *ctx, const char *who, int k, const spmd_tensor *tensor)
{
    bool alive = tensor->id && tensor->launch == ctx->launch && tensor->id >= ctx->valid_from[tensor->slot];
    return alive ? SPMD_OK : spmd__stale(ctx, who, k, tensor);
}
uint32_t spmd__new_slot(spmd_ctx *ctx); /* 0: out of memory */
void spmd__view_of(const spmd_tensor *tensor, spmd_view *view);

/* An array's block on a device. */
struct spmd_array {
    spmd_mesh *mesh;
    spmd_dtype dtype;
    int rank;
    int64_t shape[SPMD_MAX_RANK], block_shape[SPMD_MAX_RANK];
    spmd_spec spec;
    spmd_layout layout;
    size_t block_bytes;
    void *block[SPMD_MAX_DEVICES];
    struct spmd_array *orphan; /* next of the mesh's orphans */
};

/* An array without memory for its blocks (spmd_shard and the launch fill them in). */
spmd_status spmd__array_shell(spmd_mesh *mesh, spmd_dtype dtype, int rank, const int64_t *shape, const spmd_spec *spec,
                              spmd_array **out);

#endif
