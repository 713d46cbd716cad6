/* Backward, with the probabilities P made again from the scores and the rows' log sums:
 *
 *   dv = P^T ct      dP = ct v^T      dS = P (dP - D) / sqrt(d)      dq = dS k      dk = dS^T q
 *
 * where D is a row's sum of ct * out. Two kernels: in one a block owns TILE keys and goes over the queries behind them,
 * for dk and dv; in the other it owns TILE queries and goes over the keys before them, for dq. Scores are made twice,
 * and nothing is ever added from two blocks: no atomics, the same bits in every run. */
#include "kernels/causal_attention/attention_tiles.cuh"
#include "kernels/rows.cuh"

using namespace spmd_kernel;

namespace
{
enum { Q, K, V, OUT, LOG_SUM, CT };

template <class T> struct operands {
    const T *q, *k, *v, *ct;
    const float *log_sum, *dots;
    T *dq, *dk, *dv;
};

/* D of every row. */
template <class T> struct row_dots {
    const T *ct, *out;
    float *dots;
    template <int LANES, int PACK> __device__ void operator()(const lanes<LANES, PACK> &row) const
    {
        const float sum = row.dot(ct, out);
        if (row.first())
            dots[row.row] = sum;
    }
};

/* A block's shared memory: tiles of all four operands, of the scores and dP, of P and dS, and the sums that it owns
 * (dk and dv, or dq). */
template <class P, int TILE> struct buffers : tile_rows<P, TILE> {
    typedef typename P::stored stored;
    stored *q, *k, *v, *ct, *p, *ds;
    float *scores, *dp, *first, *second;

    __host__ __device__ buffers(carver *c, int d) : tile_rows<P, TILE>(d)
    {
        q = c->take<stored>(TILE * this->row);
        k = c->take<stored>(TILE * this->row);
        v = c->take<stored>(TILE * this->row);
        ct = c->take<stored>(TILE * this->row);
        p = c->take<stored>(TILE * this->p_row);
        ds = c->take<stored>(TILE * this->p_row);
        scores = c->take<float>(TILE * this->score_row);
        dp = c->take<float>(TILE * this->score_row);
        first = c->take<float>(TILE * this->sums_row);
        second = c->take<float>(TILE * this->sums_row);
    }
};

/* Scores and dP of a tile of queries and one of keys. */
template <class P, int TILE> __device__ void make_scores(const buffers<P, TILE> &b, int width)
{
    P::template product<AS_IS, TRANSPOSED, false>(b.q, b.row, b.k, b.row, b.scores, b.score_row, TILE, TILE, width);
    P::template product<AS_IS, TRANSPOSED, false>(b.ct, b.row, b.v, b.row, b.dp, b.score_row, TILE, TILE, width);
}

/* Scores to P, dP to dS; zeros where the mask is and where there are no rows. log_sum, dots: of the first row. */
template <class P, int TILE>
__device__ void make_probabilities(const buffers<P, TILE> &b, const attention &s, int64_t first_row, int64_t first_key,
                                   const float *log_sum, const float *dots)
{
    typedef typename P::stored S;
    for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
        const int row = i / TILE, column = i % TILE;
        float p = 0, ds = 0;
        if (first_row + row < s.t && first_key + column <= first_row + row) {
            p = expf(b.scores[row * b.score_row + column] * s.factor - log_sum[row]);
            ds = p * (b.dp[row * b.score_row + column] - dots[row]) * s.factor;
        }
        b.p[row * b.p_row + column] = narrow<S>(p);
        b.ds[row * b.p_row + column] = narrow<S>(ds);
    }
}

template <class P, int TILE, class T> __global__ void __launch_bounds__(THREADS) keys_kernel(operands<T> o, attention s)
{
    SPMD_SMEM_DYN(char, memory);
    carver c = {memory, 0};
    const buffers<P, TILE> b(&c, s.d);
    const int64_t tiles = (s.t + TILE - 1) / TILE, head = (int64_t)blockIdx.x / tiles;
    const int64_t key = (int64_t)blockIdx.x % tiles * TILE, base = head * s.t * s.d, first = base + key * s.d;
    const int width = P::padded(s.d);
    load_tile(b.k, b.row, o.k + first, TILE, s.t - key, s.d, width);
    load_tile(b.v, b.row, o.v + first, TILE, s.t - key, s.d, width);
    clear_tile(b.first, TILE * b.sums_row);
    clear_tile(b.second, TILE * b.sums_row);
    for (int64_t row = key; row < s.t; row += TILE) {
        __syncthreads();
        load_tile(b.q, b.row, o.q + base + row * s.d, TILE, s.t - row, s.d, width);
        load_tile(b.ct, b.row, o.ct + base + row * s.d, TILE, s.t - row, s.d, width);
        __syncthreads();
        make_scores(b, width);
        __syncthreads();
        make_probabilities(b, s, row, key, o.log_sum + head * s.t + row, o.dots + head * s.t + row);
        __syncthreads();
        P::template product<TRANSPOSED, AS_IS, true>(b.ds, b.p_row, b.q, b.row, b.first, b.sums_row, TILE, width, TILE);
        P::template product<TRANSPOSED, AS_IS, true>(b.p, b.p_row, b.ct, b.row, b.second, b.sums_row, TILE, width,
                                                     TILE);
    }
    __syncthreads();
    store_tile(o.dk + first, b.first, b.sums_row, TILE, s.t - key, s.d);
    store_tile(o.dv + first, b.second, b.sums_row, TILE, s.t - key, s.d);
}

