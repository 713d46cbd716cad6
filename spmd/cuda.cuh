/* The one header of every .cu file, yours and spmdkit's. Compiled by nvcc it is CUDA; compiled as C++17 with SPMD_EMU
 * defined it is the emulated CUDA (emu/), which runs the same kernels on processors and checks them.
 *
 *     __global__ void scale_rows(const float *x, float *y, int n)
 *     {
 *         SPMD_SMEM(float, tile, [32][33]);   // float tile[32][33] in shared memory
 *         SPMD_SMEM_DYN(float, row);          // float *row: the launch's dynamic shared memory
 *         ...
 *     }
 *     SPMD_LAUNCH((scale_rows), grid, block, smem, stream, x, y, n);
 *     return spmd__cuda_check(cudaGetLastError(), "scale_rows");
 *
 * Kernels keep to what both sides give: shared memory and launches by these macros only, no inline PTX, no __constant__
 * or __device__ variables, no static data of functions. docs/checking-cuda-without-a-gpu.md lists the rules. */
#ifndef SPMD_CUDA_CUH
#define SPMD_CUDA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifdef SPMD_EMU
#include "emu/emu_device.h"
#else
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <mma.h>

/* Launches kernel (in parentheses: template arguments hold commas) on stream. Ask cudaGetLastError() afterwards. */
#define SPMD_LAUNCH(kernel, grid, block, smem, stream, ...) (kernel)<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__)

/* The same with all blocks resident at once, so that cooperative_groups::this_grid().sync() works. */
#define SPMD_LAUNCH_COOPERATIVE(kernel, grid, block, smem, stream, ...) \
    spmd_launch_cooperative((kernel), (grid), (block), (smem), (stream)__VA_OPT__(, ) __VA_ARGS__)

/* Shared memory of a block, at the top of a kernel or device function: SPMD_SMEM(float, tile, [32][33]). */
#define SPMD_SMEM(type, name, dims) __shared__ type name dims

/* The launch's dynamic shared memory, 16-byte aligned. Above 48 KiB call cudaFuncSetAttribute first. */
#define SPMD_SMEM_DYN(type, name)                                      \
    extern __shared__ __align__(16) unsigned char spmd_dynamic_smem[]; \
    type *name = reinterpret_cast<type *>(spmd_dynamic_smem)

#define SPMD_UNROLL _Pragma("unroll")

/* The body of a loop that waits for a flag: while (spmd_ld_acquire(flag) < value) SPMD_SPIN(); */
#define SPMD_SPIN() __nanosleep(40)

/* Reads a flag that another block, kernel or device sets by spmd_st_release; what it wrote before is visible then. */
__device__ __forceinline__ unsigned spmd_ld_acquire(const unsigned *flag)
{
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

__device__ __forceinline__ void spmd_st_release(unsigned *flag, unsigned value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/* d (16x8, f32) += a (16x16, bf16, row major) * b (16x8, bf16, column major), by one warp; fragments as in PTX's
 * mma.m16n8k16. */
__device__ __forceinline__ void spmd_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <class... P, class... A>
inline void spmd_launch_cooperative(void (*kernel)(P...), dim3 grid, dim3 block, size_t smem, cudaStream_t stream,
                                    A... arguments)
{
    cudaLaunchAttribute cooperative = {};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = smem;
    config.stream = stream;
    config.attrs = &cooperative;
    config.numAttrs = 1;
    (void)cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...); /* kept for cudaGetLastError */
}
#endif

#endif
