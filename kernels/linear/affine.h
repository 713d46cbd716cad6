/* Private. What linear and linear_gelu share: z = x w + bias. */
#ifndef KERNELS_AFFINE_H
#define KERNELS_AFFINE_H

#include "kernels/matmul/gemm.h"
#include "spmd/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks in[0] = x [.., k], in[1] = w [k, n], in[2] = bias [n]; out becomes [.., n]. */
spmd_status spmd__affine_shape(const char *op, const spmd_call *call, spmd_tensor *out);
void spmd__affine_rule(const spmd_call *call, spmd_labels *labels);
void spmd__affine_cost(const spmd_call *call, spmd_cost *cost);
/* Cotangents of x (dz w^T) and w (x^T dz, summed over all rows by the one product), where wanted, added to what gin
 * holds: an op with this gradient has the sums 3. */
spmd_status spmd__affine_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *dz, const bool *need,
                              spmd_tensor *gin);
spmd__gemm_case spmd__affine_case(const spmd_kernel_args *args, spmd_dtype out_dtype);
/* x w (+ bias if not NULL) for the views of an affine op, into `out` of dtype `out_dtype`. */
spmd_status spmd__affine_product(spmd_ctx *ctx, const spmd_kernel_args *args, const void *bias, spmd_dtype out_dtype,
                                 void *out);

#ifdef __cplusplus
}
#endif
#endif
