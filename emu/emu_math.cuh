/* Part of emu_device.h: what device code has of mathematics, bits and loads beyond the C library. Fast functions are
 * the C library's here: compare results by tolerance. */
#ifndef EMU_MATH_CUH
#define EMU_MATH_CUH

/* --- as device code finds them: float stays float, NaN is dropped --- */
template <class A, class B> inline std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_same_v<T, float>)
        return fminf(a, b);
    else if constexpr (std::is_floating_point_v<T>)
        return fmin(a, b);
    else
        return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}

template <class A, class B> inline std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_same_v<T, float>)
        return fmaxf(a, b);
    else if constexpr (std::is_floating_point_v<T>)
        return fmax(a, b);
    else
        return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

#define EMU_FUNCTION(type, name, parameters, expression) \
    inline type name parameters                          \
    {                                                    \
        return expression;                               \
    }
EMU_FUNCTION(float, rsqrtf, (float x), 1.0f / sqrtf(x))
EMU_FUNCTION(double, rsqrt, (double x), 1.0 / sqrt(x))
EMU_FUNCTION(float, normcdff, (float x), 0.5f * erfcf(-0.70710678f * x))
EMU_FUNCTION(float, __expf, (float x), expf(x))
EMU_FUNCTION(float, __exp10f, (float x), exp2f(3.32192809f * x))
EMU_FUNCTION(float, __logf, (float x), logf(x))
EMU_FUNCTION(float, __log2f, (float x), log2f(x))
EMU_FUNCTION(float, __log10f, (float x), log10f(x))
EMU_FUNCTION(float, __sinf, (float x), sinf(x))
EMU_FUNCTION(float, __cosf, (float x), cosf(x))
EMU_FUNCTION(float, __tanf, (float x), tanf(x))
EMU_FUNCTION(float, __powf, (float x, float y), powf(x, y))
EMU_FUNCTION(float, __saturatef, (float x), x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
EMU_FUNCTION(float, __fdividef, (float a, float b), a / b)
EMU_FUNCTION(float, __fdiv_rn, (float a, float b), a / b)
EMU_FUNCTION(float, __fadd_rn, (float a, float b), a + b)
EMU_FUNCTION(float, __fsub_rn, (float a, float b), a - b)
EMU_FUNCTION(float, __fmul_rn, (float a, float b), a *b)
EMU_FUNCTION(float, __fmaf_rn, (float a, float b, float c), fmaf(a, b, c))
EMU_FUNCTION(float, __frcp_rn, (float x), 1.0f / x)
EMU_FUNCTION(float, __fsqrt_rn, (float x), sqrtf(x))
EMU_FUNCTION(float, __frsqrt_rn, (float x), 1.0f / sqrtf(x))
EMU_FUNCTION(double, __dadd_rn, (double a, double b), a + b)
EMU_FUNCTION(double, __dmul_rn, (double a, double b), a *b)
EMU_FUNCTION(double, __fma_rn, (double a, double b, double c), fma(a, b, c))

/* --- conversions --- */
EMU_FUNCTION(int, __float_as_int, (float x), emu::value_of<int>(emu::bits(x)))
EMU_FUNCTION(unsigned, __float_as_uint, (float x), emu::value_of<unsigned>(emu::bits(x)))
EMU_FUNCTION(float, __int_as_float, (int x), emu::value_of<float>(emu::bits(x)))
EMU_FUNCTION(float, __uint_as_float, (unsigned x), emu::value_of<float>(emu::bits(x)))
EMU_FUNCTION(long long, __double_as_longlong, (double x), emu::value_of<long long>(emu::bits(x)))
EMU_FUNCTION(double, __longlong_as_double, (long long x), emu::value_of<double>(emu::bits(x)))
EMU_FUNCTION(int, __float2int_rn, (float x), static_cast<int>(rintf(x)))
EMU_FUNCTION(int, __float2int_rz, (float x), static_cast<int>(x))
EMU_FUNCTION(int, __float2int_rd, (float x), static_cast<int>(floorf(x)))
EMU_FUNCTION(int, __float2int_ru, (float x), static_cast<int>(ceilf(x)))
EMU_FUNCTION(unsigned, __float2uint_rn, (float x), static_cast<unsigned>(rintf(x)))
EMU_FUNCTION(float, __int2float_rn, (int x), static_cast<float>(x))
EMU_FUNCTION(float, __uint2float_rn, (unsigned x), static_cast<float>(x))
EMU_FUNCTION(float, __double2float_rn, (double x), static_cast<float>(x))
EMU_FUNCTION(float, __ll2float_rn, (long long x), static_cast<float>(x))

/* --- bits --- */
EMU_FUNCTION(int, __popc, (unsigned x), __builtin_popcount(x))
EMU_FUNCTION(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
EMU_FUNCTION(int, __clz, (int x), x ? __builtin_clz(static_cast<unsigned>(x)) : 32)
EMU_FUNCTION(int, __clzll, (long long x), x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64)
EMU_FUNCTION(int, __ffs, (int x), __builtin_ffs(x))
EMU_FUNCTION(int, __ffsll, (long long x), __builtin_ffsll(x))
EMU_FUNCTION(unsigned, __umulhi, (unsigned a, unsigned b), static_cast<unsigned>(uint64_t{a} * b >> 32))
EMU_FUNCTION(int, __mulhi, (int a, int b), static_cast<int>(int64_t{a} * b >> 32))
EMU_FUNCTION(unsigned long long, __umul64hi, (unsigned long long a, unsigned long long b),
             static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64))
EMU_FUNCTION(unsigned, __funnelshift_l, (unsigned low, unsigned high, unsigned n),
             static_cast<unsigned>((uint64_t{high} << 32 | low) << (n & 31) >> 32))
EMU_FUNCTION(unsigned, __funnelshift_r, (unsigned low, unsigned high, unsigned n),
             static_cast<unsigned>((uint64_t{high} << 32 | low) >> (n & 31)))

inline unsigned __brev(unsigned x)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}

inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t bytes = uint64_t{b} << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned choice = selector >> 4 * i & 15, byte = static_cast<unsigned>(bytes >> 8 * (choice & 7)) & 0xff;
        if (choice & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8)
        c += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
    return c;
}

inline long long clock64()
{
    static EMU_THREAD_LOCAL long long ticks; /* only goes up: nothing here tells the time of a GPU */
    return ticks += 8;
}

/* --- loads and stores with cache hints --- */
#define EMU_LOAD(name)                           \
    template <class T> inline T name(const T *p) \
    {                                            \
        return *p;                               \
    }
#define EMU_STORE(name)                                                    \
    template <class T> inline void name(T *p, std::common_type_t<T> value) \
    {                                                                      \
        *p = value;                                                        \
    }
EMU_LOAD(__ldg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
EMU_LOAD(__ldcv)
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)
#undef EMU_LOAD
#undef EMU_STORE

/* --- 16-bit floats: what NVIDIA's headers give to device code only --- */
#define EMU_HALF_FUNCTIONS(half, pair, to, from)                                                              \
    EMU_FUNCTION(half, __hfma, (half a, half b, half c), from(fmaf(to(a), to(b), to(c))))                     \
    EMU_FUNCTION(pair, __hfma2, (pair a, pair b, pair c), pair(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y))) \
    EMU_HALF_UNARY(half, pair, hexp, h2exp, to, from, expf(x))                                                \
    EMU_HALF_UNARY(half, pair, hexp2, h2exp2, to, from, exp2f(x))                                             \
    EMU_HALF_UNARY(half, pair, hlog, h2log, to, from, logf(x))                                                \
    EMU_HALF_UNARY(half, pair, hlog2, h2log2, to, from, log2f(x))                                             \
    EMU_HALF_UNARY(half, pair, hsqrt, h2sqrt, to, from, sqrtf(x))                                             \
    EMU_HALF_UNARY(half, pair, hrsqrt, h2rsqrt, to, from, 1.0f / sqrtf(x))                                    \
    EMU_HALF_UNARY(half, pair, hrcp, h2rcp, to, from, 1.0f / x)                                               \
    EMU_HALF_UNARY(half, pair, hsin, h2sin, to, from, sinf(x))                                                \
    EMU_HALF_UNARY(half, pair, hcos, h2cos, to, from, cosf(x))
#define EMU_HALF_UNARY(half, pair, name, name2, to, from, expression) \
    inline half name(half value)                                      \
    {                                                                 \
        float x = to(value);                                          \
        return from(expression);                                      \
    }                                                                 \
    EMU_FUNCTION(pair, name2, (pair a), pair(name(a.x), name(a.y)))
EMU_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16)
EMU_HALF_FUNCTIONS(__half, __half2, __half2float, __float2half)
#undef EMU_HALF_FUNCTIONS
#undef EMU_HALF_UNARY
#undef EMU_FUNCTION

#endif
