/* All parameters in one launch: a table of their addresses is the kernel's argument, and a block finds the parameter
 * that its part belongs to. */
#include "kernels/device.cuh"
#include "spmd/cuda/cuda_blame.cuh"
#include <math.h>

using namespace spmd_kernel;

namespace
{
enum { PARAM, MU, NU, GRAD, LISTS }; /* inputs: n of each, rate, count; outputs: n of each of the first three */

/* Arguments of 4 KiB always work, of 32 KiB since CUDA 12.1. */
enum { FEW = 48, MANY = CUDART_VERSION >= 12010 ? 400 : FEW, PER_BLOCK = 4 * 4 * THREADS };

struct tensor {
    const float *in[LISTS];
    float *out[3];
    int64_t count;
};

template <int N> struct table {
    int n;
    unsigned first_block[N];
    tensor of[N];
};

struct options {
    double log_b1, log_b2;
    float b1, b2, rest1, rest2, epsilon, decay;
    const float *rate, *step;
    spmd_cuda_note *note;
    const char *refusal;
};

struct factors {
    float unbias1, unbias2, rate;
};

__device__ __forceinline__ float unbias(double log_b, double step)
{
    return (float)(-1 / expm1(step * log_b)); /* 1 / (1 - b^step) without cancellation */
}

__device__ __forceinline__ void update(const options &o, const factors &f, float g, float &p, float &mu, float &nu)
{
    mu = o.b1 * mu + o.rest1 * g;
    nu = o.b2 * nu + o.rest2 * (g * g);
    const float step = mu * f.unbias1 / (sqrtf(nu * f.unbias2) + o.epsilon);
    p -= f.rate * (step + o.decay * p);
}

/* Elements i .. i + V of a parameter. All is read before anything is written: outputs may be inputs. */
template <int V>
__device__ __forceinline__ void update_pack(const options &o, const factors &f, const tensor &t, int64_t i)
{
    typedef pack<float, V> floats;
    floats p = *(const floats *)(t.in[PARAM] + i), mu = *(const floats *)(t.in[MU] + i);
    floats nu = *(const floats *)(t.in[NU] + i);
    const floats g = *(const floats *)(t.in[GRAD] + i);
    SPMD_UNROLL
    for (int v = 0; v < V; v++)
        update(o, f, g.at[v], p.at[v], mu.at[v], nu.at[v]);
    *(floats *)(t.out[PARAM] + i) = p;
    *(floats *)(t.out[MU] + i) = mu;
    *(floats *)(t.out[NU] + i) = nu;
}

template <int N, int V> __global__ void __launch_bounds__(THREADS) adamw_kernel(table<N> all, options o)
{
    SPMD_SMEM(float, unbiases, [2]);
    if (threadIdx.x < 2)
        unbiases[threadIdx.x] = unbias(threadIdx.x == 0 ? o.log_b1 : o.log_b2, *o.step);
    if (blockIdx.x == 0 && threadIdx.x == 0 && !(*o.step >= 1))
        spmd__cuda_blame(o.note, o.refusal, *o.step, 0, 0);
    __syncthreads();
    const factors f = {unbiases[0], unbiases[1], *o.rate};
    int low = 0, high = all.n; /* the parameter: the last whose first block is not behind this one */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (all.first_block[middle] <= blockIdx.x ? low : high) = middle;
    }
    const tensor &t = all.of[low];
    const int64_t begin = (int64_t)(blockIdx.x - all.first_block[low]) * PER_BLOCK, end = begin + PER_BLOCK;
    for (int64_t i = begin + threadIdx.x * V; i < end && i < t.count; i += THREADS * V) {
        if (i + V <= t.count)
            update_pack<V>(o, f, t, i);
        else
            for (int64_t j = i; j < t.count; j++)
                update_pack<1>(o, f, t, j);
    }
}

tensor tensor_of(const spmd_kernel_args *args, int n, int i, bool *packs)
{
    tensor t = {};
    for (int list = 0; list < LISTS; list++) {
        t.in[list] = (const float *)args->in[list * n + i].data;
        *packs = *packs && aligned_for<float>(t.in[list], 4);
    }
    for (int k = 0; k < 3; k++) {
        t.out[k] = (float *)args->out[k * n + i].data;
        *packs = *packs && aligned_for<float>(t.out[k], 4);
    }
    t.count = spmd_view_count(&args->in[i]);
    return t;
}

/* Parameters begin .. begin + N, or as many as there are. */
template <int N> spmd_status launch(spmd_ctx *ctx, const spmd_kernel_args *args, int n, int begin, const options &o)
{
    table<N> all = {};
    bool packs = true;
    unsigned blocks = 0;
    for (int i = begin; i < n && i < begin + N; i++) {
        const tensor t = tensor_of(args, n, i, &packs);
        if (t.count == 0)
            continue;
        all.first_block[all.n] = blocks;
        all.of[all.n++] = t;
        blocks += blocks_for(t.count, PER_BLOCK);
    }
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (blocks > 0 && packs)
        SPMD_LAUNCH((adamw_kernel<N, 4>), blocks, THREADS, 0, stream, all, o);
    else if (blocks > 0)
        SPMD_LAUNCH((adamw_kernel<N, 1>), blocks, THREADS, 0, stream, all, o);
    return spmd__cuda_check(cudaGetLastError(), "adamw");
}
} // namespace

extern "C" spmd_status spmd__adamw_cuda(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const int n = args->nout / 3;
    const double *opts = args->attr->f;
    options o = {};
    o.log_b1 = log(opts[0]);
    o.log_b2 = log(opts[1]);
    o.b1 = (float)opts[0];
    o.b2 = (float)opts[1];
    o.rest1 = (float)(1 - opts[0]);
    o.rest2 = (float)(1 - opts[1]);
    o.epsilon = (float)opts[2];
    o.decay = (float)opts[3];
    o.rate = (const float *)args->in[LISTS * n].data;
    o.step = (const float *)args->in[LISTS * n + 1].data;
    o.note = spmd__cuda_note(ctx);
    o.refusal = "adamw: count is %g: expected the step's number, from 1";
    if (n <= FEW)
        return launch<FEW>(ctx, args, n, 0, o);
    for (int begin = 0; begin < n; begin += MANY)
        SPMD_TRY(launch<MANY>(ctx, args, n, begin, o));
    return SPMD_OK;
}
