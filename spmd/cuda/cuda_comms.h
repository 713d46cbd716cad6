/* Private: NCCL on backend cuda. */
#ifndef SPMD_CUDA_COMMS_H
#define SPMD_CUDA_COMMS_H

#include "spmd/cuda/cuda_private.h"

spmd_status spmd__nccl_check(ncclResult_t result, const char *what);
#define SPMD_NCCL_TRY(call) SPMD_TRY(spmd__nccl_check((call), #call))

/* The call that returned `result` is on the stream, or failed; until then nothing else may be asked of `comm`. */
spmd_status spmd__nccl_enqueued(spmd_ctx *ctx, ncclComm_t comm, ncclResult_t result, const char *what);

/* The backend's connect: makes the communicators, and makes them anew. */
spmd_status spmd__cuda_connect(spmd_mesh *mesh);
void spmd__cuda_disconnect(spmd_device *device); /* nothing is in flight */
void spmd__cuda_abort(spmd_device *device);      /* something is, and will not end */
/* Waits for the stream; a collective that cannot end is aborted. */
spmd_status spmd__cuda_wait(spmd_ctx *ctx);

#endif
