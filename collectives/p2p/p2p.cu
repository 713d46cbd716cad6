/* The two kernels of the peer-to-peer collectives: folds and copies of pieces. Pointers may be on other devices. */
#include "collectives/p2p/p2p.h"
#include "spmd/cuda.cuh"
#include "spmd/cuda/cuda_ctx.h"
#include "spmd/half.h"

enum { THREADS = 256 };

/* Storage types of the 16-bit floats: their bits round as on the host. */
struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

__device__ inline void load(float &to, const float &from)
{
    to = from;
}
__device__ inline void load(float &to, const bf16 &from)
{
    to = spmd__bf16_to_f32(from.bits);
}
__device__ inline void load(float &to, const f16 &from)
{
    to = spmd__f16_to_f32(from.bits);
}
template <class TO, class FROM> __device__ inline void load(TO &to, const FROM &from)
{
    to = static_cast<TO>(from);
}

__device__ inline void store(bf16 &to, float from)
{
    to.bits = spmd__f32_to_bf16(from);
}
__device__ inline void store(f16 &to, float from)
{
    to.bits = spmd__f32_to_f16(from);
}
template <class T> __device__ inline void store(T &to, T from)
{
    to = from;
}

__device__ inline float combine(int kind, float a, float b)
{
    if (kind == SPMD_REDUCE_MAX)
        return b > a || b != b ? b : a; /* a NaN comes in here and never leaves */
    if (kind == SPMD_REDUCE_MIN)
        return b < a || b != b ? b : a;
    return a + b;
}

template <class T> __device__ inline T add(T a, T b)
{
    return static_cast<T>(a + b);
}
template <> __device__ inline int32_t add(int32_t a, int32_t b) /* wraps */
{
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
template <> __device__ inline int64_t add(int64_t a, int64_t b)
{
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <class T> __device__ inline T combine(int kind, T a, T b)
{
    if (kind == SPMD_REDUCE_MAX)
        return b > a ? b : a;
    if (kind == SPMD_REDUCE_MIN)
        return b < a ? b : a;
    return add<T>(a, b);
}

__device__ inline float finish(const spmd_p2p_folds &f, float a)
{
    return f.kind == SPMD_REDUCE_MEAN ? a / f.divisor : a;
}
template <class T> __device__ inline T finish(const spmd_p2p_folds &, T a)
{
    return a;
}

/* Where unit i of piece k lies in a block of n pieces, which takes turns with the others every `run` units. */
__device__ inline int64_t place_of(int64_t i, int64_t run, int n, int k)
{
    return n == 1 ? i : (i / run * n + k) * run + i % run;
}

template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T v[N];
};

template <class IN, class ACC, int N> __device__ inline void load_pack(ACC (&to)[N], const void *from, int64_t i)
{
    const pack<IN, N> in = static_cast<const pack<IN, N> *>(from)[i];
    SPMD_UNROLL
    for (int k = 0; k < N; k++)
        load(to[k], in.v[k]);
}

/* The sources are read in their order, then all destinations are written, element by element: a destination may be a
 * source. A run holds whole packs. */
template <class IN, class ACC, class OUT, int N> __global__ void fold_kernel(spmd_p2p_folds f)
{
    const int segment = static_cast<int>(blockIdx.y);
    void *const *src = f.pointer + segment * (f.nsrc + f.ndst), *const *dst = src + f.nsrc;
    const int64_t packs = f.count[segment] / N, run = f.run[segment] / N;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < packs; i += step) {
        const int64_t from = place_of(i, run, f.pieces, f.piece);
        ACC sum[N], more[N];
        load_pack<IN>(sum, src[0], from);
        for (int s = 1; s < f.nsrc; s++) {
            load_pack<IN>(more, src[s], from);
            SPMD_UNROLL
            for (int k = 0; k < N; k++)
                sum[k] = combine(f.kind, sum[k], more[k]);
        }
        pack<OUT, N> out;
        SPMD_UNROLL
        for (int k = 0; k < N; k++)
            store(out.v[k], finish(f, sum[k]));
        for (int d = 0; d < f.ndst; d++)
            static_cast<pack<OUT, N> *>(dst[d])[i] = out;
    }
}

