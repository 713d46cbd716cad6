#include "kernels/device.cuh"
#include "spmd/cuda/cuda_blame.cuh"

using namespace spmd_kernel;

namespace
{
struct refusal {
    spmd_cuda_note *note;
    const char *text;
};

/* Rows of `width` units. An index out of range gives NaN, until somebody waits and finds the note. */
template <class Unit>
__global__ void __launch_bounds__(THREADS) embedding_kernel(const Unit *table, const int32_t *index, Unit *out,
                                                            int64_t v, int64_t width, int64_t count, refusal refuse)
{
    const int64_t i = thread_index();
    if (i >= count * width)
        return;
    const int64_t position = quotient(i, width), row = index[position];
    Unit x;
    memset(&x, 0xFF, sizeof x); /* NaN */
    if (row >= 0 && row < v)
        x = table[row * width + i - position * width];
    else
        spmd__cuda_blame(refuse.note, refuse.text, (double)row, position, v);
    out[i] = x;
}

template <class Unit> spmd_status take_rows(spmd_ctx *ctx, const spmd_kernel_args *args, int64_t width)
{
    const int64_t count = spmd_view_count(&args->in[1]), v = args->in[0].shape[0];
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    const refusal refuse = {spmd__cuda_note(ctx),
                            "embedding: index %.0f at position %lld is outside 0..%lld (a table of %lld rows)"};
    if (count * width > 0)
        SPMD_LAUNCH((embedding_kernel<Unit>), blocks_for(count * width, THREADS), THREADS, 0, stream,
                    (const Unit *)args->in[0].data, (const int32_t *)args->in[1].data, (Unit *)args->out[0].data, v,
                    width, count, refuse);
    return spmd__cuda_check(cudaGetLastError(), "embedding");
}

/* The gradient: a block owns some rows of the table and 128 columns. It goes through all indices in batches, lists
 * those that name its rows, and adds their cotangents in the order of the indices: no atomics, the host's bits. */
enum { COLUMNS = 128, MOST_ROWS = 16, WARPS = COLUMNS / WARP };

/* Puts this batch's hits in order into `hits` (position in the batch, row), whose number it returns. */
__device__ int list_hits(int64_t row, int rows, int (*hits)[2], int *of_warp)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const bool hit = row >= 0 && row < rows;
    const unsigned mask = __ballot_sync(ALL_LANES, hit);
    int before = __popc(mask & ((1u << lane) - 1)), total = 0;
    if (lane == 0)
        of_warp[warp] = __popc(mask);
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? of_warp[w] : 0;
        total += of_warp[w];
    }
    if (hit) {
        hits[before][0] = (int)threadIdx.x;
        hits[before][1] = (int)row;
    }
    __syncthreads();
    return total;
}

template <class T>
__global__ void __launch_bounds__(COLUMNS)
    grad_kernel(const T *ct, const int32_t *index, T *out, int64_t v, int64_t n, int64_t count, int rows)
{
    SPMD_SMEM(float, sums, [MOST_ROWS][COLUMNS]); /* a thread touches its column only */
    SPMD_SMEM(int, hits, [COLUMNS][2]);
    SPMD_SMEM(int, of_warp, [WARPS]);
    const int64_t first = (int64_t)blockIdx.x * rows, column = (int64_t)blockIdx.y * COLUMNS + threadIdx.x;
    for (int r = 0; r < rows; r++)
        sums[r][threadIdx.x] = 0.0f;
    for (int64_t batch = 0; batch < count; batch += COLUMNS) {
        const int64_t i = batch + threadIdx.x;
        const int total = list_hits(i < count ? index[i] - first : -1, rows, hits, of_warp);
        for (int k = 0; k < total && column < n; k++)
            sums[hits[k][1]][threadIdx.x] += widen(ct[(batch + hits[k][0]) * n + column]);
    }
    for (int r = 0; r < rows && first + r < v && column < n; r++)
        out[(first + r) * n + column] = narrow<T>(sums[r][threadIdx.x]);
}
} // namespace

extern "C" spmd_status spmd__embedding_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *table = &args->in[0], *out = &args->out[0];
    const size_t size = spmd_dtype_size(table->dtype), bytes = (size_t)table->shape[1] * size;
    if (bytes % 16 == 0 && aligned_for<uint4>(table->data, 1) && aligned_for<uint4>(out->data, 1))
        return take_rows<uint4>(ctx, args, (int64_t)(bytes / 16));
    return size == 4 ? take_rows<uint32_t>(ctx, args, table->shape[1])
                     : take_rows<uint16_t>(ctx, args, table->shape[1]);
}

extern "C" spmd_status spmd__embedding_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[0], *out = &args->out[0];
    const int64_t v = out->shape[0], n = out->shape[1], count = spmd_view_count(&args->in[1]);
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (v == 0 || n == 0)
        return SPMD_OK;
    const int64_t share = v / 512; /* a small table in more blocks of less rows */
    const int rows = share < 1 ? 1 : share > MOST_ROWS ? (int)MOST_ROWS : (int)share;
    return for_float(ct->dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        SPMD_LAUNCH((grad_kernel<T>), dim3(blocks_for(v, rows), blocks_for(n, COLUMNS)), COLUMNS, 0, stream,
                    (const T *)ct->data, (const int32_t *)args->in[1].data, (T *)out->data, v, n, count, rows);
        return spmd__cuda_check(cudaGetLastError(), "embedding_grad");
    });
}
