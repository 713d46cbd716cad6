/* Private. What pointwise ops share: shape functions, the walk over broadcast operands, and hosts that turn a loop over
 * f32 into a kernel for every floating dtype. An op of this family is its loop, its gradient and its descriptor. */
#ifndef KERNELS_POINTWISE_H
#define KERNELS_POINTWISE_H

#include "spmd/clones.h"
#include "kernels/elements.h"
#include "spmd/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shape functions, for a descriptor's .shape. */
spmd_status spmd__unary_shape(spmd_ctx *ctx, spmd_call *call);  /* floating, the input's shape */
spmd_status spmd__binary_shape(spmd_ctx *ctx, spmd_call *call); /* floating, one dtype, broadcast */
spmd_status spmd__arith_shape(spmd_ctx *ctx, spmd_call *call);  /* the same, or i32 */

/* Parts of them. */
spmd_status spmd__same_dtype(const char *op, const spmd_tensor *a, const spmd_tensor *b);
spmd_status spmd__broadcast_shape(const char *op, const spmd_tensor *in, int nin, spmd_tensor *out); /* rank, shape */

void spmd__pointwise_cost(const spmd_call *call, spmd_cost *cost); /* one operation an element of out[0] */

/* Loops over contiguous vectors, and their kernels. The output's memory is apart from the inputs', or an input's own
 * if the op works in place. */
typedef void spmd__unary_loop(const float *x, float *y, int64_t n);
typedef void spmd__binary_loop(const float *a, const float *b, float *y, int64_t n);
typedef void spmd__binary_i32_loop(const int32_t *a, const int32_t *b, int32_t *y, int64_t n);
spmd_status spmd__unary_host(const spmd_kernel_args *args, spmd__unary_loop *loop);
spmd_status spmd__binary_host(const spmd_kernel_args *args, spmd__binary_loop *loop);
spmd_status spmd__arith_host(const spmd_kernel_args *args, spmd__binary_loop *loop, spmd__binary_i32_loop *loop_i32);

/* A walk over the output's elements in order, cut in runs of at most SPMD__TILE along which every operand is either
 * contiguous or one repeated element:
 *     spmd__runs runs = spmd__runs_of(args);
 *     while (spmd__runs_next(&runs))
 *         ... elements runs.at .. runs.at + runs.n of the output */
enum { SPMD__MAX_OPERANDS = 3 };
typedef struct spmd__runs {
    const spmd_view *in;
    int nin, rank; /* rank, shape, stride: after merging neighbouring dimensions */
    int64_t shape[SPMD_MAX_RANK], stride[SPMD__MAX_OPERANDS][SPMD_MAX_RANK], index[SPMD_MAX_RANK];
    int64_t total, at, n, begin;            /* begin: of the run, in the last dimension */
    int64_t operand_at[SPMD__MAX_OPERANDS]; /* of the run, in elements */
} spmd__runs;
spmd__runs spmd__runs_of(const spmd_kernel_args *args);
bool spmd__runs_next(spmd__runs *runs);
/* The run's elements of operand k, side by side: in place, or repeated in `tile` (SPMD__TILE elements). */
const void *spmd__run_operand(const spmd__runs *runs, int k, void *tile);
const float *spmd__run_f32(const spmd__runs *runs, int k, float *tile); /* the same, widened */

/* Sums x to the shape of `like`, which broadcasts to x's: the gradient of broadcasting. Equal shapes: out = x. */
spmd_status spmd__sum_to(spmd_ctx *ctx, const spmd_tensor *x, const spmd_tensor *like, spmd_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
