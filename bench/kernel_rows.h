/* The kernels that bench_kernel times: how each is called, and under which names its ops run. */
#ifndef BENCH_KERNEL_ROWS_H
#define BENCH_KERNEL_ROWS_H

#include "spmd/spmdkit.h"

/* Inputs; R rows of C columns. */
typedef enum kernel_input {
    KERNEL_NONE,
    KERNEL_MATRIX,  /* [R, C] */
    KERNEL_F32,     /* [R, C], f32 whatever the dtype */
    KERNEL_VECTOR,  /* [C] */
    KERNEL_SQUARE,  /* [C, C] */
    KERNEL_INDICES, /* i32 [R], in 0 .. C - 1 */
    KERNEL_SCALAR   /* f32, a one */
} kernel_input;

enum { KERNEL_MOST_INPUTS = 6, KERNEL_MOST_OPS = 3 };

typedef struct kernel_row {
    const char *name;
    const char *ops[KERNEL_MOST_OPS]; /* the ops that are timed; NULL: only the one with this name */
    kernel_input in[KERNEL_MOST_INPUTS];
    spmd_status (*call)(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out); /* out: room for 3 */
    bool gradient;                                                               /* run the gradient as well */
} kernel_row;

extern const kernel_row kernel_rows[];
extern const int kernel_nrows;

#endif
