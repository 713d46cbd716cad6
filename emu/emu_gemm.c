/* A matrix product with the semantics of cuBLASLt: f32 sums in the order of k, one rounding at the end. The tile is
 * kept in registers by any vectorizing compiler; that is enough for tests of whole models. */
#include "emu/emu_gemm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_float.h"
#include "emu/emu_runtime.h"

enum { TILE_M = 64, TILE_N = 8 };
enum { RELU = 2, BIAS = 4, BIAS_GRAD = 16, GELU = 32, GELU_GRAD = 64, AUX = 128, BIAS_GRAD_A = 256, BIAS_GRAD_B = 512 };

size_t emu_type_size(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 0;
}

float emu_load(const void *data, cudaDataType type, int64_t index)
{
    if (type == CUDA_R_32F)
        return ((const float *)data)[index];
    uint16_t half = ((const uint16_t *)data)[index];
    return type == CUDA_R_16BF ? emu_from_bf16(half) : emu_from_f16(half);
}

void emu_store(void *data, cudaDataType type, int64_t index, float value)
{
    if (type == CUDA_R_32F)
        ((float *)data)[index] = value;
    else
        ((uint16_t *)data)[index] = type == CUDA_R_16BF ? emu_to_bf16(value) : emu_to_f16(value);
}

static const char *batch_of(const struct emu_matrix *matrix, int z)
{
    return (const char *)matrix->data + z * matrix->batch_stride * (int64_t)emu_type_size(matrix->type);
}

static float element(const struct emu_matrix *matrix, const void *data, int64_t row, int64_t col)
{
    return emu_load(data, matrix->type, row * matrix->row_stride + col * matrix->col_stride);
}

/* Tells the checker which bytes the product touches: runs of the dimension that is contiguous. */
static void touch(struct emu_op *op, const struct emu_matrix *matrix, int z, int64_t rows, int64_t cols, bool write)
{
    bool columns = matrix->row_stride == 1;
    int64_t run = columns ? rows : cols, count = columns ? cols : rows;
    int64_t stride = columns ? matrix->col_stride : matrix->row_stride;
    size_t size = emu_type_size(matrix->type);
    const char *data = batch_of(matrix, z);
    if (stride == run) {
        run *= count;
        count = 1;
    }
    for (int64_t i = 0; i < count && !op->error; i++)
        emu_use(op, data + (size_t)(i * stride) * size, (size_t)run * size, write);
}

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    float t = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x * x);
}

/* One batch at work: packed copies of a ([k][m]) and of TILE_N columns of b ([k][TILE_N]). */
struct work {
    const struct emu_gemm *gemm;
    int z;
    float alpha, beta;
    float *a, *b, *bias_grad;
    char *bias;
};

static void pack_a(struct work *w)
{
    const struct emu_gemm *g = w->gemm;
    const char *data = batch_of(&g->a, w->z);
    for (int64_t k = 0; k < g->k; k++)
        for (int64_t i = 0; i < g->m; i++) {
            float value = element(&g->a, data, i, k);
            w->a[k * g->m + i] = g->tf32 ? emu_to_tf32(value) : value;
        }
}

static void pack_b(struct work *w, int64_t first, int64_t cols)
{
    const struct emu_gemm *g = w->gemm;
    const char *data = batch_of(&g->b, w->z);
    for (int64_t k = 0; k < g->k; k++)
        for (int64_t j = 0; j < TILE_N; j++) {
            float value = j < cols ? element(&g->b, data, k, first + j) : 0;
            w->b[k * TILE_N + j] = g->tf32 ? emu_to_tf32(value) : value;
        }
}

static float apply_epilogue(struct work *w, float value, int64_t i, int64_t j)
{
    const struct emu_gemm *g = w->gemm;
    uint32_t e = g->epilogue;
    int64_t at = i * g->aux.row_stride + j * g->aux.col_stride;
    if (e & BIAS)
        value += emu_load(w->bias, g->d.type, i);
    if (e & GELU_GRAD) {
        value *= gelu_slope(emu_load(batch_of(&g->aux, w->z), g->aux.type, at));
    } else if (e & GELU) {
        if (e & AUX)
            emu_store((char *)batch_of(&g->aux, w->z), g->aux.type, at, value);
        value = gelu(value);
    } else if (e & RELU) {
        value = value > 0 ? value : 0;
    }
    if (e & BIAS_GRAD)
        w->bias_grad[i] += value;
    return value;
}

static void tile(struct work *w, int64_t i0, int64_t j0, int64_t rows, int64_t cols)
{
    const struct emu_gemm *g = w->gemm;
    float sum[TILE_N][TILE_M] = {{0}};
    if (rows == TILE_M) {
        for (int64_t k = 0; k < g->k; k++)
            for (int j = 0; j < TILE_N; j++)
                for (int i = 0; i < TILE_M; i++)
                    sum[j][i] += w->a[k * g->m + i0 + i] * w->b[k * TILE_N + j];
    } else {
        for (int64_t k = 0; k < g->k; k++)
            for (int j = 0; j < TILE_N; j++)
                for (int64_t i = 0; i < rows; i++)
                    sum[j][i] += w->a[k * g->m + i0 + i] * w->b[k * TILE_N + j];
    }
    const char *c = batch_of(&g->c, w->z);
    char *d = (char *)batch_of(&g->d, w->z);
    for (int64_t j = j0; j < j0 + cols; j++)
        for (int64_t i = i0; i < i0 + rows; i++) {
            float value = w->alpha * sum[j - j0][i - i0];
            if (w->beta != 0)
                value += w->beta * element(&g->c, c, i, j);
            value = apply_epilogue(w, value, i, j);
            emu_store(d, g->d.type, i * g->d.row_stride + j * g->d.col_stride, value);
        }
}

