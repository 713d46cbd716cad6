/* The emulated cuBLASLt: heuristics and the product. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_blaslt_desc.h"
#include "emu/emu_gemm.h"
#include "emu/emu_runtime.h"

struct cublasLtContext {
    int device;
};

static const uint64_t algo_magic = 0x656d752d616c676f;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    EMU_BLAS_ENTER(cublasLtCreate);
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (emu_capture_forbids("cublasLtCreate"))
        return CUBLAS_STATUS_ALLOC_FAILED;
    struct cublasLtContext *context = calloc(1, sizeof *context);
    if (!context)
        return CUBLAS_STATUS_ALLOC_FAILED;
    context->device = emu_current_device();
    *handle = context;
    emu_born(EMU_BLAS_HANDLE);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    EMU_BLAS_ENTER(cublasLtDestroy);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    emu_died(EMU_BLAS_HANDLE);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

/* The four operands of a call, in the order A, B, C, D. */
struct call {
    const struct emu_lt_desc *desc;
    const struct emu_lt_layout *layout[4];
    const void *data[4];
};

static bool layout_is_good(const struct emu_lt_layout *x)
{
    if (x->order != CUBLASLT_ORDER_COL && x->order != CUBLASLT_ORDER_ROW)
        return false;
    uint64_t run = x->order == CUBLASLT_ORDER_COL ? x->rows : x->cols;
    return x->ld > 0 && (uint64_t)x->ld >= run && x->batch > 0;
}

static struct emu_matrix view(const struct call *call, int i, bool transposed)
{
    const struct emu_lt_layout *x = call->layout[i];
    bool plain = (x->order == CUBLASLT_ORDER_COL) != transposed;
    int64_t stride = x->batch > 1 ? x->stride : 0;
    return (struct emu_matrix){call->data[i], (cudaDataType)x->type, plain ? 1 : x->ld, plain ? x->ld : 1, stride};
}

static bool batches_agree(const struct call *call)
{
    for (int i = 0; i < 3; i++)
        if (call->layout[i]->batch != call->layout[3]->batch)
            return false;
    return true;
}

/* Fills the product from the descriptors. */
static cublasStatus_t describe(const struct call *call, struct emu_gemm *gemm)
{
    const struct emu_lt_desc *desc = call->desc;
    for (int i = 0; i < 4; i++)
        if (!call->layout[i] || !layout_is_good(call->layout[i]))
            return CUBLAS_STATUS_INVALID_VALUE;
    const struct emu_lt_layout *a = call->layout[0], *b = call->layout[1], *c = call->layout[2], *d = call->layout[3];
    bool turn_a = desc->op_a != CUBLAS_OP_N, turn_b = desc->op_b != CUBLAS_OP_N;
    uint64_t k = turn_a ? a->rows : a->cols;
    if ((turn_a ? a->cols : a->rows) != d->rows || (turn_b ? b->rows : b->cols) != d->cols ||
        (turn_b ? b->cols : b->rows) != k || c->rows != d->rows || c->cols != d->cols || !batches_agree(call))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && d->order != CUBLASLT_ORDER_COL)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (desc->bias_type >= 0 && (uint32_t)desc->bias_type != d->type)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *gemm = (struct emu_gemm){.m = (int64_t)d->rows, .n = (int64_t)d->cols, .k = (int64_t)k, .batch = d->batch};
    gemm->a = view(call, 0, turn_a);
    gemm->b = view(call, 1, turn_b);
    gemm->c = view(call, 2, false);
    gemm->d = view(call, 3, false);
    gemm->epilogue = desc->epilogue;
    gemm->bias = desc->bias;
    gemm->bias_stride = desc->bias_stride;
    cudaDataType aux_type = desc->aux_type < 0 ? (cudaDataType)d->type : (cudaDataType)desc->aux_type;
    gemm->aux = (struct emu_matrix){desc->aux, aux_type, 1, desc->aux_ld, desc->aux_stride};
    gemm->tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a->type == CUDA_R_32F;
    return CUBLAS_STATUS_SUCCESS;
}

