/* Part of emu_device.h: cooperative groups of a block, of tiles of a warp, and of the grid. */
#ifndef EMU_GROUPS_CUH
#define EMU_GROUPS_CUH

namespace cooperative_groups
{
struct thread_block {
    void sync(EMU_SITE) const
    {
        emu_syncthreads(file, line, false);
    }
    static unsigned thread_rank()
    {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static unsigned size()
    {
        return blockDim.x * blockDim.y * blockDim.z;
    }
    static unsigned num_threads()
    {
        return size();
    }
    static dim3 group_index()
    {
        return dim3(blockIdx.x, blockIdx.y, blockIdx.z);
    }
    static dim3 thread_index()
    {
        return dim3(threadIdx.x, threadIdx.y, threadIdx.z);
    }
};

struct grid_group {
    void sync(EMU_SITE) const
    {
        emu_sync_grid(file, line);
    }
    static unsigned long long block_rank()
    {
        return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    static unsigned long long num_blocks()
    {
        return 1ull * gridDim.x * gridDim.y * gridDim.z;
    }
    static unsigned long long thread_rank()
    {
        return block_rank() * thread_block::size() + thread_block::thread_rank();
    }
    static unsigned long long size()
    {
        return num_blocks() * thread_block::size();
    }
    static bool is_valid()
    {
        return true;
    }
};

template <unsigned Size, class Parent = void> struct thread_block_tile {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles have 1, 2, 4, 8, 16 or 32 threads");

    static unsigned mask()
    {
        unsigned lanes = Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1;
        return lanes << (static_cast<unsigned>(emu_now.lane) & ~(Size - 1));
    }
    static unsigned thread_rank()
    {
        return static_cast<unsigned>(emu_now.lane) & (Size - 1);
    }
    static constexpr unsigned size()
    {
        return Size;
    }
    static constexpr unsigned num_threads()
    {
        return Size;
    }
    static unsigned meta_group_rank()
    {
        return thread_block::thread_rank() / Size;
    }
    static unsigned meta_group_size()
    {
        return (thread_block::size() + Size - 1) / Size;
    }
    void sync(EMU_SITE) const
    {
        __syncwarp(mask(), file, line);
    }
    template <class T> T shfl(T value, int source, EMU_SITE) const
    {
        return __shfl_sync(mask(), value, source, Size, file, line);
    }
    template <class T> T shfl_xor(T value, unsigned lanes, EMU_SITE) const
    {
        return __shfl_xor_sync(mask(), value, static_cast<int>(lanes), Size, file, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, EMU_SITE) const
    {
        return __shfl_down_sync(mask(), value, delta, Size, file, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, EMU_SITE) const
    {
        return __shfl_up_sync(mask(), value, delta, Size, file, line);
    }
    int any(int predicate, EMU_SITE) const
    {
        return __any_sync(mask(), predicate, file, line);
    }
    int all(int predicate, EMU_SITE) const
    {
        return __all_sync(mask(), predicate, file, line);
    }
    unsigned ballot(int predicate, EMU_SITE) const
    {
        return __ballot_sync(mask(), predicate, file, line) >> (static_cast<unsigned>(emu_now.lane) & ~(Size - 1));
    }
};

inline thread_block this_thread_block()
{
    return {};
}

inline grid_group this_grid()
{
    return {};
}

template <unsigned Size, class Parent> inline thread_block_tile<Size, Parent> tiled_partition(const Parent &)
{
    return {};
}

template <class Group> inline void sync(const Group &group, EMU_SITE)
{
    group.sync(file, line);
}
} // namespace cooperative_groups

#endif
