/* Private. Conversions of the 16-bit floats: round to nearest even, NaN stays NaN. Plain integer code, so that every
 * machine gives the same bits. */
#ifndef SPMD_HALF_H
#define SPMD_HALF_H

#include <stdint.h>
#include <string.h>

static inline float spmd__bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t spmd__f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float spmd__bf16_to_f32(uint16_t h)
{
    return spmd__bits_f32((uint32_t)h << 16);
}

static inline uint16_t spmd__f32_to_bf16(float f)
{
    uint32_t u = spmd__f32_bits(f), rounded = u + 0x7fff + (u >> 16 & 1);
    return (uint16_t)((f != f ? u | 0x400000 : rounded) >> 16);
}

static inline float spmd__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31)
        return spmd__bits_f32(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact in f32 */
        float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    return spmd__bits_f32(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t spmd__f32_to_f16(float f)
{
    uint32_t u = spmd__f32_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* rounds past the largest finite value */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* subnormal: adding 0.5 lets the FPU round to a multiple of 2^-24 */
        float shifted = spmd__bits_f32(magnitude) + 0.5f;
        return (uint16_t)(sign | (spmd__f32_bits(shifted) - 0x3f000000));
    }
    magnitude += 0xc8000fff + (magnitude >> 13 & 1); /* rebias by -112 and round to nearest even */
    return (uint16_t)(sign | magnitude >> 13);
}

#endif
