/* Descriptors of the emulated cuBLASLt: plain structs inside the opaque ones, attributes by a table of places. */
#include "emu/emu_blaslt_desc.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_runtime.h"

struct place {
    int attribute;
    size_t offset, size;
};
#define PLACE(attribute, type, field) attribute, offsetof(struct type, field), sizeof(((struct type *)0)->field)

static const struct place desc_places[] = {
    {PLACE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, emu_lt_desc, compute)},
    {PLACE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, emu_lt_desc, scale)},
    {PLACE(CUBLASLT_MATMUL_DESC_POINTER_MODE, emu_lt_desc, pointer_mode)},
    {PLACE(CUBLASLT_MATMUL_DESC_TRANSA, emu_lt_desc, op_a)},
    {PLACE(CUBLASLT_MATMUL_DESC_TRANSB, emu_lt_desc, op_b)},
    {PLACE(CUBLASLT_MATMUL_DESC_EPILOGUE, emu_lt_desc, epilogue)},
    {PLACE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, emu_lt_desc, bias)},
    {PLACE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, emu_lt_desc, bias_stride)},
    {PLACE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, emu_lt_desc, bias_type)},
    {PLACE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, emu_lt_desc, aux)},
    {PLACE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, emu_lt_desc, aux_ld)},
    {PLACE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, emu_lt_desc, aux_stride)},
    {PLACE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, emu_lt_desc, aux_type)},
    {-1, 0, 0},
};

static const struct place layout_places[] = {
    {PLACE(CUBLASLT_MATRIX_LAYOUT_TYPE, emu_lt_layout, type)},
    {PLACE(CUBLASLT_MATRIX_LAYOUT_ORDER, emu_lt_layout, order)},
    {PLACE(CUBLASLT_MATRIX_LAYOUT_ROWS, emu_lt_layout, rows)},
    {PLACE(CUBLASLT_MATRIX_LAYOUT_COLS, emu_lt_layout, cols)},
    {PLACE(CUBLASLT_MATRIX_LAYOUT_LD, emu_lt_layout, ld)},
    {PLACE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, emu_lt_layout, batch)},
    {PLACE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, emu_lt_layout, stride)},
    {-1, 0, 0},
};

static const struct place preference_places[] = {
    {PLACE(CUBLASLT_MATMUL_PREF_SEARCH_MODE, emu_lt_preference, search_mode)},
    {PLACE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, emu_lt_preference, max_workspace)},
    {PLACE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, emu_lt_preference, reduction_mask)},
    {PLACE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, emu_lt_preference, alignment[0])},
    {PLACE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, emu_lt_preference, alignment[1])},
    {PLACE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, emu_lt_preference, alignment[2])},
    {PLACE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, emu_lt_preference, alignment[3])},
    {-1, 0, 0},
};

static cublasStatus_t set(const struct place *place, void *object, int attribute, const void *value, size_t size)
{
    while (place->attribute >= 0 && place->attribute != attribute)
        place++;
    if (!object || !value || size != place->size)
        return place->attribute < 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE;
    memcpy((char *)object + place->offset, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(const struct place *place, const void *object, int attribute, void *value, size_t size,
                          size_t *written)
{
    while (place->attribute >= 0 && place->attribute != attribute)
        place++;
    if (!object || place->attribute < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (written)
        *written = place->size;
    if (!size)
        return CUBLAS_STATUS_SUCCESS; /* a question for the size */
    if (!value || size != place->size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, (const char *)object + place->offset, size);
    return CUBLAS_STATUS_SUCCESS;
}

static void init_desc(cublasLtMatmulDesc_t desc, cublasComputeType_t compute, cudaDataType_t scale)
{
    struct emu_lt_desc fresh = {.compute = (int32_t)compute, .scale = (int32_t)scale, .bias_type = -1, .aux_type = -1};
    fresh.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    memcpy(desc, &fresh, sizeof fresh);
}

static void init_layout(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld)
{
    struct emu_lt_layout fresh = {.type = (uint32_t)type, .order = CUBLASLT_ORDER_COL, .rows = rows, .cols = cols};
    fresh.ld = ld;
    fresh.batch = 1;
    memcpy(layout, &fresh, sizeof fresh);
}

static void init_preference(cublasLtMatmulPreference_t preference)
{
    struct emu_lt_preference fresh = {.alignment = {256, 256, 256, 256}};
    memcpy(preference, &fresh, sizeof fresh);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    EMU_BLAS_ENTER(cublasLtMatmulDescInit_internal);
    if (!desc || size < sizeof *desc)
        return CUBLAS_STATUS_INVALID_VALUE;
    init_desc(desc, compute, scale);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)
{
    EMU_BLAS_ENTER(cublasLtMatmulDescCreate);
    *desc = calloc(1, sizeof **desc);
    if (!*desc)
        return CUBLAS_STATUS_ALLOC_FAILED;
    init_desc(*desc, compute, scale);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    EMU_BLAS_ENTER(cublasLtMatmulDescDestroy);
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    EMU_BLAS_ENTER(cublasLtMatmulDescSetAttribute);
    return set(desc_places, desc, (int)attribute, value, size);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              void *value, size_t size, size_t *written)
{
    EMU_BLAS_ENTER(cublasLtMatmulDescGetAttribute);
    return get(desc_places, desc, (int)attribute, value, size, written);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld)
{
    EMU_BLAS_ENTER(cublasLtMatrixLayoutInit_internal);
    if (!layout || size < sizeof *layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    init_layout(layout, type, rows, cols, ld);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    EMU_BLAS_ENTER(cublasLtMatrixLayoutCreate);
    *layout = calloc(1, sizeof **layout);
    if (!*layout)
        return CUBLAS_STATUS_ALLOC_FAILED;
    init_layout(*layout, type, rows, cols, ld);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    EMU_BLAS_ENTER(cublasLtMatrixLayoutDestroy);
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t size)
{
    EMU_BLAS_ENTER(cublasLtMatrixLayoutSetAttribute);
    return set(layout_places, layout, (int)attribute, value, size);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void *value, size_t size,
                                                size_t *written)
{
    EMU_BLAS_ENTER(cublasLtMatrixLayoutGetAttribute);
    return get(layout_places, layout, (int)attribute, value, size, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size)
{
    EMU_BLAS_ENTER(cublasLtMatmulPreferenceInit_internal);
    if (!preference || size < sizeof *preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    init_preference(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    EMU_BLAS_ENTER(cublasLtMatmulPreferenceCreate);
    *preference = calloc(1, sizeof **preference);
    if (!*preference)
        return CUBLAS_STATUS_ALLOC_FAILED;
    init_preference(*preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    EMU_BLAS_ENTER(cublasLtMatmulPreferenceDestroy);
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t size)
{
    EMU_BLAS_ENTER(cublasLtMatmulPreferenceSetAttribute);
    return set(preference_places, preference, (int)attribute, value, size);
}
