/* Private: what the host side of a CUDA kernel asks of a shard's context. For C11 and C++17.
 *
 * The shard's thread has its device current. Work goes on spmd__cuda_stream only; nothing here waits for it. In a
 * `.cuda` function spmd__scratch gives device memory, which the next kernel on the stream may use again. */
#ifndef SPMD_CUDA_CTX_H
#define SPMD_CUDA_CTX_H

#include "spmd/op.h"
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

cudaStream_t spmd__cuda_stream(spmd_ctx *ctx);
/* Of the device, made with the mesh; its descriptors and heuristics are the op's, in a device slot. */
cublasLtHandle_t spmd__cublaslt(spmd_ctx *ctx);
int spmd__cuda_processors(const spmd_ctx *ctx); /* multiprocessors of the device: what a grid should fill */

/* What a kernel found wrong with the values that it was given: it cannot fail, so it leaves a note, and who waits for
 * the stream next returns EINVAL with the text. One note a device, of the first thread that has one; in host memory
 * that the device can write. See spmd__cuda_blame in spmd/cuda/cuda_blame.cuh. */
typedef struct spmd_cuda_note {
    unsigned taken;
    const char *text; /* a format for the four below: a literal on the host, never read on the device */
    double value;
    long long position, last, size;
} spmd_cuda_note;
spmd_cuda_note *spmd__cuda_note(spmd_ctx *ctx);

/* SPMD_OK, or ECUDA (ENOMEM for memory) with the text "what: cudaErrorX: CUDA's own words". */
spmd_status spmd__cuda_check(cudaError_t error, const char *what);
spmd_status spmd__cublas_check(cublasStatus_t status, const char *what);
#define SPMD_CUDA_TRY(call) SPMD_TRY(spmd__cuda_check((call), #call))
#define SPMD_CUBLAS_TRY(call) SPMD_TRY(spmd__cublas_check((call), #call))

#ifdef __cplusplus
}
#endif
#endif
