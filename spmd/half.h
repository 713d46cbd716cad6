/* Private. Conversions of the 16-bit floats: round to nearest even, NaN stays NaN. Plain integer code, so that every
 * machine gives the same bits, and without branches, so that loops of it become vector code. */
#ifndef SPMD_HALF_H
#define SPMD_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define SPMD_HALF_FUNCTION static inline __host__ __device__
#else
#define SPMD_HALF_FUNCTION static inline
#endif

SPMD_HALF_FUNCTION float spmd__bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

SPMD_HALF_FUNCTION uint32_t spmd__f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Between f32 and the low 16 bits of a word, the form for loops over pairs; then between f32 and one element. */
SPMD_HALF_FUNCTION float spmd__bf16_widen(uint32_t h)
{
    return spmd__bits_f32(h << 16);
}

SPMD_HALF_FUNCTION uint32_t spmd__bf16_narrow(float f)
{
    uint32_t u = spmd__f32_bits(f), rounded = u + 0x7fff + (u >> 16 & 1);
    return ((u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : rounded) >> 16;
}

SPMD_HALF_FUNCTION float spmd__f16_widen(uint32_t h)
{
    uint32_t magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
    uint32_t subnormal = spmd__f32_bits((float)(int32_t)magnitude * 0x1p-24f); /* and zero; exact in f32 */
    uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? 224u << 23 : 112u << 23);
    return spmd__bits_f32(sign | (magnitude < 0x400 ? subnormal : normal));
}

SPMD_HALF_FUNCTION uint32_t spmd__f16_narrow(float f)
{
    uint32_t u = spmd__f32_bits(f), magnitude = u & 0x7fffffff;
    uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    uint32_t normal = (magnitude + 0xc8000fff + (magnitude >> 13 & 1)) >> 13; /* rebias by -112, round to even */
    /* Subnormal: adding 0.5 lets the FPU round to a multiple of 2^-24. */
    uint32_t subnormal = spmd__f32_bits(spmd__bits_f32(magnitude) + 0.5f) - 0x3f000000;
    uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    uint32_t large = magnitude > 0x7f800000 ? nan : 0x7c00;
    return (u >> 16 & 0x8000) | (magnitude >= 0x477ff000 ? large : finite);
}

SPMD_HALF_FUNCTION float spmd__bf16_to_f32(uint16_t h)
{
    return spmd__bf16_widen(h);
}

SPMD_HALF_FUNCTION uint16_t spmd__f32_to_bf16(float f)
{
    return (uint16_t)spmd__bf16_narrow(f);
}

SPMD_HALF_FUNCTION float spmd__f16_to_f32(uint16_t h)
{
    return spmd__f16_widen(h);
}

SPMD_HALF_FUNCTION uint16_t spmd__f32_to_f16(float f)
{
    return (uint16_t)spmd__f16_narrow(f);
}

#endif
