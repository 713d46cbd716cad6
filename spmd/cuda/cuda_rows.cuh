/* Private. Copies of rows on the device, for slices, concatenations and the like: `rows` pieces of `width` bytes from
 * every `from_stride` bytes to every `to_stride` bytes. The widest access that divides all of them is used. */
#ifndef SPMD_CUDA_ROWS_CUH
#define SPMD_CUDA_ROWS_CUH

#include "spmd/cuda.cuh"
#include "spmd/cuda/cuda_ctx.h"
#include <stdint.h>

namespace spmd_cuda_rows
{

enum { THREADS = 256 };

/* All but `rows` in bytes. */
struct copy {
    char *to;
    const char *from;
    int64_t rows, width, to_stride, from_stride;
    int64_t begin; /* where in a row of the result the copy lies */
    bool padded;   /* the rest of the result's row becomes zero */
};

__host__ __device__ inline int64_t written(const copy &c)
{
    return c.padded ? c.to_stride : c.width;
}

/* A thread writes one Unit. */
template <class Unit> __global__ void __launch_bounds__(THREADS) copy_kernel(copy c)
{
    const int64_t unit = sizeof(Unit), per_row = written(c) / unit;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= c.rows * per_row)
        return;
    const int64_t row = i <= UINT32_MAX && per_row <= UINT32_MAX ? (uint32_t)i / (uint32_t)per_row : i / per_row;
    const int64_t at = (i - row * per_row) * unit, column = c.padded ? at - c.begin : at;
    Unit x = {};
    if (column >= 0 && column < c.width)
        x = *(const Unit *)(c.from + row * c.from_stride + column);
    *(Unit *)(c.to + row * c.to_stride + c.begin + column) = x;
}

template <class Unit> inline spmd_status launch(spmd_ctx *ctx, const copy &c, const char *name)
{
    const int64_t count = c.rows * (written(c) / (int64_t)sizeof(Unit));
    const cudaStream_t stream = spmd__cuda_stream(ctx);
    if (count > 0)
        SPMD_LAUNCH((copy_kernel<Unit>), (unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, stream, c);
    return spmd__cuda_check(cudaGetLastError(), name);
}

inline spmd_status run(spmd_ctx *ctx, const copy &c, const char *name)
{
    const uint64_t all = (uint64_t)(uintptr_t)c.to | (uint64_t)(uintptr_t)c.from | (uint64_t)c.width |
                         (uint64_t)c.to_stride | (uint64_t)c.from_stride | (uint64_t)c.begin;
    if (all % 16 == 0)
        return launch<uint4>(ctx, c, name);
    if (all % 8 == 0)
        return launch<uint64_t>(ctx, c, name);
    if (all % 4 == 0)
        return launch<uint32_t>(ctx, c, name);
    if (all % 2 == 0)
        return launch<uint16_t>(ctx, c, name);
    return launch<uint8_t>(ctx, c, name);
}

} // namespace spmd_cuda_rows

static inline spmd_status spmd__cuda_copy_rows(spmd_ctx *ctx, void *to, size_t to_stride, const void *from,
                                               size_t from_stride, size_t width, int64_t rows, const char *name)
{
    const spmd_cuda_rows::copy c = {(char *)to,         (const char *)from,   rows, (int64_t)width,
                                    (int64_t)to_stride, (int64_t)from_stride, 0,    false};
    return spmd_cuda_rows::run(ctx, c, name);
}

/* Rows that lie one behind the other, into zeros: each to byte `begin` of a row of `to_stride` bytes. */
static inline spmd_status spmd__cuda_pad_rows(spmd_ctx *ctx, void *to, size_t to_stride, size_t begin, const void *from,
                                              size_t width, int64_t rows, const char *name)
{
    const spmd_cuda_rows::copy c = {(char *)to,         (const char *)from, rows,           (int64_t)width,
                                    (int64_t)to_stride, (int64_t)width,     (int64_t)begin, true};
    return spmd_cuda_rows::run(ctx, c, name);
}

#endif
