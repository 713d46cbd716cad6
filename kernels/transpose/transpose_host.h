/* Private to the transpose folder. */
#ifndef KERNELS_TRANSPOSE_HOST_H
#define KERNELS_TRANSPOSE_HOST_H

#include "spmd/op.h"

spmd_status spmd__transpose_host(spmd_ctx *ctx, const spmd_kernel_args *args);

#endif
