/* Private. What the CUDA kernels of attention are made of: tiles of TILE rows in shared memory, their products, and how
 * tiles come from and go to global memory. Two ways to multiply:
 *
 *   plain             f32 tiles, any d, for f32
 *   tensor_cores<T>   16-bit tiles, d padded to 16 by zeros, for bf16 and f16; sums are f32
 *
 * All 256 threads of a block take part in everything here, and the caller puts the barriers. */
#ifndef KERNELS_ATTENTION_TILES_CUH
#define KERNELS_ATTENTION_TILES_CUH

#include "kernels/device.cuh"
#include <type_traits>

namespace spmd_kernel
{

enum { WARPS = THREADS / WARP };

/* One launch: heads of the whole batch, [t, d] each, and the factor of the scores. */
struct attention {
    int64_t heads, t;
    int d;
    float factor;
};

inline attention attention_of(const spmd_view *q)
{
    return {q->shape[0] * q->shape[1], q->shape[2], (int)q->shape[3], 1.0f / sqrtf((float)q->shape[3])};
}

/* Buffers one behind the other in shared memory; with a NULL base they only count. */
struct carver {
    char *base;
    size_t used;
    template <class T> __host__ __device__ T *take(int count)
    {
        T *p = (T *)((uintptr_t)base + used);
        used += ((size_t)count * sizeof(T) + 31) / 32 * 32; /* wmma wants 32 bytes */
        return p;
    }
};

/* --- products: c [m, n] (+)= op(a) op(b), a [m, k] or stored [k, m], b [k, n] or stored [n, k]; leading dimensions in
 * elements; m a multiple of 16 --- */
enum order { AS_IS, TRANSPOSED };

struct plain {
    typedef float stored;
    __host__ __device__ static int padded(int d)
    {
        return d;
    }
    __host__ __device__ static int row_of(int n) /* what keeps columns of a tile in different banks */
    {
        return n + 1;
    }
    __host__ __device__ static int sums_row_of(int n)
    {
        return n + 1;
    }

