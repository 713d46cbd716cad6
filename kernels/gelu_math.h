/* Private. exp and gelu with its derivative, as straight-line float code that compilers turn into vector code.
 *
 * libm's expf is a call and a branch per element. Both functions here rest on 2^t = 2^n * 2^f, n the nearest integer,
 * |f| <= 1/2, 2^f a polynomial (degree 6, 2e-9 relative before rounding). There are no branches, only selects, so a
 * loop over them vectorizes without -ffast-math (which would delete the rounding constant below, silently). */
#ifndef KERNELS_GELU_MATH_H
#define KERNELS_GELU_MATH_H

#include "spmd/half.h"

/* Adding 1.5 * 2^23 rounds to the nearest integer n and leaves 0x4b400000 + n as the sum's bits. */
#define SPMD__ROUND 12582912.0f
#define SPMD__ROUND_BITS 0x4b400000u

static inline float spmd__exp2_fraction(float f)
{
    float p = 0.000153533615f;
    p = p * f + 0.00133988744f;
    p = p * f + 0.00961843736f;
    p = p * f + 0.0555033247f;
    p = p * f + 0.240226479f;
    p = p * f + 0.693147203f;
    return p * f + 1.0f;
}

/* e^x: relative error 2e-7, subnormal results too; NaN stays NaN, overflow is inf, underflow 0. */
static inline float spmd__exp_f32(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -105.0f ? -105.0f : c;
    float r = c * 1.44269504f + SPMD__ROUND, n = r - SPMD__ROUND;
    float f = (c - n * 0.693145752f - n * 1.42860677e-6f) *
              1.44269504f; /* ln 2 in two parts: the first product is exact */
    /* 2^n in two factors, since n = -152 .. 128 is more than one exponent holds. */
    uint32_t m = spmd__f32_bits(r) - SPMD__ROUND_BITS + 256, half = m >> 1;
    return spmd__exp2_fraction(f) * spmd__bits_f32((half - 1) << 23) * spmd__bits_f32((m - half - 1) << 23);
}

/* y = gelu(x), tanh form: x s with s = 1 / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3); and its derivative
 * s + x s (1 - s) 2u'. One exp and one division for both. x is clamped, not u: else the derivative at 1e30 is 0 * inf.
 * Absolute errors 6e-7 and 2e-7; below -10 both are nearly 0 (1e-35), -inf too; NaN stays NaN. */
static inline void spmd__gelu2(float x, float *y, float *dydx)
{
    float low = x < -10.0f ? -10.0f : x;
    float c = low > 10.0f ? 10.0f : low;
    float x2 = c * c;
    float t = c * (-2.30220819f - 0.102943239f * x2); /* -2u / ln 2 */
    float r = t + SPMD__ROUND, f = t - (r - SPMD__ROUND);
    float e = spmd__exp2_fraction(f) * spmd__bits_f32((spmd__f32_bits(r) - SPMD__ROUND_BITS + 127) << 23);
    float s = 1.0f / (1.0f + e);
    *y = low * s;
    *dydx = s + c * s * (e * s) * (1.59576912f + 0.214064449f * x2);
}

#endif
