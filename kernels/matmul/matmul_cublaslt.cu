/* Matrix products by cublasLt.
 *
 * cublasLt counts columns first, so it sees every row-major matrix transposed, and out^T = op(B)^T op(A)^T is what it
 * is asked for. Descriptors and the choice of an algorithm cost as much as a small product: each device keeps them by
 * case, so that a repeated step makes none. Algorithms that add parts in the output's own memory are not used: their
 * order is not fixed. */
#include "kernels/matmul/gemm.h"
#include "kernels/pointwise.cuh"
#include <stdlib.h>
#include <string.h>

namespace
{
enum { KEY_WORDS = 8, BUCKETS = 64, WORKSPACE = 32 << 20 };

struct plan {
    int64_t key[KEY_WORDS];
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulHeuristicResult_t choice;
    plan *next;
};

struct library {
    bool tf32;
    plan *buckets[BUCKETS];
};

void plan_destroy(plan *p)
{
    if (p->out)
        cublasLtMatrixLayoutDestroy(p->out);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->product)
        cublasLtMatmulDescDestroy(p->product);
    spmd__free(p);
}

void library_destroy(void *slot)
{
    library *l = (library *)slot;
    for (plan *p : l->buckets)
        while (p) {
            plan *next = p->next;
            plan_destroy(p);
            p = next;
        }
    spmd__free(l);
}

void *library_create(spmd_ctx *ctx)
{
    library *l = (library *)spmd__alloc(spmd__ctx_mesh(ctx), sizeof *l);
    const char *tf32 = getenv("SPMD_TF32");
    if (!l)
        return NULL;
    memset(l, 0, sizeof *l);
    l->tf32 = tf32 && strcmp(tf32, "1") == 0;
    return l;
}

cudaDataType_t type_of(spmd_dtype dtype)
{
    return dtype == SPMD_F32 ? CUDA_R_32F : dtype == SPMD_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* The largest power of two up to 256 that divides all addresses. */
int64_t alignment_of(const void *a, const void *b, const void *addend, const void *out)
{
    const uint64_t bits = (uint64_t)(uintptr_t)a | (uint64_t)(uintptr_t)b | (uint64_t)(uintptr_t)addend |
                          (uint64_t)(uintptr_t)out | 256;
    return (int64_t)(bits & (~bits + 1));
}

/* A row-major [rows, columns], which cublasLt sees as its transpose. */
spmd_status make_layout(cublasLtMatrixLayout_t *layout, spmd_dtype dtype, int64_t batch, int64_t rows, int64_t columns,
                        bool shared)
{
    const int32_t count = (int32_t)batch;
    const int64_t step = shared ? 0 : rows * columns;
    SPMD_CUBLAS_TRY(cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, columns));
    SPMD_CUBLAS_TRY(
        cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    SPMD_CUBLAS_TRY(
        cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
    return SPMD_OK;
}

template <class T> spmd_status set(plan *p, cublasLtMatmulDescAttributes_t attribute, T value)
{
    return spmd__cublas_check(cublasLtMatmulDescSetAttribute(p->product, attribute, &value, sizeof value),
                              "cublasLtMatmulDescSetAttribute");
}

spmd_status describe(plan *p, const library *l, const spmd__gemm_case *c, bool bias)
{
    const cublasComputeType_t compute = l->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t left = c->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right = c->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    SPMD_CUBLAS_TRY(
        cublasLtMatmulDescCreate(&p->product, c->dtype == SPMD_F32 ? compute : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SPMD_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, left));
    SPMD_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSB, right));
    if (bias)
        SPMD_TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    SPMD_TRY(make_layout(&p->a, c->dtype, c->batch, c->transpose_a ? c->k : c->m, c->transpose_a ? c->m : c->k, false));
    SPMD_TRY(
        make_layout(&p->b, c->dtype, c->batch, c->transpose_b ? c->n : c->k, c->transpose_b ? c->k : c->n, c->share_b));
    return make_layout(&p->out, c->out_dtype, c->batch, c->m, c->n, false);
}

spmd_status set_preferences(cublasLtMatmulPreference_t wish, int64_t alignment)
{
    static const cublasLtMatmulPreferenceAttributes_t addresses[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t workspace = WORKSPACE;
    const uint32_t bytes = (uint32_t)alignment, reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    SPMD_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                         sizeof workspace));
    SPMD_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                                                         sizeof reduction));
    for (cublasLtMatmulPreferenceAttributes_t address : addresses)
        SPMD_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(wish, address, &bytes, sizeof bytes));
    return SPMD_OK;
}

