/* cuBLAS against sums in double: types, transpositions, batches, leading dimensions. */
#include "blas_samples.h"

struct sizes {
    int m, n, k, batch;
};
static const sizes shapes[] = {{1, 1, 1, 1},    {64, 8, 16, 1}, {65, 9, 7, 2},
                               {3, 130, 33, 1}, {70, 1, 5, 3},  {4, 4, 0, 1}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

START_TEST(products_are_right)
{
    cublasHandle_t handle;
    ck_blas(cublasCreate(&handle));
    cudaDataType type = blas_types[_i];
    for (const sizes &s : shapes)
        for (int flags = 0; flags < 8; flags++) {
            bool turn_a = flags & 1, turn_b = flags & 2, wide = flags & 4;
            int lda = (turn_a ? s.k : s.m) + 2, ldb = (turn_b ? s.n : s.k) + 1, ldc = s.m + 3;
            int cols_a = turn_a ? s.m : s.k, cols_b = turn_b ? s.k : s.n;
            cudaDataType out = wide ? CUDA_R_32F : type;
            long long sa = static_cast<long long>(lda) * cols_a, sb = static_cast<long long>(ldb) * cols_b;
            long long sc = static_cast<long long>(ldc) * s.n;
            floats a = numbers(sa * s.batch + 1, type, 1), b = numbers(sb * s.batch + 1, type, 2);
            floats c = numbers(sc * s.batch, out, 3);
            void *da = upload(a, type), *db = upload(b, type), *dc = upload(c, out);
            float alpha = 0.5f, beta = 2.0f;
            ck_blas(cublasGemmStridedBatchedEx(handle, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                                               turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, s.m, s.n, s.k, &alpha, da, type, lda,
                                               sa, db, type, ldb, sb, &beta, dc, out, ldc, sc, s.batch,
                                               CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
            alpha = beta = NAN; /* host scalars were read at the call */
            floats got = download(dc, c.size(), out);
            for (int z = 0; z < s.batch; z++)
                for (int j = 0; j < s.n; j++)
                    for (int i = 0; i < ldc; i++) {
                        double want = 0;
                        for (int k = 0; k < s.k; k++)
                            want += double(a[z * sa + (turn_a ? k + i * lda : i + k * lda)]) *
                                    b[z * sb + (turn_b ? j + k * ldb : k + j * ldb)] * (i < s.m);
                        size_t at = z * sc + j * ldc + i;
                        want = i < s.m ? 0.5 * want + 2.0 * c[at] : c[at]; /* the rest is left alone */
                        ck_near(got[at], want, out == CUDA_R_32F ? 1e-5 : 1e-2, "c", int(at));
                    }
            for (void *p : {da, db, dc})
                ck_cuda(cudaFree(p));
        }
    ck_blas(cublasDestroy(handle));
    ck_clean();
}
END_TEST

START_TEST(tf32_loses_bits_only_where_it_is_asked_for)
{
    cublasHandle_t handle;
    float one = 1.0f, zero = 0.0f, x = 1.0f + 1.0f / 4096, *a, *c, got;
    ck_blas(cublasCreate(&handle));
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&a), 4));
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&c), 4));
    ck_cuda(cudaMemcpy(a, &x, 4, cudaMemcpyHostToDevice));
    for (int tf32 = 0; tf32 < 2; tf32++) {
        ck_blas(cublasSetMathMode(handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
        ck_blas(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, 1, a, 1, &zero, c, 1));
        ck_cuda(cudaMemcpy(&got, c, 4, cudaMemcpyDeviceToHost));
        ck_assert(got == (tf32 ? 1.0f : x * x));
    }
    ck_blas(cublasDestroy(handle));
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("blas", tcase_add_loop_test(tc, products_are_right, 0, 3);
              tcase_add_test(tc, tf32_loses_bits_only_where_it_is_asked_for);)
