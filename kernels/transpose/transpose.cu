/* If the last dimension keeps its place, rows are copied whole. Otherwise the output's last dimension and the one that
 * is contiguous in the input span a plane, which is turned in tiles of shared memory: both sides then read and write
 * neighbours. */
#include "kernels/device.cuh"
#include "kernels/transpose/transpose_host.h"

using namespace spmd_kernel;

namespace
{
enum { TILE = 32, TILE_ROWS = THREADS / TILE };

/* A thread an element, or a pack of a row. */
template <class T>
__global__ void __launch_bounds__(THREADS) gather_kernel(const T *x, T *y, int64_t n, spmd__permutation p)
{
    const int64_t i = thread_index();
    if (i >= n)
        return;
    int64_t from = 0, left = i;
    SPMD_UNROLL
    for (int d = SPMD_MAX_RANK - 1; d >= 0; d--) { /* not from p.rank: p stays where it is */
        if (d >= p.rank)
            continue;
        const int64_t above = quotient(left, p.shape[d]);
        from += (left - above * p.shape[d]) * p.stride[d];
        left = above;
    }
    y[i] = x[from];
}

/* The plane: `rows` of the output's dimension that is contiguous in the input, `columns` of the output's last. */
struct planes {
    int64_t rows, columns, from_stride, to_stride; /* from_stride: of a column in the input; to_stride: of a row */
    int64_t across, down;                          /* tiles */
    int rank;                                      /* the other dimensions */
    int64_t shape[SPMD_MAX_RANK], from[SPMD_MAX_RANK], to[SPMD_MAX_RANK];
};

template <class T> __global__ void __launch_bounds__(THREADS) turn_kernel(const T *x, T *y, planes p)
{
    SPMD_SMEM(T, tile, [TILE][TILE + 1]);
    const int64_t plane = (int64_t)blockIdx.x / (p.across * p.down),
                  in_plane = (int64_t)blockIdx.x % (p.across * p.down);
    const int64_t row0 = in_plane / p.across * TILE, column0 = in_plane % p.across * TILE;
    int64_t left = plane;
    for (int d = p.rank - 1; d >= 0; d--) {
        x += left % p.shape[d] * p.from[d];
        y += left % p.shape[d] * p.to[d];
        left /= p.shape[d];
    }
    for (int k = threadIdx.y; k < TILE; k += TILE_ROWS)
        if (column0 + k < p.columns && row0 + threadIdx.x < p.rows)
            tile[k][threadIdx.x] = x[(column0 + k) * p.from_stride + row0 + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < TILE; k += TILE_ROWS)
        if (row0 + k < p.rows && column0 + threadIdx.x < p.columns)
            y[(row0 + k) * p.to_stride + column0 + threadIdx.x] = tile[threadIdx.x][k];
}

planes planes_of(const spmd__permutation &p, int contiguous)
{
    const int last = p.rank - 1;
    planes s = {};
    int64_t to_stride[SPMD_MAX_RANK];
    to_stride[last] = 1;
    for (int d = last; d > 0; d--)
        to_stride[d - 1] = to_stride[d] * p.shape[d];
    s.rows = p.shape[contiguous];
    s.columns = p.shape[last];
    s.from_stride = p.stride[last];
    s.to_stride = to_stride[contiguous];
    s.across = (s.columns + TILE - 1) / TILE;
    s.down = (s.rows + TILE - 1) / TILE;
    for (int d = 0; d < last; d++) {
        if (d == contiguous)
            continue;
        s.shape[s.rank] = p.shape[d];
        s.from[s.rank] = p.stride[d];
        s.to[s.rank++] = to_stride[d];
    }
    return s;
}

template <class T>
spmd_status turn(spmd_ctx *ctx, const spmd_view *x, void *y, const spmd__permutation &p, int contiguous)
{
    const planes s = planes_of(p, contiguous);
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    int64_t blocks = s.across * s.down;
    for (int d = 0; d < s.rank; d++)
        blocks *= s.shape[d];
    SPMD_LAUNCH((turn_kernel<T>), (unsigned)blocks, dim3(TILE, TILE_ROWS), 0, stream, (const T *)x->data, (T *)y, s);
    return spmd__cuda_check(cudaGetLastError(), "transpose");
}

/* Rows stay whole: as units of up to 16 bytes. */
template <class Unit> spmd_status gather(spmd_ctx *ctx, const spmd_view *x, void *y, spmd__permutation p, size_t size)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    const int64_t per_unit = (int64_t)(sizeof(Unit) / size), n = spmd_view_count(x) / per_unit;
    for (int d = 0; d < p.rank - 1; d++)
        p.stride[d] /= per_unit;
    p.shape[p.rank - 1] /= per_unit;
    SPMD_LAUNCH((gather_kernel<Unit>), blocks_for(n, THREADS), THREADS, 0, stream, (const Unit *)x->data, (Unit *)y, n,
                p);
    return spmd__cuda_check(cudaGetLastError(), "transpose");
}
} // namespace

spmd_status spmd__transpose_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0];
    void *y = args->out[0].data;
    const size_t size = spmd_dtype_size(x->dtype);
    const spmd__permutation p = spmd__merge_permutation(x, args->attr->i);
    const int last = p.rank - 1;
    int contiguous = last;
    if (spmd_view_count(x) == 0)
        return SPMD_OK;
    for (int d = 0; d < p.rank; d++)
        if (p.stride[d] == 1)
            contiguous = d;
    const bool whole = contiguous == last && (size_t)p.shape[last] * size % 16 == 0;
    if (whole && aligned_for<uint4>(x->data, 1) && aligned_for<uint4>(y, 1))
        return gather<uint4>(ctx, x, y, p, size);
    return for_size(size, [&](auto t) {
        typedef typename decltype(t)::type T;
        return contiguous == last ? gather<T>(ctx, x, y, p, size) : turn<T>(ctx, x, y, p, contiguous);
    });
}
