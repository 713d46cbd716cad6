/* Private: the one matrix product behind the emulated cuBLAS and cuBLASLt. */
#ifndef EMU_GEMM_H
#define EMU_GEMM_H
#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>
#include "emu/emu_private.h"

/* An operand as the product reads it, transposition and storage order folded into the strides (in elements). */
struct emu_matrix {
    const void *data;
    cudaDataType type;
    int64_t row_stride, col_stride, batch_stride;
};

/* d[m,n] = epilogue(alpha * a[m,k] b[k,n] + beta * c[m,n]), `batch` times. All of it is plain data: a stream operation
 * holds a copy. */
struct emu_gemm {
    int64_t m, n, k;
    int batch;
    struct emu_matrix a, b, c, d, aux; /* aux: what the GELU was applied to, written forward and read backward */
    float alpha, beta;
    const float *device_alpha, *device_beta; /* not NULL: read when the product runs */
    uint32_t epilogue;                       /* cublasLtEpilogue_t */
    void *bias;                              /* [m], read, or the gradient of it, written */
    int64_t bias_stride;                     /* from one batch to the next */
    void *workspace;                         /* overwritten by the product: two at once in one workspace is a race */
    size_t workspace_size;
    bool tf32;
};

size_t emu_type_size(cudaDataType type); /* 0: a type that the emulator does not know */
float emu_load(const void *data, cudaDataType type, int64_t index);
void emu_store(void *data, cudaDataType type, int64_t index, float value);

/* Types, extents and epilogue that the product can do; the status is what the real library answers to others. */
cublasStatus_t emu_gemm_check(const struct emu_gemm *gemm, cublasComputeType_t compute, cudaDataType scale);
/* Appends the product to the stream (or to its capture). `name` is the API's name, for reports. */
cublasStatus_t emu_gemm_enqueue(cudaStream_t stream, const char *name, const struct emu_gemm *gemm);
/* The body, which runs when the stream reaches it. args: a struct emu_gemm. */
void emu_gemm_run(struct emu_op *op, void *args);
#endif