static void touch_operands(struct emu_op *op, const struct work *w)
{
    const struct emu_gemm *g = w->gemm;
    size_t size = emu_type_size(g->d.type);
    touch(op, &g->a, w->z, g->m, g->k, false);
    touch(op, &g->b, w->z, g->k, g->n, false);
    if (w->beta != 0)
        touch(op, &g->c, w->z, g->m, g->n, false);
    if (g->epilogue & BIAS)
        emu_use(op, w->bias, (size_t)g->m * size, false);
    if (g->epilogue & AUX)
        touch(op, &g->aux, w->z, g->m, g->n, (g->epilogue & GELU) != 0);
    touch(op, &g->d, w->z, g->m, g->n, true);
    if (g->epilogue & (BIAS_GRAD | BIAS_GRAD_A))
        emu_use(op, w->bias, (size_t)g->m * size, true);
    if (g->epilogue & BIAS_GRAD_B)
        emu_use(op, w->bias, (size_t)g->n * size, true);
}

/* Sums of an operand over k, which the BGRADA and BGRADB epilogues store. */
static void operand_grad(struct work *w)
{
    const struct emu_gemm *g = w->gemm;
    bool of_a = g->epilogue & BIAS_GRAD_A;
    int64_t length = of_a ? g->m : g->n;
    for (int64_t i = 0; i < length; i++) {
        float sum = 0;
        for (int64_t k = 0; k < g->k; k++)
            sum += of_a ? element(&g->a, batch_of(&g->a, w->z), i, k) : element(&g->b, batch_of(&g->b, w->z), k, i);
        emu_store(w->bias, g->d.type, i, sum);
    }
}

static void run_batch(struct emu_op *op, struct work *w)
{
    const struct emu_gemm *g = w->gemm;
    if (g->epilogue & (BIAS | BIAS_GRAD | BIAS_GRAD_A | BIAS_GRAD_B))
        w->bias = (char *)g->bias + w->z * g->bias_stride * (int64_t)emu_type_size(g->d.type);
    touch_operands(op, w);
    if (op->error) /* the memory may not be there */
        return;
    for (int64_t i = 0; i < g->m; i++)
        w->bias_grad[i] = 0;
    pack_a(w);
    if (g->epilogue & (BIAS_GRAD_A | BIAS_GRAD_B))
        operand_grad(w);
    for (int64_t j = 0; j < g->n; j += TILE_N) {
        int64_t cols = g->n - j < TILE_N ? g->n - j : TILE_N;
        pack_b(w, j, cols);
        for (int64_t i = 0; i < g->m; i += TILE_M)
            tile(w, i, j, g->m - i < TILE_M ? g->m - i : TILE_M, cols);
    }
    if (g->epilogue & BIAS_GRAD)
        for (int64_t i = 0; i < g->m; i++)
            emu_store(w->bias, g->d.type, i, w->bias_grad[i]);
}

/* No caller may count on what a workspace holds before or after. */
static void spoil_workspace(struct emu_op *op, const struct emu_gemm *g)
{
    emu_use(op, g->workspace, g->workspace_size, true);
    if (!op->error)
        memset(g->workspace, 0xff, g->workspace_size);
}

void emu_gemm_run(struct emu_op *op, void *args)
{
    const struct emu_gemm *g = args;
    struct work w = {.gemm = g, .alpha = g->alpha, .beta = g->beta};
    if (g->workspace_size)
        spoil_workspace(op, g);
    if (g->device_alpha) {
        emu_use(op, g->device_alpha, sizeof(float), false);
        emu_use(op, g->device_beta, sizeof(float), false);
        if (op->error)
            return;
        w.alpha = *g->device_alpha;
        w.beta = *g->device_beta;
    }
    float *memory = malloc(((size_t)g->m * (size_t)(g->k + 1) + (size_t)g->k * TILE_N) * sizeof(float));
    if (!memory) {
        op->error = cudaErrorLaunchFailure;
        return;
    }
    w.a = memory;
    w.bias_grad = w.a + g->m * g->k;
    w.b = w.bias_grad + g->m;
    for (w.z = 0; w.z < g->batch && !op->error; w.z++)
        run_batch(op, &w);
    free(memory);
}

static bool known_epilogue(uint32_t epilogue)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
        return true;
    default:
        return false;
    }
}

cublasStatus_t emu_gemm_check(const struct emu_gemm *g, cublasComputeType_t compute, cudaDataType scale)
{
    cudaDataType in = g->a.type, out = g->d.type;
    if (g->m < 0 || g->n < 0 || g->k < 0 || g->batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
        compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (scale != CUDA_R_32F || !emu_type_size(in) || in != g->b.type || g->c.type != out)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (out != CUDA_R_32F && out != in)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!known_epilogue(g->epilogue))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    uint32_t needs_bias = BIAS | BIAS_GRAD | BIAS_GRAD_A | BIAS_GRAD_B;
    if ((g->epilogue & needs_bias && !g->bias) || (g->epilogue & AUX && !g->aux.data))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (g->epilogue & AUX && (g->aux.type != out || g->aux.col_stride < g->m || g->aux.col_stride % 8))
        return CUBLAS_STATUS_INVALID_VALUE; /* the real library wants leading dimensions of aux divisible by 8 */
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t emu_gemm_enqueue(cudaStream_t stream, const char *name, const struct emu_gemm *gemm)
{
    if (!gemm->m || !gemm->n || !gemm->batch)
        return CUBLAS_STATUS_SUCCESS;
    cudaError_t error = emu_enqueue(stream, EMU_BLAS, name, emu_gemm_run, gemm, sizeof *gemm);
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
