/* Part of emu_device.h: warp functions. */
#ifndef EMU_WARP_CUH
#define EMU_WARP_CUH

inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_SITE)
{
    emu_release(emu_converge(mask, EMU_SYNCWARP, 0, file, line));
}

namespace emu
{
template <class T> inline T shuffle(unsigned mask, T value, int source, const char *file, int line)
{
    emu_convergence *meeting = emu_converge(mask, EMU_SHUFFLE, bits(value), file, line);
    uint64_t got = emu_value_of(meeting, source);
    emu_release(meeting);
    return value_of<T>(got);
}

/* Calls use(lane, value) for every lane that arrived. */
template <class F> inline void gather(unsigned mask, uint64_t value, const char *file, int line, F use)
{
    emu_convergence *meeting = emu_converge(mask, EMU_VOTE, value, file, line);
    unsigned arrived = emu_arrived(meeting);
    for (int lane = 0; lane < 32; lane++)
        if (arrived >> lane & 1)
            use(lane, emu_value_of(meeting, lane));
    emu_release(meeting);
}
} // namespace emu

template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMU_SITE)
{
    int first = emu_now.lane & ~(width - 1);
    return emu::shuffle(mask, value, first + (source & (width - 1)), file, line);
}

template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMU_SITE)
{
    int lane = emu_now.lane, source = lane ^ lanes;
    return emu::shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, file, line);
}

template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_SITE)
{
    int lane = emu_now.lane, source = lane + static_cast<int>(delta);
    return emu::shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, file, line);
}

template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_SITE)
{
    int lane = emu_now.lane, source = lane - static_cast<int>(delta);
    return emu::shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_SITE)
{
    unsigned lanes = 0;
    emu::gather(mask, predicate != 0, file, line,
                [&](int lane, uint64_t vote) { lanes |= static_cast<unsigned>(vote) << lane; });
    return lanes;
}

inline int __any_sync(unsigned mask, int predicate, EMU_SITE)
{
    return __ballot_sync(mask, predicate, file, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, EMU_SITE)
{
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

template <class T> inline unsigned __match_any_sync(unsigned mask, T value, EMU_SITE)
{
    unsigned lanes = 0;
    uint64_t mine = emu::bits(value);
    emu::gather(mask, mine, file, line,
                [&](int lane, uint64_t theirs) { lanes |= (theirs == mine ? 1u : 0u) << lane; });
    return lanes;
}

namespace emu
{
template <class T, class F> inline T reduce(unsigned mask, T value, const char *file, int line, F combine)
{
    T result{};
    bool first = true;
    gather(mask, bits(value), file, line, [&](int, uint64_t theirs) {
        result = first ? value_of<T>(theirs) : combine(result, value_of<T>(theirs));
        first = false;
    });
    return result;
}
} // namespace emu

template <class T> inline T __reduce_add_sync(unsigned mask, T value, EMU_SITE)
{
    return emu::reduce(mask, value, file, line, [](T a, T b) { return static_cast<T>(a + b); });
}

template <class T> inline T __reduce_min_sync(unsigned mask, T value, EMU_SITE)
{
    return emu::reduce(mask, value, file, line, [](T a, T b) { return b < a ? b : a; });
}

template <class T> inline T __reduce_max_sync(unsigned mask, T value, EMU_SITE)
{
    return emu::reduce(mask, value, file, line, [](T a, T b) { return a < b ? b : a; });
}

inline unsigned __activemask()
{
    return 1u << emu_now.lane; /* lanes run one by one: nothing may be concluded from it */
}

#endif
