/* Private. One matrix product on contiguous memory, as matmul, linear and attention need it.
 *
 *   out[b] = op(A[b]) op(B[b]) (+ bias, on every row) (+ out[b])      out [batch, m, n], contracted size k
 *
 * spmd__gemm chooses: oneDNN where it is built in and has a kernel for the case, else the portable loop below it;
 * 16-bit floats that neither knows are widened to f32 and rounded once. All accumulate in f32. */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H

#include "spmd/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd__gemm_case {
    spmd_dtype dtype, out_dtype; /* of A, B and bias; of out: the same or f32 */
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b; /* A is [k, m]; B is [n, k] */
    bool share_b;                  /* one B for all of the batch */
    bool accumulate;               /* add to out; without bias */
    uint32_t value_b;              /* which value of the launch B is (a view's `value`), 0: it is not worth asking */
    bool packed_b;                 /* B lies in panels, as spmd__pack_weight makes them; f32, oneDNN only */
    int64_t out_row;               /* elements from one row of out to the next, 0: n; oneDNN only */
} spmd__gemm_case;

enum { SPMD__PANEL = 64 }; /* columns of a panel, whose k rows follow each other; panel by panel */

spmd_status spmd__gemm(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                       void *out);

/* f32 only; any size but 0. */
spmd_status spmd__gemm_reference(spmd_ctx *ctx, const spmd__gemm_case *c, const float *a, const float *b,
                                 const float *bias, float *out);

/* *done is false, and nothing else has happened, if oneDNN is not built in or has no fast kernel for the case. */
spmd_status spmd__gemm_onednn(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                              void *out, bool *done);

/* The same question without running it. */
spmd_status spmd__onednn_knows(spmd_ctx *ctx, const spmd__gemm_case *c, bool bias, bool *known);

/* Which B oneDNN's kernels like on this processor: one in panels, as it is; or, where they read B in place, one panel
 * at a time (matmul_panels.c). */
bool spmd__onednn_reads_panels(void);
bool spmd__onednn_reads_in_place(void);

/* `columns` columns of B [k, n] from `first` on, as a panel in f32. */
void spmd__make_panel(spmd_dtype dtype, const void *b, int64_t k, int64_t n, int64_t first, int64_t columns,
                      float *out);

/* Is the f32 product to be made by panels? */
bool spmd__panels_pay(const spmd__gemm_case *c);
spmd_status spmd__panels_known(spmd_ctx *ctx, const spmd__gemm_case *c, bool bias, bool *known);
/* B packed, if c->packed_b, or as it is; n >= SPMD__PANEL, one product. *done is false, and nothing else has happened,
 * if oneDNN does not know how. */
spmd_status spmd__gemm_panels(spmd_ctx *ctx, const spmd__gemm_case *c, const float *a, const float *b,
                              const float *bias, float *out, bool *done);

/* *packed: B in f32 and in the form that the products like best, if it is used so often that making it pays (see
 * pack_weight.c), else NULL; it stays until the launch ends. *wide: the same product in f32, with this B. */
spmd_status spmd__pack_weight(spmd_ctx *ctx, const spmd__gemm_case *c, const void *b, bool bias, spmd__gemm_case *wide,
                              const float **packed);

/* On the device's stream, by cublasLt; `addend` (c->accumulate: what is added; may be out itself) or NULL. f32 products
 * use TF32 only with SPMD_TF32=1 in the environment when the mesh first multiplies. */
spmd_status spmd__gemm_cuda(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                            const void *addend, void *out);

/* In attr->i of matmul, after the two transposes: the result in f32, whatever the operands are. */
enum { SPMD__MATMUL_WIDE = 2 };

/* The case of a matmul's views, transposes in attr->i[0] and [1]. */
spmd__gemm_case spmd__matmul_case(const spmd_attr *attr, const spmd_view *a, const spmd_view *b, const spmd_view *out);
extern const spmd_op spmd__matmul_op;
spmd_status spmd__matmul_shape(spmd_ctx *ctx, spmd_call *call);
void spmd__matmul_cost(const spmd_call *call, spmd_cost *cost);
void spmd__matmul_rule(const spmd_call *call, struct spmd_labels *labels);

/* *sum += a b; with sum->id 0: *sum = a b, of dtype sum->dtype: the operands' or f32. In one product that adds to the
 * sum where it lies, if it is donated. */
spmd_status spmd__matmul_onto(spmd_ctx *ctx, const spmd_tensor *a, const spmd_tensor *b, bool transpose_a,
                              bool transpose_b, spmd_tensor *sum);

/* x [.., k] as [rows, k]: leading dimensions become one. */
spmd_status spmd__as_matrix(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);

/* For `spmd info`: "oneDNN 2.6.3" or "portable", and whether it multiplies bf16 without our widening. */
const char *spmd__matmul_library(void);
bool spmd__matmul_has_native_bf16(void);

#ifdef __cplusplus
}
#endif
#endif