template <class IN, class ACC, class OUT>
static void launch_fold(const spmd_p2p_folds &f, dim3 grid, cudaStream_t stream)
{
    if (f.vec == 4)
        SPMD_LAUNCH((fold_kernel<IN, ACC, OUT, 4>), grid, dim3(THREADS), 0, stream, f);
    else
        SPMD_LAUNCH((fold_kernel<IN, ACC, OUT, 1>), grid, dim3(THREADS), 0, stream, f);
}

static void launch_by_type(const spmd_p2p_folds &f, dim3 grid, cudaStream_t stream)
{
    const bool widened = f.in != f.out; /* integers' mean, and counts of bools */
    switch (f.in) {
    case SPMD_F32:
        return launch_fold<float, float, float>(f, grid, stream);
    case SPMD_BF16:
        return launch_fold<bf16, float, bf16>(f, grid, stream);
    case SPMD_F16:
        return launch_fold<f16, float, f16>(f, grid, stream);
    case SPMD_I32:
        return widened ? launch_fold<int32_t, float, float>(f, grid, stream)
                       : launch_fold<int32_t, int32_t, int32_t>(f, grid, stream);
    case SPMD_I64:
        return widened ? launch_fold<int64_t, float, float>(f, grid, stream)
                       : launch_fold<int64_t, int64_t, int64_t>(f, grid, stream);
    case SPMD_I8:
        return widened ? launch_fold<int8_t, float, float>(f, grid, stream)
                       : launch_fold<int8_t, int8_t, int8_t>(f, grid, stream);
    default: /* u8, bool */
        if (f.out == SPMD_I32)
            return launch_fold<uint8_t, int32_t, int32_t>(f, grid, stream);
        return widened ? launch_fold<uint8_t, float, float>(f, grid, stream)
                       : launch_fold<uint8_t, uint8_t, uint8_t>(f, grid, stream);
    }
}

static unsigned blocks_for(const spmd_ctx *ctx, int64_t most)
{
    const int64_t fill = static_cast<int64_t>(spmd__cuda_processors(ctx)) * 8, needed = (most + THREADS - 1) / THREADS;
    return static_cast<unsigned>(needed < 1 ? 1 : needed < fill ? needed : fill);
}

/* Four elements at a time, if all addresses and lengths allow it. */
static int vector_width(const spmd_p2p_folds &f)
{
    const uintptr_t in = 4 * spmd_dtype_size(f.in), out = 4 * spmd_dtype_size(f.out);
    for (int s = 0; s < f.n; s++) {
        if (f.count[s] % 4 || f.run[s] % 4)
            return 1;
        for (int k = 0; k < f.nsrc + f.ndst; k++)
            if (reinterpret_cast<uintptr_t>(f.pointer[s * (f.nsrc + f.ndst) + k]) % (k < f.nsrc ? in : out))
                return 1;
    }
    return 4;
}

spmd_status spmd__p2p_fold_flush(spmd_ctx *ctx, spmd_p2p_folds *folds)
{
    int64_t most = 0;
    if (!folds->n)
        return SPMD_OK;
    folds->vec = vector_width(*folds);
    for (int s = 0; s < folds->n; s++)
        most = folds->count[s] > most ? folds->count[s] : most;
    launch_by_type(*folds, dim3(blocks_for(ctx, most / folds->vec), static_cast<unsigned>(folds->n)),
                   spmd__cuda_stream(ctx));
    folds->n = 0;
    return spmd__cuda_check(cudaGetLastError(), "the reduction's kernel");
}

