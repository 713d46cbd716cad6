/* Forward: a block has TILE rows of one head's queries and goes over the keys before them, tile by tile, with a running
 * maximum and sum of every row (an online softmax): scores exist in shared memory only. */
#include "kernels/causal_attention/attention_tiles.cuh"

using namespace spmd_kernel;

namespace
{
/* A block's shared memory. Keys and values take turns in one buffer. */
template <class P, int TILE> struct buffers : tile_rows<P, TILE> {
    typedef typename P::stored stored;
    stored *q, *keys, *p;
    float *scores, *out, *max, *sum;

    __host__ __device__ buffers(carver *c, int d) : tile_rows<P, TILE>(d)
    {
        q = c->take<stored>(TILE * this->row);
        keys = c->take<stored>(TILE * this->row);
        p = c->take<stored>(TILE * this->p_row);
        scores = c->take<float>(TILE * this->score_row);
        out = c->take<float>(TILE * this->sums_row);
        max = c->take<float>(TILE);
        sum = c->take<float>(TILE);
    }
};

/* Scores of keys first_key .. to weights p = e^(score - max); the row's maximum, sum and output follow. */
template <class P, int TILE>
__device__ void weigh(const buffers<P, TILE> &b, const attention &s, int64_t first_row, int64_t first_key)
{
    enum { LANES = THREADS / TILE }; /* of a row, within a warp */
    const int row = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES, width = P::padded(s.d);
    const int64_t at = first_row + row;
    const int seen = (int)(at - first_key < TILE ? at - first_key + 1
                                                 : TILE); /* keys up to the row's own; <= 0: none */
    const float before = b.max[row];
    float max = before, sum = 0;
    for (int j = lane; j < seen; j += LANES)
        max = fmaxf(max, b.scores[row * b.score_row + j] * s.factor);
    for (int step = LANES / 2; step > 0; step /= 2)
        max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, step));
    for (int j = lane; j < TILE; j += LANES) {
        const float p = j < seen ? expf(b.scores[row * b.score_row + j] * s.factor - max) : 0.0f;
        b.p[row * b.p_row + j] = narrow<typename P::stored>(p);
        sum += p;
    }
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    const float keep = expf(before - max);
    for (int j = lane; j < width; j += LANES)
        b.out[row * b.sums_row + j] *= keep;
    __syncwarp(); /* all lanes have read max before one writes it */
    if (lane == 0) {
        b.max[row] = max;
        b.sum[row] = b.sum[row] * keep + sum;
    }
}

template <class P, int TILE, class T>
__global__ void __launch_bounds__(THREADS)
    attention_kernel(const T *q, const T *k, const T *v, T *out, float *log_sum, attention s)
{
    SPMD_SMEM_DYN(char, memory);
    carver c = {memory, 0};
    const buffers<P, TILE> b(&c, s.d);
    const int64_t tiles = (s.t + TILE - 1) / TILE, head = (int64_t)blockIdx.x / tiles;
    const int64_t first_row = (tiles - 1 - (int64_t)blockIdx.x % tiles) * TILE; /* those with most keys start first */
    const int64_t base = head * s.t * s.d, left = s.t - first_row;
    const int width = P::padded(s.d);
    load_tile(b.q, b.row, q + base + first_row * s.d, TILE, left, s.d, width);
    clear_tile(b.out, TILE * b.sums_row);
    if (threadIdx.x < TILE) {
        b.max[threadIdx.x] = -INFINITY;
        b.sum[threadIdx.x] = 0.0f;
    }
    for (int64_t key = 0; key < s.t && key < first_row + TILE; key += TILE) {
        __syncthreads();
        load_tile(b.keys, b.row, k + base + key * s.d, TILE, s.t - key, s.d, width);
        __syncthreads();
        P::template product<AS_IS, TRANSPOSED, false>(b.q, b.row, b.keys, b.row, b.scores, b.score_row, TILE, TILE,
                                                      width);
        __syncthreads();
        load_tile(b.keys, b.row, v + base + key * s.d, TILE, s.t - key, s.d, width);
        weigh(b, s, first_row, key);
        __syncthreads();
        P::template product<AS_IS, AS_IS, true>(b.p, b.p_row, b.keys, b.row, b.out, b.sums_row, TILE, width, TILE);
    }
    __syncthreads();
    store_tile(out + base + first_row * s.d, b.out, b.sums_row, TILE, left, s.d, b.sum);
    if (threadIdx.x < TILE && threadIdx.x < left)
        log_sum[head * s.t + first_row + threadIdx.x] = b.max[threadIdx.x] + logf(b.sum[threadIdx.x]);
}

template <class P, int TILE, class T>
spmd_status launch(spmd_ctx *ctx, const spmd_kernel_args *args, const attention &s, size_t bytes)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    const int64_t blocks = s.heads * ((s.t + TILE - 1) / TILE);
    SPMD_CUDA_TRY(cudaFuncSetAttribute((const void *)attention_kernel<P, TILE, T>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    SPMD_LAUNCH((attention_kernel<P, TILE, T>), (unsigned)blocks, THREADS, bytes, stream, (const T *)args->in[0].data,
                (const T *)args->in[1].data, (const T *)args->in[2].data, (T *)args->out[0].data,
                (float *)args->out[1].data, s);
    return spmd__cuda_check(cudaGetLastError(), "causal_attention");
}

template <class P, class T> spmd_status launch_fitting(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const attention s = attention_of(&args->in[0]);
    return with_tile<buffers, P>(s, "causal_attention", [&](auto tile, size_t bytes) {
        return launch<P, decltype(tile)::value, T>(ctx, args, s, bytes);
    });
}
} // namespace

extern "C" spmd_status spmd__causal_attention_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    if (spmd_view_count(&args->out[1]) == 0)
        return SPMD_OK;
    switch (args->in[0].dtype) {
    case SPMD_F32:
        return launch_fitting<plain, float>(ctx, args);
    case SPMD_BF16:
        return launch_fitting<tensor_cores<__nv_bfloat16>, __nv_bfloat16>(ctx, args);
    default:
        return launch_fitting<tensor_cores<__half>, __half>(ctx, args);
    }
}
