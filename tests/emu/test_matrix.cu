/* Matrix functions of warps against plain loops, and the device functions of numbers. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

static void *upload(const void *host, size_t n)
{
    void *x = nullptr;
    ck_cuda(cudaMalloc(&x, n));
    ck_cuda(cudaMemcpy(x, host, n, cudaMemcpyHostToDevice));
    return x;
}

/* Tiles begin at multiples of 32 bytes, as load_matrix_sync demands. */
template <class T, int K> constexpr int step_of = 32 / sizeof(T) > K ? 32 / sizeof(T) : K;

template <class T, class S, int M, int N, int K> __global__ void multiply(const T *a, const T *b, S *c, int skip)
{
    using namespace nvcuda;
    constexpr int STEP = step_of<T, K>;
    wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, M, N, K, S> fc;
    wmma::fill_fragment(fc, S(1.0f));
    for (int step = 0; step < 2; step++) {
        wmma::load_matrix_sync(fa, a + step * STEP + skip, 2 * STEP);
        wmma::load_matrix_sync(fb, b + step * STEP, 2 * STEP);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] = S(float(fc.x[i]) * 2.0f);
    wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}

template <class T, class S, int M, int N, int K> static void check_wmma(float tolerance)
{
    constexpr int STRIDE = 2 * step_of<T, K>;
    T a[M * STRIDE + 8], b[N * STRIDE];
    S c[M * N];
    for (int i = 0; i < M * STRIDE + 8; i++)
        a[i] = T(float(i * 7 % 11 - 5));
    for (int i = 0; i < N * STRIDE; i++)
        b[i] = T(float(i * 5 % 13 - 6));
    memset(c, 0, sizeof c);
    T *da = static_cast<T *>(upload(a, sizeof a)), *db = static_cast<T *>(upload(b, sizeof b));
    S *dc = static_cast<S *>(upload(c, sizeof c));
    SPMD_LAUNCH((multiply<T, S, M, N, K>), 1, 32, 0, nullptr, da, db, dc, 0);
    ck_cuda(cudaDeviceSynchronize());
    ck_cuda(cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float want = 1;
            for (int k = 0; k < 2 * K; k++) {
                int at = k / K * (STRIDE / 2) + k % K;
                want += float(a[i * STRIDE + at]) * float(b[j * STRIDE + at]);
            }
            ck_assert_msg(fabsf(float(c[i * N + j]) - 2 * want) <= tolerance * fabsf(2 * want), "%d,%d", i, j);
        }
    ck_clean();
    SPMD_LAUNCH((multiply<T, S, M, N, K>), 1, 32, 0, nullptr, da, db, dc, 1);
    (void)cudaDeviceSynchronize();
    ck_found("alignment", "load_matrix_sync");
}

START_TEST(wmma_multiplies)
{
    check_wmma<__nv_bfloat16, float, 16, 16, 16>(0);
    check_wmma<__half, float, 32, 8, 16>(0);
    check_wmma<__half, __half, 8, 32, 16>(2e-3f);
    check_wmma<signed char, int, 16, 16, 16>(0);
}
END_TEST

__global__ void tile_product(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c)
{
    int lane = threadIdx.x, group = lane / 4, pair = lane % 4;
    const unsigned *ua = reinterpret_cast<const unsigned *>(a), *ub = reinterpret_cast<const unsigned *>(b);
    unsigned ra[4] = {ua[group * 8 + pair], ua[(group + 8) * 8 + pair], ua[group * 8 + pair + 4],
                      ua[(group + 8) * 8 + pair + 4]};
    unsigned rb[2] = {ub[group * 8 + pair], ub[group * 8 + pair + 4]};
    float d[4] = {1, 1, 1, 1};
    spmd_mma_m16n8k16(d, ra, rb);
    for (int i = 0; i < 4; i++)
        c[(group + i / 2 * 8) * 8 + pair * 2 + i % 2] = d[i];
}

START_TEST(mma_multiplies_in_the_layout_of_ptx)
{
    __nv_bfloat16 a[16 * 16], b[8 * 16]; /* b by columns */
    float c[16 * 8] = {0};
    for (int i = 0; i < 16 * 16; i++)
        a[i] = __float2bfloat16(float(i * 7 % 11 - 5));
    for (int i = 0; i < 8 * 16; i++)
        b[i] = __float2bfloat16(float(i * 5 % 13 - 6));
    float *dc = static_cast<float *>(upload(c, sizeof c));
    SPMD_LAUNCH((tile_product), 1, 32, 0, nullptr, static_cast<__nv_bfloat16 *>(upload(a, sizeof a)),
                static_cast<__nv_bfloat16 *>(upload(b, sizeof b)), dc);
    ck_cuda(cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            float want = 1;
            for (int k = 0; k < 16; k++)
                want += __bfloat162float(a[i * 16 + k]) * __bfloat162float(b[j * 16 + k]);
            ck_assert(c[i * 8 + j] == want);
        }
    ck_clean();
}
END_TEST

__global__ void numbers(float *f, unsigned *u)
{
    f[0] = rsqrtf(4.0f);
    f[1] = __expf(0.0f) + __logf(1.0f) + __fdividef(1.0f, 4.0f);
    f[2] = min(1.0f, NAN) + max(NAN, 2.0f);
    f[3] = __saturatef(-3.0f) + __saturatef(0.5f) + __saturatef(7.0f);
    f[4] = __bfloat162float(__hfma(__float2bfloat16(2.0f), __float2bfloat16(3.0f), __float2bfloat16(1.0f)));
    f[5] = __half2float(hexp(__float2half(0.0f))) + __ldg(f);
    u[0] = __brev(1u) + __popc(0xffu);
    u[1] = __umulhi(0x80000000u, 6u);
    u[2] = __byte_perm(0x03020100u, 0x07060504u, 0x7531u);
    u[3] = __clz(1) + 100 * __ffs(8);
    u[4] = __float_as_uint(1.0f) + min(3, 4u) + max(3u, 4u);
    u[5] = unsigned(__dp4a(0x01020304, 0x01010101, 5));
    u[6] = __funnelshift_l(0x80000000u, 1u, 1);
}

START_TEST(functions_of_numbers_are_those_of_cuda)
{
    float f[6] = {0};
    unsigned u[7] = {0};
    float *df = static_cast<float *>(upload(f, sizeof f));
    unsigned *du = static_cast<unsigned *>(upload(u, sizeof u));
    SPMD_LAUNCH((numbers), 1, 1, 0, nullptr, df, du);
    ck_cuda(cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost));
    ck_cuda(cudaMemcpy(u, du, sizeof u, cudaMemcpyDeviceToHost));
    ck_assert(f[0] == 0.5f && f[1] == 1.25f && f[2] == 3 && f[3] == 1.5f && f[4] == 7 && f[5] == 1.5f);
    ck_assert(u[0] == 0x80000008u && u[1] == 3 && u[2] == 0x07050301u && u[3] == 431 && u[4] == 0x3f800007u);
    ck_assert(u[5] == 15 && u[6] == 3);
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("matrix", tcase_add_test(tc, wmma_multiplies); tcase_add_test(tc, mma_multiplies_in_the_layout_of_ptx);
              tcase_add_test(tc, functions_of_numbers_are_those_of_cuda);)
