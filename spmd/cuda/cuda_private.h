/* Private: what backend cuda keeps for a mesh and its devices. */
#ifndef SPMD_CUDA_PRIVATE_H
#define SPMD_CUDA_PRIVATE_H

#include "spmd/ctx.h"
#include "spmd/cuda/cuda_ctx.h"
#include <nccl.h>

/* When shards hand memory to each other: its owner signals on his stream, the others' streams wait for him. One event
 * each for a set of axes and a purpose, so that it is recorded again only when its last waiters have been told. */
typedef enum spmd_cuda_signal { SPMD_CUDA_READY, SPMD_CUDA_DONE, SPMD_CUDA_SIGNALS } spmd_cuda_signal;

enum { SPMD_CUDA_JOINS = 8 };
typedef struct spmd_cuda_device {
    int gpu, processors;
    cudaStream_t compute, copies;             /* copies: between launches, and what the host reads during one */
    cudaStream_t second;                      /* collectives of programs that run beside local ops */
    cudaStream_t stream;                      /* where ops go at the moment: compute or second */
    bool beside;                              /* something is on the second stream */
    cudaEvent_t fork, joins[SPMD_CUDA_JOINS]; /* one of the two streams waits for the other */
    cudaEvent_t events[SPMD_CUDA_SIGNALS][1 << SPMD_MAX_AXES];
    cublasLtHandle_t blas;
    ncclComm_t comm[1 << SPMD_MAX_AXES]; /* by mask of axes; NULL: none */
    uint64_t reach;                      /* bit d: kernels here can touch the memory of the mesh's device d */
    void *slab;                          /* of the values of a launch */
    char *staging;                       /* pinned host memory that copies go through */
    spmd_cuda_note *note;                /* pinned, too */
    bool collective;                     /* work of other devices is on the stream: it may never end */
    uint64_t nccl_calls;                 /* groups of them that were put on a stream */
    bool capturing;                      /* the stream keeps its work for a graph */
    struct spmd_cuda_graphs *graphs;     /* of all programs */
    const spmd_op *timed;
    pthread_mutex_t staging_lock;
} spmd_cuda_device;

/* auto: by size, see collectives/nccl/nccl_coll.c */
typedef enum spmd_cuda_transport { SPMD_CUDA_AUTO, SPMD_CUDA_P2P, SPMD_CUDA_NCCL, SPMD_CUDA_COPY } spmd_cuda_transport;

typedef struct spmd_cuda_mesh {
    int gpus;      /* in this machine */
    size_t values; /* bytes of a device's slab */
    spmd_cuda_transport transport;
    bool copies; /* kernels do not touch other GPUs' memory: inputs are copied first */
    spmd_cuda_device device[SPMD_MAX_DEVICES];
} spmd_cuda_mesh;

static inline spmd_cuda_device *spmd__cuda_of(const spmd_device *device)
{
    return &((spmd_cuda_mesh *)device->mesh->backend_state)->device[device->id];
}

extern const spmd_remote spmd__cuda_memory;
spmd_status spmd__cuda_prepare(spmd_mesh *mesh);
void spmd__cuda_release(spmd_mesh *mesh);
spmd_status spmd__cuda_open(spmd_device *device);
void spmd__cuda_close(spmd_device *device);
/* The graphs of the device's programs, which hold its communicators; they are made anew when they are wanted. */
void spmd__cuda_drop_graphs(spmd_cuda_device *cuda);
spmd_status spmd__cuda_replay(struct spmd_program *program, spmd_ctx *ctx, spmd_status (*before_commit)(spmd_ctx *));

#endif
