/* Private: a recorded program of one shard, from recording to replay. */
#ifndef SPMD_PROGRAM_H
#define SPMD_PROGRAM_H

#include "spmd/ctx.h"
#include "spmd/jit.h"

typedef enum spmd_place { SPMD_PLACE_MEMORY, SPMD_PLACE_INPUT, SPMD_PLACE_OUTPUT } spmd_place;

/* A value that has memory of its own (views share their root's). */
typedef struct spmd_planned {
    uint32_t root; /* id of the value whose memory this is; 0: not a value of the program */
    spmd_place place;
    int index;            /* of the input or output */
    size_t offset, bytes; /* in the program's memory */
    int first, last;      /* calls that write it first and use it last; -1 and the number of calls: outside */
} spmd_planned;

typedef struct spmd_program {
    spmd_mesh *mesh;
    spmd_device *device;
    spmd_arena arena;    /* of everything below but the values' memory */
    spmd_call *calls;    /* in the order of the schedule */
    spmd_call *recorded; /* as they came: for the comparison with a later recording */
    int n, nrecorded, capacity;
    int nin, nout;
    spmd_tensor *in, *out;
    uint32_t ids;       /* values are 1 .. ids */
    uint64_t hash;      /* of the recorded stream */
    spmd_planned *plan; /* by id */
    char *memory;
    spmd_kernel_args *args; /* by call */
    int commit;             /* the first call that writes into an output's block; n: none does */
    int *copies, ncopies;   /* outputs that are copied at the end */
    size_t *stage;          /* by copy: where an input that is returned waits */
    void **bound;           /* the blocks that args point into: inputs, then outputs */
    uint32_t bindings;      /* how often they changed */
    void *captured;         /* the backend's: what it made of the calls; freed by `forget` */
    void (*forget)(void *captured);
    spmd_program_info info;
} spmd_program;

/* A call at which shards meet. */
static inline bool spmd__meets(const spmd_call *call)
{
    return call->op->collective && !call->op->view && call->nin > 0;
}

/* Called by spmd__emit while ctx->program records. */
spmd_status spmd__program_append(spmd_program *program, const spmd_call *call);
/* The passes, in this order; each is bit-neutral. */
spmd_status spmd__program_schedule(spmd_program *program);
spmd_status spmd__program_plan(spmd_program *program, const spmd_job *job);
/* Points the arguments at this device's blocks, if they are not there already. */
void spmd__program_bind(spmd_program *program, const spmd_job *job, int device);
/* Runs the calls; `before_commit` is called once, before the first call that updates an output in place. */
spmd_status spmd__program_replay(spmd_program *program, spmd_ctx *ctx, spmd_status (*before_commit)(spmd_ctx *));
spmd_status spmd__program_step(spmd_program *program, spmd_ctx *ctx, int i); /* runs call i */
void *spmd__program_address(const spmd_program *program, uint32_t id, const spmd_job *job, int device);
spmd_status spmd__program_copy_out(spmd_program *program, spmd_ctx *ctx); /* after the launch is committed */
/* The first difference between a program and a later recording: EINVAL names the call and the attribute. */
spmd_status spmd__program_compare(const spmd_program *program, const spmd_program *again);
void spmd__program_free(spmd_program *program);

/* One set of shapes, dtypes and specs; a program a device. */
typedef struct spmd_jit_entry {
    uint64_t key;
    spmd_program *program[SPMD_MAX_DEVICES];
    struct spmd_jit_entry *next;
} spmd_jit_entry;

struct spmd_jit {
    spmd_mesh *mesh;
    spmd_jit_entry *first;
    int n;
    struct spmd_jit *orphan; /* next of the mesh's orphan_jits */
};

/* The job's entry, made empty if it is new. Called by the host thread before a launch. NULL: out of memory. */
spmd_jit_entry *spmd__jit_entry(const spmd_job *job, bool automatic);
void spmd__jit_forget(spmd_jit *jit, spmd_jit_entry *entry); /* a recording that failed */

#endif
