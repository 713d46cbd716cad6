/* Softmax of rows, a block a row: nvcc compiles this file for a GPU, g++ for the emulated one. */
#include "row_softmax.h"
#include "spmd/cuda.cuh"

#ifndef BARRIER
#define BARRIER() __syncthreads()
#endif

enum { THREADS = 64 };

/* The sum or the maximum of everybody's value: each warp by shuffles, then the warps through shared memory. */
template <bool MAXIMUM> __device__ float combine(float value)
{
    SPMD_SMEM(float, part, [THREADS / 32]);
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, lanes);
        value = MAXIMUM ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    BARRIER();
    float result = part[0];
    for (int warp = 1; warp < THREADS / 32; warp++)
        result = MAXIMUM ? fmaxf(result, part[warp]) : result + part[warp];
    return result;
}

__global__ void row_softmax_kernel(const float *x, float *y, int columns)
{
    const float *from = x + size_t(blockIdx.x) * columns;
    float *to = y + size_t(blockIdx.x) * columns;
    float largest = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS)
        largest = fmaxf(largest, from[i]);
    largest = combine<true>(largest);
    for (int i = threadIdx.x; i < columns; i += THREADS)
        sum += to[i] = expf(from[i] - largest); /* each thread meets its own elements again: no barrier */
    sum = combine<false>(sum);
    for (int i = threadIdx.x; i < columns; i += THREADS)
        to[i] /= sum;
}

cudaError_t row_softmax(const float *x, float *y, int rows, int columns, cudaStream_t stream)
{
    SPMD_LAUNCH((row_softmax_kernel), rows, THREADS, 0, stream, x, y, columns);
    return cudaGetLastError();
}
