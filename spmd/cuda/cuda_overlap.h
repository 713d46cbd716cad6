/* Private: collectives of a program that run beside its local ops, on the device's second stream. */
#ifndef SPMD_CUDA_OVERLAP_H
#define SPMD_CUDA_OVERLAP_H

#include "spmd/cuda/cuda_private.h"
#include "spmd/program.h"

/* Of a call of a program. */
typedef struct spmd_cuda_order {
    int turn;  /* a collective that runs beside: its number among them; -1: runs on the shard's stream */
    int after; /* the collective beside that the shard's stream waits for before the call; -1: none */
    bool nccl; /* it puts calls of NCCL on the stream: seen when it last ran */
} spmd_cuda_order;

/* Decides turns and waits for every call of a program whose arguments are bound; `order` has p->n entries. Returns the
 * turns. */
int spmd__cuda_order(const spmd_program *p, spmd_cuda_order *order);
/* Runs call i as decided, after what it waits for, unless that is a call before `from`. */
spmd_status spmd__cuda_step(spmd_program *p, spmd_ctx *ctx, int i, spmd_cuda_order *order, int from);
/* The shard's stream waits for that call, if it runs beside. */
spmd_status spmd__cuda_await(spmd_ctx *ctx, const spmd_cuda_order *order, int after);
/* ... for everything that runs beside it. */
spmd_status spmd__cuda_join(spmd_ctx *ctx);

#endif
