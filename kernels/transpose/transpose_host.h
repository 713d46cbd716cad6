/* Private. The copies behind transpose. */
#ifndef KERNELS_TRANSPOSE_HOST_H
#define KERNELS_TRANSPOSE_HOST_H

#include "spmd/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The output's dimensions; `stride`: in the input. Those that stay neighbours are merged; at least one is left. */
typedef struct spmd__permutation {
    int rank;
    int64_t shape[SPMD_MAX_RANK], stride[SPMD_MAX_RANK];
} spmd__permutation;
spmd__permutation spmd__merge_permutation(const spmd_view *x, const int64_t *order);

spmd_status spmd__transpose_host(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__transpose_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

#ifdef __cplusplus
}
#endif
#endif
