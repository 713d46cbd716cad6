/* cuBLASLt: epilogues against double, heuristics, workspaces; and its misuse. */
#include "blas_samples.h"

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

/* One cublasLt product [M,N] = [M,K][K,N] with everything that an epilogue may want. */
enum { M = 16, COLS = 5, K = 12 };
struct lt {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cudaDataType type;
    floats ha, hb, hbias, haux;
    void *da, *db, *dd, *dbias, *daux;
};

template <class T> static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T value)
{
    ck_blas(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
}

static lt make_lt(cudaDataType type, cublasLtEpilogue_t epilogue)
{
    lt t;
    t.type = type;
    ck_blas(cublasLtCreate(&t.handle));
    ck_blas(cublasLtMatmulDescCreate(&t.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    ck_blas(cublasLtMatrixLayoutCreate(&t.a, type, M, K, M));
    ck_blas(cublasLtMatrixLayoutCreate(&t.b, type, K, COLS, K));
    ck_blas(cublasLtMatrixLayoutCreate(&t.d, type, M, COLS, M));
    t.ha = numbers(M * K, type, 1);
    t.hb = numbers(K * COLS, type, 2);
    t.hbias = numbers(M, type, 3);
    t.haux = numbers(M * COLS, type, 4);
    t.da = upload(t.ha, type);
    t.db = upload(t.hb, type);
    t.dbias = upload(t.hbias, type);
    t.daux = upload(t.haux, type);
    ck_cuda(cudaMalloc(&t.dd, M * COLS * size_of(type)));
    set(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(t.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, t.dbias);
    set(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, t.daux);
    set(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(M));
    return t;
}

static void unmake_lt(const lt &t)
{
    ck_blas(cublasLtMatmulDescDestroy(t.desc));
    for (cublasLtMatrixLayout_t layout : {t.a, t.b, t.d})
        ck_blas(cublasLtMatrixLayoutDestroy(layout));
    ck_blas(cublasLtDestroy(t.handle));
}

static cublasStatus_t run(const lt &t, const cublasLtMatmulAlgo_t *algo = nullptr, void *workspace = nullptr,
                          size_t size = 0)
{
    float one = 1.0f, zero = 0.0f;
    return cublasLtMatmul(t.handle, t.desc, &one, t.da, t.a, t.db, t.b, &zero, t.dd, t.d, t.dd, t.d, algo, workspace,
                          size, nullptr);
}

static const cublasLtEpilogue_t epilogues[] = {
    CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_GELU,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    CUBLASLT_EPILOGUE_DGELU,   CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB};

START_TEST(epilogues_are_right)
{
    for (cublasLtEpilogue_t e : epilogues) {
        lt t = make_lt(blas_types[_i], e);
        double tolerance = t.type == CUDA_R_32F ? 1e-4 : 3e-2, bias_grad[M] = {0};
        bool bgrad = e == CUBLASLT_EPILOGUE_DGELU_BGRAD;
        ck_blas(run(t));
        floats d = download(t.dd, M * COLS, t.type), aux = download(t.daux, M * COLS, t.type);
        floats bias = download(t.dbias, M, t.type);
        for (int j = 0; j < COLS; j++)
            for (int i = 0; i < M; i++) {
                double v = 0, x = t.haux[j * M + i], h = 1e-4;
                for (int k = 0; k < K; k++)
                    v += double(t.ha[k * M + i]) * t.hb[j * K + k];
                if (e & CUBLASLT_EPILOGUE_BIAS)
                    v += t.hbias[i];
                if (e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
                    ck_near(aux[j * M + i], v, tolerance, "aux", j * M + i);
                if (e == CUBLASLT_EPILOGUE_DGELU || bgrad)
                    v *= (gelu(x + h) - gelu(x - h)) / (2 * h);
                else if (e & CUBLASLT_EPILOGUE_GELU)
                    v = gelu(v);
                else if (e & CUBLASLT_EPILOGUE_RELU)
                    v = v > 0 ? v : 0;
                bias_grad[i] += v;
                ck_near(d[j * M + i], v, tolerance, "d", j * M + i);
            }
        for (int i = 0; i < M; i++) {
            double want = bgrad ? bias_grad[i] : t.hbias[i];
            if (e == CUBLASLT_EPILOGUE_BGRADA || (e == CUBLASLT_EPILOGUE_BGRADB && i < COLS)) {
                want = 0;
                for (int k = 0; k < K; k++)
                    want += e == CUBLASLT_EPILOGUE_BGRADA ? t.ha[k * M + i] : t.hb[i * K + k];
            }
            ck_near(bias[i], want, tolerance, "bias", i);
        }
        unmake_lt(t);
    }
    ck_clean();
}
END_TEST

START_TEST(heuristics_keep_their_word)
{
    lt t = make_lt(CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result[3];
    int count;
    uint64_t most = 1 << 20;
    void *workspace;
    ck_blas(cublasLtMatmulPreferenceCreate(&preference));
    ck_blas(cublasLtMatmulAlgoGetHeuristic(t.handle, t.desc, t.a, t.b, t.d, t.d, preference, 3, result, &count));
    ck_assert(count == 1 && result[0].workspaceSize == 0);
    ck_blas(run(t, &result[0].algo));
    ck_blas(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, 8));
    ck_blas(cublasLtMatmulAlgoGetHeuristic(t.handle, t.desc, t.a, t.b, t.d, t.d, preference, 3, result, &count));
    ck_assert(count == 2 && result[0].workspaceSize > 0 && result[0].workspaceSize <= most);
    ck_assert(run(t, &result[0].algo) == CUBLAS_STATUS_INVALID_VALUE); /* no workspace */
    ck_cuda(cudaMalloc(&workspace, result[0].workspaceSize));
    ck_blas(run(t, &result[0].algo, workspace, result[0].workspaceSize));
    ck_cuda(cudaDeviceSynchronize());
    ck_clean();
    t.da = static_cast<char *>(t.da) + 4;
    ck_assert(run(t, &result[1].algo) == CUBLAS_STATUS_NOT_SUPPORTED);
    ck_found("blas", "A at");
    ck_blas(cublasLtMatmulPreferenceDestroy(preference));
    unmake_lt(t);
}
END_TEST

START_TEST(one_workspace_on_two_streams_is_a_race)
{
    lt t = make_lt(CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT), u = make_lt(CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT);
    cudaStream_t stream[2];
    void *workspace;
    float one = 1.0f, zero = 0.0f;
    size_t size = 1 << 20;
    ck_cuda(cudaMalloc(&workspace, size));
    ck_cuda(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++) {
        const lt &x = i ? u : t;
        ck_cuda(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
        ck_blas(cublasLtMatmul(x.handle, x.desc, &one, x.da, x.a, x.db, x.b, &zero, x.dd, x.d, x.dd, x.d, nullptr,
                               workspace, size, stream[i]));
    }
    ck_cuda(cudaDeviceSynchronize());
    ck_found("stream-race", "cublasLtMatmul");
    unmake_lt(t);
    unmake_lt(u);
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
    lt t = make_lt(CUDA_R_16BF, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
    set(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(M + 1)); /* not divisible by 8 */
    ck_assert(run(t) == CUBLAS_STATUS_INVALID_VALUE);
    set(t.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(M));
    set(t.desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T); /* the shapes do not fit */
    ck_assert(run(t) == CUBLAS_STATUS_INVALID_VALUE);
    set(t.desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N);
    set(t.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(CUDA_R_32F));
    ck_assert(run(t) == CUBLAS_STATUS_NOT_SUPPORTED);
    ck_clean();
    set(t.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(CUDA_R_16BF));
    ck_cuda(cudaSetDevice(1));
    ck_assert(run(t) == CUBLAS_STATUS_INVALID_VALUE);
    ck_found("device", "belongs to device 0");
    ck_cuda(cudaSetDevice(0));
    float host[M * K] = {0};
    t.da = host;
    ck_blas(run(t));
    ck_assert(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    ck_found("memcheck", "host memory");
    unmake_lt(t);
    ck_assert_int_eq(emu_live("cuBLAS handle"), 0);
}
END_TEST

EMU_TEST_MAIN("blaslt", tcase_add_loop_test(tc, epilogues_are_right, 0, 3);
              tcase_add_test(tc, heuristics_keep_their_word);
              tcase_add_test(tc, one_workspace_on_two_streams_is_a_race);
              tcase_add_test(tc, wrong_arguments_are_refused);)
