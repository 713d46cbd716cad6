/* What the tests of NCCL share: ranks as threads, each with a device, a stream and two buffers of floats. */
#ifndef NCCL_RANKS_H
#define NCCL_RANKS_H

#include "emu_test.h"
#include "spmd/cuda.cuh"
#include <nccl.h>
#include <pthread.h>

enum { RANKS = 4, LENGTH = 60 /* divisible by 1 to 6 */ };

#define ck_nccl(call)                                                                                                \
    do {                                                                                                             \
        ncclResult_t ck_r_ = (call);                                                                                 \
        ck_assert_msg(ck_r_ == ncclSuccess, "%s: %s (%s)", #call, ncclGetErrorString(ck_r_), emu_report_text(NULL)); \
    } while (0)

typedef struct nccl_rank {
    int rank, n;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    float *x, *y; /* on the device, RANKS * LENGTH each; x is 1, 2, 3, ... times (rank + 1) */
    int wrong;    /* what the thread found: it must not assert */
    void (*body)(struct nccl_rank *);
} nccl_rank;

/* In a thread: counts, for the main thread to assert. */
#define must(condition) (me->wrong += !(condition))

static inline void nccl_rank_prepare(nccl_rank *me)
{
    float host[RANKS * LENGTH];
    for (int i = 0; i < RANKS * LENGTH; i++)
        host[i] = (float)((i + 1) * (me->rank + 1));
    must(cudaSetDevice(me->rank) == cudaSuccess);
    must(cudaStreamCreateWithFlags(&me->stream, cudaStreamNonBlocking) == cudaSuccess);
    must(cudaMalloc((void **)&me->x, sizeof host) == cudaSuccess);
    must(cudaMalloc((void **)&me->y, sizeof host) == cudaSuccess);
    must(cudaMemcpyAsync(me->x, host, sizeof host, cudaMemcpyHostToDevice, me->stream) == cudaSuccess);
    must(cudaMemsetAsync(me->y, 0, sizeof host, me->stream) == cudaSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess);
}

static inline void nccl_rank_release(nccl_rank *me)
{
    must(cudaStreamDestroy(me->stream) == cudaSuccess);
    must(cudaFree(me->x) == cudaSuccess);
    must(cudaFree(me->y) == cudaSuccess);
}

/* me->y[0, n) on the host. */
static inline void nccl_rank_fetch(nccl_rank *me, float *host, int n)
{
    must(cudaMemcpyAsync(host, me->y, (size_t)n * sizeof *host, cudaMemcpyDeviceToHost, me->stream) == cudaSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess);
}

static inline void *nccl_rank_thread(void *argument)
{
    nccl_rank *me = (nccl_rank *)argument;
    nccl_rank_prepare(me);
    must(ncclCommInitRank(&me->comm, me->n, me->id, me->rank) == ncclSuccess);
    me->body(me);
    nccl_rank_release(me);
    return NULL;
}

/* Runs body as n ranks; returns how much was wrong. body ends the communicator. */
static inline int nccl_ranks_run(int n, void (*body)(nccl_rank *))
{
    nccl_rank ranks[RANKS];
    pthread_t threads[RANKS];
    ncclUniqueId id;
    int wrong = 0;
    ck_nccl(ncclGetUniqueId(&id));
    for (int r = 0; r < n; r++) {
        ranks[r] = nccl_rank();
        ranks[r].rank = r;
        ranks[r].n = n;
        ranks[r].id = id;
        ranks[r].body = body;
        ck_assert(pthread_create(&threads[r], NULL, nccl_rank_thread, &ranks[r]) == 0);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(threads[r], NULL);
        wrong += ranks[r].wrong;
    }
    return wrong;
}

static inline void nccl_test_setup(void)
{
    emu_test_setup();
    const char *policy = getenv("EMU_POLICY"), *seed = getenv("EMU_SEED");
    emu_configure(RANKS, policy && !strcmp(policy, "late") ? EMU_LATE : EMU_RANDOM,
                  seed ? (unsigned)strtoul(seed, NULL, 10) : 1);
}

#endif
