/* The emulated cuBLAS: handles, and the products that take plain arguments. */
#include <cublas_v2.h>
#include <stdlib.h>
#include "emu/emu_gemm.h"
#include "emu/emu_runtime.h"

struct cublasContext {
    int device;
    cudaStream_t stream;
    cublasPointerMode_t pointer_mode;
    cublasMath_t math;
    void *workspace;
    size_t workspace_size;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    EMU_BLAS_ENTER(cublasCreate);
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (emu_capture_forbids("cublasCreate"))
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = calloc(1, sizeof **handle);
    if (!*handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    (*handle)->device = emu_current_device();
    emu_born(EMU_BLAS_HANDLE);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    EMU_BLAS_ENTER(cublasDestroy);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    emu_died(EMU_BLAS_HANDLE);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    EMU_BLAS_ENTER(cublasGetVersion);
    (void)handle;
    if (!version)
        return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    EMU_BLAS_ENTER(cublasSetStream);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    handle->workspace = NULL; /* documented: back to the default workspace */
    handle->workspace_size = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    EMU_BLAS_ENTER(cublasGetStream);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t size)
{
    EMU_BLAS_ENTER(cublasSetWorkspace);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if ((uintptr_t)workspace % 256)
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->workspace_size = size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode)
{
    EMU_BLAS_ENTER(cublasSetPointerMode);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    EMU_BLAS_ENTER(cublasSetMathMode);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    static const struct {
        cublasStatus_t status;
        const char *name;
    } names[] = {
        {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS"},
        {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED"},
        {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED"},
        {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"},
        {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH"},
        {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR"},
        {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED"},
        {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR"},
        {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].status == status)
            return names[i].name;
    return "unknown cuBLAS status";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return cublasGetStatusName(status);
}

/* One operand as cuBLAS describes it: column-major, perhaps transposed. */
struct operand {
    const void *data;
    cudaDataType type;
    cublasOperation_t op;
    int ld;
    long long stride;
};

static struct emu_matrix view(struct operand x)
{
    bool plain = x.op == CUBLAS_OP_N;
    return (struct emu_matrix){x.data, x.type, plain ? 1 : x.ld, plain ? x.ld : 1, x.stride};
}

static cublasStatus_t product(cublasHandle_t handle, const char *name, const int mnk[3], const void *alpha,
                              struct operand a, struct operand b, const void *beta, struct operand c, int batch,
                              cublasComputeType_t compute)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (emu_wrong_device(name, handle->device, handle->stream))
        return CUBLAS_STATUS_INVALID_VALUE;
    int m = mnk[0], n = mnk[1], k = mnk[2];
    int rows_a = a.op == CUBLAS_OP_N ? m : k, rows_b = b.op == CUBLAS_OP_N ? k : n;
    if (a.ld < (rows_a > 1 ? rows_a : 1) || b.ld < (rows_b > 1 ? rows_b : 1) || c.ld < (m > 1 ? m : 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct emu_gemm gemm = {.m = m, .n = n, .k = k, .batch = batch, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    gemm.a = view(a);
    gemm.b = view(b);
    gemm.c = gemm.d = view(c);
    cublasStatus_t status = emu_gemm_check(&gemm, compute, CUDA_R_32F);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    gemm.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                (compute == CUBLAS_COMPUTE_32F && handle->math & CUBLAS_TF32_TENSOR_OP_MATH);
    gemm.tf32 = gemm.tf32 && a.type == CUDA_R_32F;
    gemm.workspace = handle->workspace;
    gemm.workspace_size = handle->workspace_size < EMU_BLAS_WORKSPACE ? 0 : EMU_BLAS_WORKSPACE;
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
        gemm.device_alpha = alpha;
        gemm.device_beta = beta;
    } else {
        gemm.alpha = *(const float *)alpha;
        gemm.beta = *(const float *)beta;
    }
    return emu_gemm_enqueue(handle->stream, name, &gemm);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b,
                            cudaDataType type_b, int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    EMU_BLAS_ENTER(cublasGemmEx);
    (void)algo;
    return product(handle, "cublasGemmEx", (int[]){m, n, k}, alpha, (struct operand){a, type_a, op_a, lda, 0},
                   (struct operand){b, type_b, op_b, ldb, 0}, beta, (struct operand){c, type_c, CUBLAS_OP_N, ldc, 0}, 1,
                   compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void *alpha, const void *a, cudaDataType type_a, int lda,
                                          long long stride_a, const void *b, cudaDataType type_b, int ldb,
                                          long long stride_b, const void *beta, void *c, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algo)
{
    EMU_BLAS_ENTER(cublasGemmStridedBatchedEx);
    (void)algo;
    return product(handle, "cublasGemmStridedBatchedEx", (int[]){m, n, k}, alpha,
                   (struct operand){a, type_a, op_a, lda, stride_a}, (struct operand){b, type_b, op_b, ldb, stride_b},
                   beta, (struct operand){c, type_c, CUBLAS_OP_N, ldc, stride_c}, batch, compute);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                              int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                              const float *beta, float *c, int ldc)
{
    EMU_BLAS_ENTER(cublasSgemm);
    return product(handle, "cublasSgemm", (int[]){m, n, k}, alpha, (struct operand){a, CUDA_R_32F, op_a, lda, 0},
                   (struct operand){b, CUDA_R_32F, op_b, ldb, 0}, beta,
                   (struct operand){c, CUDA_R_32F, CUBLAS_OP_N, ldc, 0}, 1, CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const float *alpha, const float *a, int lda, long long stride_a,
                                         const float *b, int ldb, long long stride_b, const float *beta, float *c,
                                         int ldc, long long stride_c, int batch)
{
    EMU_BLAS_ENTER(cublasSgemmStridedBatched);
    return product(handle, "cublasSgemmStridedBatched", (int[]){m, n, k}, alpha,
                   (struct operand){a, CUDA_R_32F, op_a, lda, stride_a},
                   (struct operand){b, CUDA_R_32F, op_b, ldb, stride_b}, beta,
                   (struct operand){c, CUDA_R_32F, CUBLAS_OP_N, ldc, stride_c}, batch, CUBLAS_COMPUTE_32F);
}