spmd_status spmd__p2p_fold(spmd_ctx *ctx, spmd_p2p_folds *folds, spmd_dtype in, spmd_dtype out, const void *const *src,
                           void *const *dst, int64_t count, int64_t run)
{
    const int each = folds->nsrc + folds->ndst;
    const bool full = folds->n == SPMD_P2P_SEGMENTS || (folds->n + 1) * each > SPMD_P2P_POINTERS;
    if (count == 0)
        return SPMD_OK;
    if (full || (folds->n && (folds->in != in || folds->out != out)))
        SPMD_TRY(spmd__p2p_fold_flush(ctx, folds));
    void **pointer = folds->pointer + folds->n * each;
    for (int k = 0; k < folds->nsrc; k++)
        pointer[k] = const_cast<void *>(src[k]);
    for (int k = 0; k < folds->ndst; k++)
        pointer[folds->nsrc + k] = dst[k];
    folds->in = in;
    folds->out = out;
    folds->count[folds->n] = count;
    folds->run[folds->n++] = run;
    return SPMD_OK;
}

template <class T> __device__ void copy_units(const spmd_p2p_copy &c)
{
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < c.count; i += step)
        static_cast<T *>(c.dst)[place_of(i, c.dst_run, c.dst_n, c.dst_k)] = static_cast<const T *>(
            c.src)[place_of(i, c.src_run, c.src_n, c.src_k)];
}

__global__ void copy_kernel(spmd_p2p_copies copies)
{
    const spmd_p2p_copy &c = copies.copy[blockIdx.y];
    if (c.unit == 16)
        copy_units<int4>(c);
    else if (c.unit == 4)
        copy_units<int>(c);
    else if (c.unit == 2)
        copy_units<short>(c);
    else
        copy_units<char>(c);
}

spmd_status spmd__p2p_copy_flush(spmd_ctx *ctx, spmd_p2p_copies *copies)
{
    int64_t most = 0;
    if (!copies->n)
        return SPMD_OK;
    for (int k = 0; k < copies->n; k++)
        most = copies->copy[k].count > most ? copies->copy[k].count : most;
    const dim3 grid(blocks_for(ctx, most), static_cast<unsigned>(copies->n));
    SPMD_LAUNCH((copy_kernel), grid, dim3(THREADS), 0, spmd__cuda_stream(ctx), *copies);
    copies->n = 0;
    return spmd__cuda_check(cudaGetLastError(), "the copies' kernel");
}

spmd_status spmd__p2p_copy_piece(spmd_ctx *ctx, spmd_p2p_copies *copies, void *dst, spmd_pieces to, const void *src,
                                 spmd_pieces from, int64_t count, size_t size)
{
    if (count == 0)
        return SPMD_OK;
    if (copies->n == SPMD_P2P_COPIES)
        SPMD_TRY(spmd__p2p_copy_flush(ctx, copies));
    const int64_t bytes = static_cast<int64_t>(size);
    spmd_p2p_copy c = {};
    c.dst = dst;
    c.src = src;
    c.count = count * bytes;
    c.dst_run = (to.n == 1 ? count : to.run) * bytes;
    c.src_run = (from.n == 1 ? count : from.run) * bytes;
    c.dst_n = static_cast<int8_t>(to.n);
    c.dst_k = static_cast<int8_t>(to.k);
    c.src_n = static_cast<int8_t>(from.n);
    c.src_k = static_cast<int8_t>(from.k);
    const uint64_t all = static_cast<uint64_t>(c.count) | static_cast<uint64_t>(c.dst_run) |
                         static_cast<uint64_t>(c.src_run) | reinterpret_cast<uintptr_t>(dst) |
                         reinterpret_cast<uintptr_t>(src);
    c.unit = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
    c.count /= c.unit;
    c.dst_run /= c.unit;
    c.src_run /= c.unit;
    copies->copy[copies->n++] = c;
    return SPMD_OK;
}