    /* A thread makes 4 rows of a column. */
    template <order A, order B, bool ADD>
    __device__ static void product(const float *a, int lda, const float *b, int ldb, float *c, int ldc, int m, int n,
                                   int k)
    {
        enum { ROWS = 4 };
        for (int i = (int)threadIdx.x; i < m / ROWS * n; i += THREADS) {
            const int row = i / n * ROWS, column = i % n;
            float sum[ROWS];
            for (int r = 0; r < ROWS; r++)
                sum[r] = ADD ? c[(row + r) * ldc + column] : 0.0f;
            for (int l = 0; l < k; l++) {
                const float y = B == AS_IS ? b[l * ldb + column] : b[column * ldb + l];
                SPMD_UNROLL
                for (int r = 0; r < ROWS; r++)
                    sum[r] += (A == AS_IS ? a[(row + r) * lda + l] : a[l * lda + row + r]) * y;
            }
            for (int r = 0; r < ROWS; r++)
                c[(row + r) * ldc + column] = sum[r];
        }
    }
};

template <class T> struct tensor_cores {
    typedef T stored;
    enum { SIDE = 16 };
    __host__ __device__ static int padded(int d)
    {
        return (d + SIDE - 1) / SIDE * SIDE;
    }
    __host__ __device__ static int row_of(int n) /* 16 bytes more: wmma's unit */
    {
        return n + 8;
    }
    __host__ __device__ static int sums_row_of(int n)
    {
        return n + 4;
    }

    /* A warp makes squares of 16 x 16; n and k are multiples of 16. */
    template <order A, order B, bool ADD>
    __device__ static void product(const T *a, int lda, const T *b, int ldb, float *c, int ldc, int m, int n, int k)
    {
        using namespace nvcuda;
        typedef std::conditional_t<A == AS_IS, wmma::row_major, wmma::col_major> layout_a;
        typedef std::conditional_t<B == AS_IS, wmma::row_major, wmma::col_major> layout_b;
        const int across = n / SIDE;
        for (int i = (int)threadIdx.x / WARP; i < m / SIDE * across; i += WARPS) {
            const int row = i / across * SIDE, column = i % across * SIDE;
            wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, T, layout_a> x;
            wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, T, layout_b> y;
            wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float> sum;
            if (ADD)
                wmma::load_matrix_sync(sum, c + row * ldc + column, (unsigned)ldc, wmma::mem_row_major);
            else
                wmma::fill_fragment(sum, 0.0f);
            for (int l = 0; l < k; l += SIDE) {
                wmma::load_matrix_sync(x, a + (A == AS_IS ? row * lda + l : l * lda + row), (unsigned)lda);
                wmma::load_matrix_sync(y, b + (B == AS_IS ? l * ldb + column : column * ldb + l), (unsigned)ldb);
                wmma::mma_sync(sum, x, y, sum);
            }
            wmma::store_matrix_sync(c + row * ldc + column, sum, (unsigned)ldc, wmma::mem_row_major);
        }
    }
};

/* --- tiles --- */
template <class S, class T> __device__ __forceinline__ S stored_as(T x)
{
    return narrow<S>(widen(x));
}

/* `rows` rows of [.., d], those that exist (`left` are left), and zeros for the others and for columns d .. padded. */
template <int V, class S, class T>
__device__ __forceinline__ void load_packs(S *tile, int row_size, const T *from, int rows, int64_t left, int d,
                                           int padded)
{
    const int per_row = padded / V;
    for (int i = (int)threadIdx.x; i < rows * per_row; i += THREADS) {
        const int row = i / per_row, column = i % per_row * V;
        pack<T, V> p;
        for (int v = 0; v < V; v++)
            p.at[v] = narrow<T>(0.0f);
        if (row < left && column < d)
            p = *(const pack<T, V> *)(from + (int64_t)row * d + column);
        for (int v = 0; v < V; v++)
            tile[row * row_size + column + v] = stored_as<S>(p.at[v]);
    }
}

template <class S, class T>
__device__ __forceinline__ void load_tile(S *tile, int row_size, const T *from, int rows, int64_t left, int d,
                                          int padded)
{
    constexpr int v = (int)(16 / sizeof(T));
    if (d % v == 0 && (uintptr_t)from % 16 == 0)
        load_packs<v>(tile, row_size, from, rows, left, d, padded);
    else
        load_packs<1>(tile, row_size, from, rows, left, d, padded);
}

__device__ __forceinline__ void clear_tile(float *tile, int count)
{
    for (int i = (int)threadIdx.x; i < count; i += THREADS)
        tile[i] = 0.0f;
}

/* The rows that exist, of f32 sums, to global memory; each divided by its divisor, if there are any. */
template <class T>
__device__ __forceinline__ void store_tile(T *to, const float *sums, int row_size, int rows, int64_t left, int d,
                                           const float *divisors = NULL)
{
    for (int i = (int)threadIdx.x; i < rows * d; i += THREADS) {
        const int row = i / d, column = i % d;
        const float x = sums[row * row_size + column];
        if (row < left)
            to[(int64_t)row * d + column] = narrow<T>(divisors ? x / divisors[row] : x);
    }
}

/* Elements of a row of what a block keeps in shared memory: of the operands' tiles, of P's, of the scores', of the
 * sums'. */
template <class P, int TILE> struct tile_rows {
    const int row, p_row, score_row, sums_row;

    __host__ __device__ explicit tile_rows(int d)
        : row(P::row_of(P::padded(d))), p_row(P::row_of(TILE)), score_row(P::sums_row_of(TILE)),
          sums_row(P::sums_row_of(P::padded(d)))
    {
    }
};

/* launch(tile, bytes) with tile::value rows a tile and the bytes of its Buffers<P, rows>. Larger tiles read less: 64
 * rows for 16-bit tiles, if there are so many and the device's shared memory holds them; else 32. */
template <template <class, int> class Buffers, class P, class Launch>
spmd_status with_tile(const attention &s, const char *name, const Launch &launch)
{
    enum { LARGE = 64, SMALL = 32 };
    int device, most;
    carver large = {}, small = {};
    Buffers<P, LARGE>(&large, s.d);
    Buffers<P, SMALL>(&small, s.d);
    SPMD_CUDA_TRY(cudaGetDevice(&device));
    SPMD_CUDA_TRY(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    if (sizeof(typename P::stored) == 2 && s.t > SMALL && large.used <= (size_t)most)
        return launch(std::integral_constant<int, LARGE>(), large.used);
    SPMD_CHECK(small.used <= (size_t)most, SPMD_EUNSUPPORTED,
               "%s: heads of %d take %zu bytes of shared memory a block, this GPU has %d; expected smaller heads%s",
               name, s.d, small.used, most, sizeof(typename P::stored) == 2 ? "" : ", or bf16 or f16");
    return launch(std::integral_constant<int, SMALL>(), small.used);
}

} // namespace spmd_kernel

#endif