spmd_status choose(spmd_ctx *ctx, plan *p, const spmd__gemm_case *c, int64_t alignment)
{
    cublasLtMatmulPreference_t wish;
    int found = 0;
    SPMD_CUBLAS_TRY(cublasLtMatmulPreferenceCreate(&wish));
    spmd_status status = set_preferences(wish, alignment);
    if (status == SPMD_OK)
        status = spmd__cublas_check(cublasLtMatmulAlgoGetHeuristic(spmd__cublaslt(ctx), p->product, p->b, p->a, p->out,
                                                                   p->out, wish, 1, &p->choice, &found),
                                    "cublasLtMatmulAlgoGetHeuristic");
    cublasLtMatmulPreferenceDestroy(wish);
    SPMD_TRY(status);
    SPMD_CHECK(
        found > 0, SPMD_EUNSUPPORTED,
        "matmul: cublasLt has no algorithm for %s [%lld,%lld] x [%lld,%lld], batch %lld; cast the operands to f32",
        spmd_dtype_name(c->dtype), (long long)c->m, (long long)c->k, (long long)c->k, (long long)c->n,
        (long long)c->batch);
    return SPMD_OK;
}

/* The case's plan, made at its first use. */
spmd_status find_plan(spmd_ctx *ctx, library *l, const spmd__gemm_case *c, bool bias, int64_t alignment, plan **out)
{
    const int64_t flags = c->transpose_a | c->transpose_b << 1 | c->share_b << 2 | bias << 3;
    const int64_t key[KEY_WORDS] = {c->dtype, c->out_dtype, c->batch, c->m, c->n, c->k, flags, alignment};
    uint64_t hash = 0;
    for (int64_t word : key)
        hash = (hash ^ (uint64_t)word) * 0x9E3779B97F4A7C15u;
    plan **bucket = &l->buckets[(hash >> 32) % BUCKETS];
    for (plan *p = *bucket; p; p = p->next)
        if (memcmp(p->key, key, sizeof key) == 0) {
            *out = p;
            return SPMD_OK;
        }
    plan *p = (plan *)spmd__alloc(spmd__ctx_mesh(ctx), sizeof *p);
    SPMD_CHECK(p, SPMD_ENOMEM, "matmul: no memory for a plan: %s", spmd_last_error());
    memset(p, 0, sizeof *p);
    memcpy(p->key, key, sizeof key);
    spmd_status status = describe(p, l, c, bias);
    if (status == SPMD_OK)
        status = choose(ctx, p, c, alignment);
    if (status != SPMD_OK) {
        plan_destroy(p);
        return status;
    }
    p->next = *bucket;
    *bucket = *out = p;
    return SPMD_OK;
}

struct repeated {
    template <class T> __device__ T operator()(T x) const
    {
        return x;
    }
};

/* A product over nothing: what is added, or the bias on every row, or zeros. */
spmd_status product_of_nothing(spmd_ctx *ctx, const spmd__gemm_case *c, const void *bias, const void *addend, void *out)
{
    const size_t bytes = (size_t)(c->batch * c->m * c->n) * spmd_dtype_size(c->out_dtype);
    if (addend == out)
        return SPMD_OK;
    if (addend)
        return spmd__cuda_check(cudaMemcpyAsync(out, addend, bytes, cudaMemcpyDeviceToDevice, spmd__cuda_stream(ctx)),
                                "matmul");
    if (!bias)
        return spmd__cuda_check(cudaMemsetAsync(out, 0, bytes, spmd__cuda_stream(ctx)), "matmul");
    spmd_view from = {(void *)bias, c->dtype, 1, {c->n}, {1}, 0};
    spmd_view to = {out, c->out_dtype, 2, {c->batch * c->m, c->n}, {c->n, 1}, 0};
    spmd_kernel_args args = {NULL, 1, 1, &from, &to, 0};
    return spmd_kernel::for_size(spmd_dtype_size(c->dtype), [&](auto t) {
        typedef typename decltype(t)::type T;
        return spmd_kernel::pointwise<T, T>(ctx, &args, repeated(), "matmul");
    });
}
} // namespace

spmd_status spmd__gemm_cuda(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                            const void *addend, void *out)
{
    static const char key = 0;
    const float one = 1, zero = 0;
    plan *p = NULL;
    void *workspace = NULL;
    if (c->batch == 0 || c->m == 0 || c->n == 0)
        return SPMD_OK;
    if (c->k == 0)
        return product_of_nothing(ctx, c, bias, addend, out);
    library *l = (library *)spmd__device_slot(ctx, &key, library_create, library_destroy);
    SPMD_CHECK(l, SPMD_ENOMEM, "matmul: no memory for plans: %s", spmd_last_error());
    SPMD_TRY(find_plan(ctx, l, c, bias != NULL, alignment_of(a, b, addend, out), &p));
    if (bias)
        SPMD_TRY(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    if (p->choice.workspaceSize > 0) {
        workspace = spmd__scratch(ctx, p->choice.workspaceSize);
        SPMD_CHECK(workspace, SPMD_ENOMEM, "matmul: no memory for %zu bytes of workspace: %s", p->choice.workspaceSize,
                   spmd_last_error());
    }
    return spmd__cublas_check(cublasLtMatmul(spmd__cublaslt(ctx), p->product, &one, b, p->b, a, p->a,
                                             addend ? &one : &zero, addend ? addend : out, p->out, out, p->out,
                                             &p->choice.algo, workspace, p->choice.workspaceSize,
                                             spmd__cuda_stream(ctx)),
                              "cublasLtMatmul");
}
