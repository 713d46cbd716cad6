/* CUDA's device side for g++ and clang++: kernels compile as C++17 and run on the emulated CUDA. spmd/cuda.cuh includes
 * this when SPMD_EMU is defined; .cu files include that. NVIDIA's headers give types and the runtime's functions, this
 * one and its parts give what only nvcc has built in. */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include "emu/emu_intrinsics.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>
#include <math.h>
#include <tuple>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
/* These would compile as ordinary variables, and be wrong. */
#define __shared__ EMU_ERROR_shared_memory_is_declared_by_SPMD_SMEM
#define __constant__ EMU_ERROR_pass_constants_as_kernel_arguments

/* Where a built-in is called: default arguments that stand for the caller's line. */
#define EMU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace emu
{
/* A kernel and its arguments, as the launch copies them. */
template <class... P> struct packed {
    void (*kernel)(P...);
    std::tuple<P...> arguments;

    static void call(void *pack)
    {
        packed *self = static_cast<packed *>(pack);
        std::apply(self->kernel, self->arguments);
    }
};

template <class... P, class... A>
void launch(const char *name, bool cooperative, void (*kernel)(P...), dim3 grid, dim3 block, size_t smem,
            cudaStream_t stream, A &&...arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "the kernel takes another number of arguments");
    static_assert((std::is_trivially_copyable_v<P> && ...), "kernel arguments are plain data");
    packed<P...> pack{kernel, std::tuple<P...>(static_cast<P>(arguments)...)};
    static_assert(alignof(packed<P...>) <= 16, "kernel arguments are aligned to at most 16 bytes");
    emu_launch_info info{};
    info.name = name;
    info.grid = grid;
    info.block = block;
    info.smem = smem;
    info.stream = stream;
    info.kernel = reinterpret_cast<const void *>(kernel);
    info.call = packed<P...>::call;
    info.pack = &pack;
    info.pack_size = sizeof pack;
    info.cooperative = cooperative;
    emu_launch(&info);
}

/* Up to 8 bytes as the bits of an integer, and back. */
template <class T> inline uint64_t bits(T value)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "lanes exchange up to 8 bytes");
    uint64_t u = 0;
    memcpy(&u, &value, sizeof value);
    return u;
}

template <class T> inline T value_of(uint64_t u)
{
    T value;
    memcpy(&value, &u, sizeof value);
    return value;
}
} // namespace emu

#define SPMD_LAUNCH(kernel, grid, block, smem, stream, ...) \
    ::emu::launch(#kernel, false, (kernel), (grid), (block), (smem), (stream)__VA_OPT__(, ) __VA_ARGS__)
#define SPMD_LAUNCH_COOPERATIVE(kernel, grid, block, smem, stream, ...) \
    ::emu::launch(#kernel, true, (kernel), (grid), (block), (smem), (stream)__VA_OPT__(, ) __VA_ARGS__)
#define SPMD_SMEM(type, name, dims)                          \
    typedef type name##_emu_type dims;                       \
    static char name##_emu_tag;                              \
    name##_emu_type &name = *static_cast<name##_emu_type *>( \
        emu_smem(&name##_emu_tag, #name, sizeof(name##_emu_type), alignof(name##_emu_type)))
#define SPMD_SMEM_DYN(type, name) type *name = static_cast<type *>(emu_smem_dynamic())
#define SPMD_UNROLL
#define SPMD_SPIN() emu_spin()

#define threadIdx (emu_now.thread_idx)
#define blockIdx (emu_now.block_idx)
#define blockDim (emu_now.block_dim)
#define gridDim (emu_now.grid_dim)
static constexpr int warpSize = 32;

inline unsigned spmd_ld_acquire(const unsigned *flag)
{
    return emu_load_acquire(flag);
}

inline void spmd_st_release(unsigned *flag, unsigned value)
{
    emu_store_release(flag, value);
}

/* --- barriers and fences --- */
inline void __syncthreads(EMU_SITE)
{
    emu_syncthreads(file, line, false);
}

inline int __syncthreads_count(int predicate, EMU_SITE)
{
    return emu_syncthreads(file, line, predicate != 0);
}

inline int __syncthreads_or(int predicate, EMU_SITE)
{
    return emu_syncthreads(file, line, predicate != 0) != 0;
}

inline int __syncthreads_and(int predicate, EMU_SITE)
{
    return emu_syncthreads(file, line, predicate == 0) == 0;
}

inline void __threadfence_block()
{
}

inline void __threadfence()
{
    emu_fence();
}

inline void __threadfence_system()
{
    emu_fence();
}

inline void __nanosleep(unsigned)
{
    emu_spin();
}

inline void __trap(EMU_SITE)
{
    emu_trap(file, line);
}

/* --- cp.async --- */
inline void __pipeline_memcpy_async(void *to, const void *from, size_t size, size_t zeros = 0)
{
    emu_copy_async(to, from, size, zeros);
}

inline void __pipeline_commit()
{
    emu_copy_commit();
}

inline void __pipeline_wait_prior(size_t prior)
{
    emu_copy_wait(prior);
}

#include "emu/emu_warp.cuh"

#include "emu/emu_math.cuh"

#include "emu/emu_atomic.cuh"

#include "emu/emu_matrix.cuh"

#include "emu/emu_groups.cuh"

#endif
