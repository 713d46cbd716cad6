/* Private: the small float types of cuBLAS and NCCL, converted by hand (clang 14 has no _Float16 on x86-64). */
#ifndef EMU_FLOAT_H
#define EMU_FLOAT_H
#include <stdint.h>
#include <string.h>

static inline float emu_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t emu_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float emu_from_bf16(uint16_t half)
{
    return emu_from_bits((uint32_t)half << 16);
}

/* Rounds to nearest even; every NaN becomes 0x7fff, as cuda_bf16.h does. */
static inline uint16_t emu_to_bf16(float value)
{
    uint32_t bits = emu_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float emu_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity or NaN */
        return emu_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u)
        return emu_from_bits(sign | ((rest << 13) + 0x38000000u));
    float tiny = (float)rest * 0x1p-24f; /* subnormal */
    return emu_from_bits(sign | emu_to_bits(tiny));
}

/* Rounds to nearest even; every NaN becomes 0x7fff, as cuda_fp16.h does. */
static inline uint16_t emu_to_f16(float value)
{
    uint32_t bits = emu_to_bits(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return 0x7fff;
    if (bits >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) { /* subnormal: adding 0.5 leaves multiples of 2^-24 in the lowest bits, rounded */
        float shifted = emu_from_bits(bits) + 0.5f;
        return (uint16_t)(sign | (emu_to_bits(shifted) - 0x3f000000u));
    }
    bits += 0xfffu + (bits >> 13 & 1u);
    return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

/* TF32 keeps 10 bits of the mantissa. */
static inline float emu_to_tf32(float value)
{
    uint32_t bits = emu_to_bits(value);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return value;
    return emu_from_bits((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}
#endif