template <class P, int TILE, class T>
__global__ void __launch_bounds__(THREADS) queries_kernel(operands<T> o, attention s)
{
    SPMD_SMEM_DYN(char, memory);
    carver c = {memory, 0};
    const buffers<P, TILE> b(&c, s.d);
    const int64_t tiles = (s.t + TILE - 1) / TILE, head = (int64_t)blockIdx.x / tiles;
    const int64_t row = (tiles - 1 - (int64_t)blockIdx.x % tiles) * TILE, base = head * s.t * s.d;
    const int64_t first = base + row * s.d;
    const int width = P::padded(s.d);
    load_tile(b.q, b.row, o.q + first, TILE, s.t - row, s.d, width);
    load_tile(b.ct, b.row, o.ct + first, TILE, s.t - row, s.d, width);
    clear_tile(b.first, TILE * b.sums_row);
    for (int64_t key = 0; key <= row; key += TILE) {
        __syncthreads();
        load_tile(b.k, b.row, o.k + base + key * s.d, TILE, s.t - key, s.d, width);
        load_tile(b.v, b.row, o.v + base + key * s.d, TILE, s.t - key, s.d, width);
        __syncthreads();
        make_scores(b, width);
        __syncthreads();
        make_probabilities(b, s, row, key, o.log_sum + head * s.t + row, o.dots + head * s.t + row);
        __syncthreads();
        P::template product<AS_IS, AS_IS, true>(b.ds, b.p_row, b.k, b.row, b.first, b.sums_row, TILE, width, TILE);
    }
    __syncthreads();
    store_tile(o.dq + first, b.first, b.sums_row, TILE, s.t - row, s.d);
}

template <class P, int TILE, class T>
spmd_status launch(spmd_ctx *ctx, const operands<T> &o, const attention &s, size_t bytes)
{
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    const unsigned blocks = (unsigned)(s.heads * ((s.t + TILE - 1) / TILE));
    SPMD_CUDA_TRY(cudaFuncSetAttribute((const void *)keys_kernel<P, TILE, T>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    SPMD_CUDA_TRY(cudaFuncSetAttribute((const void *)queries_kernel<P, TILE, T>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    SPMD_LAUNCH((keys_kernel<P, TILE, T>), blocks, THREADS, bytes, stream, o, s);
    SPMD_LAUNCH((queries_kernel<P, TILE, T>), blocks, THREADS, bytes, stream, o, s);
    return spmd__cuda_check(cudaGetLastError(), "causal_attention_grad");
}

/* All that the kernels take, the sums D made. */
template <class T>
spmd_status make_operands(spmd_ctx *ctx, const spmd_kernel_args *args, const attention &s, operands<T> *o)
{
    const spmd_view *in = args->in;
    float *dots = (float *)spmd__scratch(ctx, (size_t)(s.heads * s.t) * sizeof(float));
    SPMD_CHECK(dots, SPMD_ENOMEM, "causal_attention_grad: no memory for %lld sums: %s", (long long)(s.heads * s.t),
               spmd_last_error());
    *o = {(const T *)in[Q].data,  (const T *)in[K].data,           (const T *)in[V].data,
          (const T *)in[CT].data, (const float *)in[LOG_SUM].data, dots,
          (T *)args->out[0].data, (T *)args->out[1].data,          (T *)args->out[2].data};
    const row_dots<T> f = {o->ct, (const T *)in[OUT].data, dots};
    return each_row<T>(ctx, f, s.heads * s.t, s.d, {f.ct, f.out}, "causal_attention_grad");
}

template <class P, class T> spmd_status gradients(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const attention s = attention_of(&args->in[Q]);
    return with_tile<buffers, P>(s, "causal_attention_grad", [&](auto tile, size_t bytes) {
        operands<T> o;
        SPMD_TRY(make_operands(ctx, args, s, &o));
        return launch<P, decltype(tile)::value>(ctx, o, s, bytes);
    });
}
} // namespace

extern "C" spmd_status spmd__causal_attention_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    if (spmd_view_count(&args->out[0]) == 0)
        return SPMD_OK;
    switch (args->in[Q].dtype) {
    case SPMD_F32:
        return gradients<plain, float>(ctx, args);
    case SPMD_BF16:
        return gradients<tensor_cores<__nv_bfloat16>, __nv_bfloat16>(ctx, args);
    default:
        return gradients<tensor_cores<__half>, __half>(ctx, args);
    }
}