/* The alignment that a kernel for this operand wants: what the caller promises and the leading dimension keeps. */
static uint32_t wanted_alignment(const struct emu_lt_layout *x, uint32_t promised)
{
    uint32_t alignment = 16;
    size_t step = (size_t)x->ld * emu_type_size((cudaDataType)x->type);
    while (alignment > 1 && (promised % alignment || step % alignment))
        alignment /= 2;
    return alignment;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    EMU_BLAS_ENTER(cublasLtMatmulAlgoGetHeuristic);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!desc || !a || !b || !c || !d || !preference || !results || !count || wanted <= 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    struct emu_lt_desc copy = *(const struct emu_lt_desc *)(const void *)desc;
    int nowhere; /* the pointers are given later: only the shapes matter here */
    copy.bias = copy.aux = &nowhere;
    struct call call = {.desc = &copy, .layout = {(void *)a, (void *)b, (void *)c, (void *)d}};
    struct emu_gemm gemm;
    cublasStatus_t status = describe(&call, &gemm);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = emu_gemm_check(&gemm, (cublasComputeType_t)copy.compute, (cudaDataType)copy.scale);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const struct emu_lt_preference *want = (const void *)preference;
    struct emu_lt_algo algo = {.magic = algo_magic};
    for (int i = 0; i < 4; i++)
        algo.alignment[i] = wanted_alignment(call.layout[i], want->alignment[i]);
    for (uint64_t workspace = EMU_BLAS_WORKSPACE;; workspace = 0) { /* the one with a workspace is the "faster" one */
        if (workspace <= want->max_workspace && *count < wanted) {
            algo.workspace = workspace;
            results[*count] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = workspace, .wavesCount = 1};
            memcpy(&results[*count].algo, &algo, sizeof algo);
            results[(*count)++].state = CUBLAS_STATUS_SUCCESS;
        }
        if (!workspace)
            return CUBLAS_STATUS_SUCCESS;
    }
}

static cublasStatus_t check_algo(const struct call *call, const struct emu_lt_algo *algo, size_t workspace_size)
{
    if (algo->magic != algo_magic || algo->workspace > workspace_size)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)call->data[i] % algo->alignment[i]) {
            emu_report("blas",
                       "cublasLtMatmul: %c at %p is not aligned to %u bytes, which the algorithm from the "
                       "heuristic wants; set CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_%c_BYTES before asking for it",
                       "ABCD"[i], call -> data[i], algo -> alignment[i], "ABCD"[i]);
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_size, cudaStream_t stream)
{
    EMU_BLAS_ENTER(cublasLtMatmul);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!desc || !alpha || !beta || !a || !b || !d || (uintptr_t)workspace % 16)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (emu_wrong_device("cublasLtMatmul", ((struct cublasLtContext *)handle)->device, stream))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct call call = {.desc = (const void *)desc, .data = {a, b, c ? c : d, d}};
    call.layout[0] = (const void *)layout_a;
    call.layout[1] = (const void *)layout_b;
    call.layout[2] = (const void *)(layout_c ? layout_c : layout_d);
    call.layout[3] = (const void *)layout_d;
    struct emu_gemm gemm;
    cublasStatus_t status = describe(&call, &gemm);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = emu_gemm_check(&gemm, (cublasComputeType_t)call.desc->compute, (cudaDataType)call.desc->scale);
    if (status == CUBLAS_STATUS_SUCCESS && algo)
        status = check_algo(&call, (const void *)algo, workspace_size);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (call.desc->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        gemm.device_alpha = alpha;
        gemm.device_beta = beta;
    } else if (call.desc->pointer_mode == CUBLASLT_POINTER_MODE_HOST) {
        gemm.alpha = *(const float *)alpha;
        gemm.beta = *(const float *)beta;
    } else {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    gemm.workspace = workspace;
    gemm.workspace_size = algo ? ((const struct emu_lt_algo *)(const void *)algo)->workspace
                          : workspace_size < EMU_BLAS_WORKSPACE ? 0
                                                                : EMU_BLAS_WORKSPACE;
    return emu_gemm_enqueue(stream, "cublasLtMatmul", &gemm);
}
