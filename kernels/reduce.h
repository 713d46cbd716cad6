/* Private. What reductions share. The dimensions to reduce are a mask in attr.i[0] (bit d: dimension d), whether they
 * stay with size 1 in attr.i[1], how many elements make one of the result in attr.i[2] (a kernel may see a part of
 * them: a cut dimension). */
#ifndef KERNELS_REDUCE_H
#define KERNELS_REDUCE_H

#include "spmd/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Some dimensions of x, the last first. */
typedef struct spmd__dim_list {
    int n;
    int64_t size[SPMD_MAX_RANK], stride[SPMD_MAX_RANK], count;
} spmd__dim_list;

/* x's dimensions, neighbours of one kind merged: the last one, and the others by kind. */
typedef struct spmd__reduce_plan {
    spmd__dim_list kept, reduced;
    int64_t last;
    bool last_reduced;
} spmd__reduce_plan;
spmd__reduce_plan spmd__plan_reduction(const spmd_view *x, unsigned mask);
unsigned spmd__sum_to_mask(const spmd_view *x, const spmd_view *y); /* what sum_to sums */

/* How a reduction folds elements into accumulators. Accumulators are doubles: a sum of millions of f32 then needs no
 * tree to be right to the last bit but one, and the order of elements can simply be memory order. */
typedef struct spmd__fold {
    double start;
    double (*row)(double accumulator, const float *x, int64_t n);  /* all of x into one */
    void (*rows)(double *accumulators, const float *x, int64_t n); /* every x[i] into its own */
} spmd__fold;
extern const spmd__fold spmd__fold_sum, spmd__fold_max;

spmd_status spmd__reduce_shape(spmd_ctx *ctx, spmd_call *call); /* floating; for a descriptor's .shape */
/* For sums: a dimension that is reduced and cut makes the result partial. */
void spmd__reduce_rule(const spmd_call *call, spmd_labels *labels);
void spmd__reduce_cost(const spmd_call *call, spmd_cost *cost); /* one operation an element of in[0] */
/* out[0] = fold of in[0] over the dimensions of `mask`, divided by `divisor`. */
spmd_status spmd__reduce_host(const spmd_kernel_args *args, unsigned mask, const spmd__fold *fold, double divisor);

/* Emits `op` for the dimensions that a user listed (NULL: all). Errors: ESHAPE, EINVAL (a dimension twice). */
spmd_status spmd__emit_reduction(spmd_ctx *ctx, const spmd_op *op, const spmd_tensor *x, const int *dims, int n,
                                 bool keep, spmd_tensor *out);
/* Repeats `reduced`, a reduction's output or its cotangent, over in[0]'s shape. */
spmd_status spmd__unreduce(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *reduced, spmd_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
