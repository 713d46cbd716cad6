/* Part of emu_device.h: atomic functions. One loop of compare and exchange serves every width and type. */
#ifndef EMU_ATOMIC_CUH
#define EMU_ATOMIC_CUH

namespace emu
{
template <class T, class F>
__attribute__((noinline, no_sanitize("thread", "alignment"))) T atomic_update(T *p, F change)
{
    using word = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    static_assert(sizeof(T) == sizeof(word), "atomics have 2, 4 or 8 bytes");
    emu_atomic(p, sizeof(T), __builtin_return_address(0));
    word *at = reinterpret_cast<word *>(p), old = __atomic_load_n(at, __ATOMIC_RELAXED), wanted;
    do {
        wanted = static_cast<word>(bits(static_cast<T>(change(value_of<T>(old)))));
    } while (!__atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return value_of<T>(old);
}

template <class T> using same = std::common_type_t<T>; /* not deduced: atomicAdd(float *, 1) adds 1.0f */
} // namespace emu

#define EMU_ATOMIC(name, expression)                                     \
    template <class T> inline T name(T *p, emu::same<T> v)               \
    {                                                                    \
        return emu::atomic_update(p, [=](T old) { return expression; }); \
    }                                                                    \
    template <class T> inline T name##_block(T *p, emu::same<T> v)       \
    {                                                                    \
        return name(p, v);                                               \
    }                                                                    \
    template <class T> inline T name##_system(T *p, emu::same<T> v)      \
    {                                                                    \
        return name(p, v);                                               \
    }
EMU_ATOMIC(atomicAdd, static_cast<T>(old + v))
EMU_ATOMIC(atomicSub, static_cast<T>(old - v))
EMU_ATOMIC(atomicExch, ((void)old, v))
EMU_ATOMIC(atomicMin, v < old ? v : old)
EMU_ATOMIC(atomicMax, old < v ? v : old)
EMU_ATOMIC(atomicAnd, static_cast<T>(old &v))
EMU_ATOMIC(atomicOr, static_cast<T>(old | v))
EMU_ATOMIC(atomicXor, static_cast<T>(old ^ v))
EMU_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
EMU_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef EMU_ATOMIC

template <class T> inline T atomicCAS(T *p, emu::same<T> expected, emu::same<T> v)
{
    return emu::atomic_update(p, [=](T old) { return old == expected ? v : old; });
}

template <class T> inline T atomicCAS_block(T *p, emu::same<T> expected, emu::same<T> v)
{
    return atomicCAS(p, expected, v);
}

template <class T> inline T atomicCAS_system(T *p, emu::same<T> expected, emu::same<T> v)
{
    return atomicCAS(p, expected, v);
}

#endif
