/* Private: what the emulated cuBLASLt keeps in the opaque descriptors of the real header. */
#ifndef EMU_BLASLT_DESC_H
#define EMU_BLASLT_DESC_H
#include <cublasLt.h>
#include <assert.h>
#include <stdint.h>

struct emu_lt_desc {
    int32_t compute, scale, pointer_mode, op_a, op_b;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride;
    int32_t bias_type, aux_type; /* -1: the type of D */
};

struct emu_lt_layout {
    uint32_t type;
    int32_t order;
    uint64_t rows, cols;
    int64_t ld, stride;
    int32_t batch;
};

struct emu_lt_preference {
    uint64_t max_workspace;
    uint32_t alignment[4];                /* of A, B, C, D, in bytes */
    uint32_t search_mode, reduction_mask; /* kept, and not used: there is one algorithm */
};

/* What a heuristic promises to run: with this workspace, for pointers aligned so. */
struct emu_lt_algo {
    uint64_t magic, workspace;
    uint32_t alignment[4];
};

static_assert(sizeof(struct emu_lt_desc) <= sizeof(cublasLtMatmulDescOpaque_t), "fits into the opaque descriptor");
static_assert(sizeof(struct emu_lt_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits into the opaque layout");
static_assert(sizeof(struct emu_lt_preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits into the preference");
static_assert(sizeof(struct emu_lt_algo) <= sizeof(cublasLtMatmulAlgo_t), "fits into the algorithm");
#endif
