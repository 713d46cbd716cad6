/* Private. CUDA folds down the columns of [rows, columns]: column sums, of one or several things at once, in one pass
 * in which the function may also write. No atomics: rows are cut in parts by their number alone, the parts' results are
 * folded in order, so the bits depend on neither the run nor the GPU. */
#ifndef KERNELS_COLUMNS_CUH
#define KERNELS_COLUMNS_CUH

#include "kernels/device.cuh"

namespace spmd_kernel
{

enum { ROW_LANES = THREADS / WARP, MOST_PARTS = 256, LEAST_ROWS = 4 * ROW_LANES, ENOUGH_BLOCKS = 1024 };

/* Where K results a column go: out[k][column] = fold / divisor; through partial [parts, K, columns] if there are
 * several parts. */
template <class Fold, class Out, int K> struct fold_results {
    Out *out[K];
    double divisor;
    typename Fold::number *partial;
};

template <class Fold, class Out> __device__ __forceinline__ Out result(typename Fold::number x, double divisor)
{
    return narrow<Out>((float)(x / (typename Fold::number)divisor));
}

template <class Fold, int K, class Out>
__global__ void __launch_bounds__(THREADS) finish_kernel(fold_results<Fold, Out, K> to, int64_t columns, int parts)
{
    const int64_t column = thread_index();
    if (column >= columns)
        return;
    for (int k = 0; k < K; k++) {
        typename Fold::number x = Fold::start;
        for (int p = 0; p < parts; p++)
            x = Fold::combine(x, to.partial[((int64_t)p * K + k) * columns + column]);
        to.out[k][column] = result<Fold, Out>(x, to.divisor);
    }
}

/* f(row, column, values): the K values there. A block has 32 columns, and 8 rows at a time of its part. */
template <class Fold, int K, class Out, class F>
__global__ void __launch_bounds__(THREADS)
    columns_kernel(F f, fold_results<Fold, Out, K> to, int64_t rows, int64_t columns, int64_t rows_per_part)
{
    typedef typename Fold::number number;
    SPMD_SMEM(number, folds, [ROW_LANES][K][WARP]);
    const int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x;
    const int64_t begin = blockIdx.y * rows_per_part, end = begin + rows_per_part;
    number sum[K];
    float value[K];
    for (int k = 0; k < K; k++)
        sum[k] = Fold::start;
    for (int64_t row = begin + threadIdx.y; row < end && row < rows && column < columns; row += ROW_LANES) {
        f(row, column, value);
        for (int k = 0; k < K; k++)
            sum[k] = Fold::combine(sum[k], value[k]);
    }
    for (int k = 0; k < K; k++)
        folds[threadIdx.y][k][threadIdx.x] = sum[k];
    __syncthreads();
    for (int k = 0; k < K && threadIdx.y == 0 && column < columns; k++) {
        for (int lane = 1; lane < ROW_LANES; lane++)
            sum[k] = Fold::combine(sum[k], folds[lane][k][threadIdx.x]);
        if (gridDim.y > 1)
            to.partial[((int64_t)blockIdx.y * K + k) * columns + column] = sum[k];
        else
            to.out[k][column] = result<Fold, Out>(sum[k], to.divisor);
    }
}

/* In how many parts to cut `length` so that `tiles` times as many blocks fill a GPU, none with less than `least`. */
inline int parts_for(int64_t tiles, int64_t length, int64_t least)
{
    const int64_t wanted = ENOUGH_BLOCKS / tiles, most = length / least;
    const int64_t parts = wanted < most ? wanted : most;
    return parts < 1 ? 1 : parts > MOST_PARTS ? (int)MOST_PARTS : (int)parts;
}

/* Memory for several parts' results. */
template <class Fold, class Out, int K>
spmd_status reserve_parts(spmd_ctx *ctx, fold_results<Fold, Out, K> *to, int64_t columns, int parts, const char *name)
{
    if (parts == 1)
        return SPMD_OK;
    to->partial = (typename Fold::number *)spmd__scratch(ctx, (size_t)(parts * K * columns) * sizeof *to->partial);
    SPMD_CHECK(to->partial, SPMD_ENOMEM, "%s: no memory for %d parts of %lld sums: %s", name, parts, (long long)columns,
               spmd_last_error());
    return SPMD_OK;
}

/* The second pass, if there are several parts. */
template <class Fold, int K, class Out>
spmd_status finish_parts(spmd_ctx *ctx, const fold_results<Fold, Out, K> &to, int64_t columns, int parts,
                         const char *name)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (parts > 1)
        SPMD_LAUNCH((finish_kernel<Fold, K, Out>), blocks_for(columns, THREADS), THREADS, 0, stream, to, columns,
                    parts);
    return spmd__cuda_check(cudaGetLastError(), name);
}

template <class Fold, int K, class Out, class F>
spmd_status fold_columns(spmd_ctx *ctx, const F &f, fold_results<Fold, Out, K> to, int64_t rows, int64_t columns,
                         const char *name)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (columns == 0)
        return SPMD_OK;
    const int64_t tiles = (columns + WARP - 1) / WARP;
    const int parts = parts_for(tiles, rows, LEAST_ROWS);
    const dim3 grid((unsigned)tiles, (unsigned)parts), block(WARP, ROW_LANES);
    SPMD_TRY(reserve_parts(ctx, &to, columns, parts, name));
    SPMD_LAUNCH((columns_kernel<Fold, K, Out, F>), grid, block, 0, stream, f, to, rows, columns,
                (rows + parts - 1) / parts);
    SPMD_TRY(spmd__cuda_check(cudaGetLastError(), name));
    return finish_parts<Fold>(ctx, to, columns, parts, name);
}

} // namespace spmd_kernel

#endif
