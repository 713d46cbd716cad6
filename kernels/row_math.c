#include "kernels/row_math.h"
#include "spmd/clones.h"
#include "kernels/gelu_math.h"
#include <math.h>

enum { LANES = 16 };

static float sum_lanes(const float lane[LANES])
{
    float sum = 0.0f;
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

SPMD_CLONES float spmd__row_max(const float *x, int64_t n)
{
    float lane[LANES], max = -INFINITY;
    int64_t i = 0;
    if (n < LANES) {
        for (; i < n; i++)
            max = x[i] > max ? x[i] : max;
        return max;
    }
    for (int l = 0; l < LANES; l++)
        lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int l = 0; l < LANES; l++)
        max = lane[l] > max ? lane[l] : max;
    return max;
}

SPMD_CLONES float spmd__row_sum(const float *x, int64_t n)
{
    float lane[LANES] = {0}, sum = 0.0f;
    int64_t i = 0;
    if (n <= LANES) { /* one element a lane: the same sum */
        for (; i < n; i++)
            sum += x[i];
        return sum;
    }
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i];
    return sum_lanes(lane);
}

SPMD_CLONES float spmd__row_dot(const float *a, const float *b, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += a[i] * b[i];
    return sum_lanes(lane);
}

SPMD_CLONES void spmd__row_exp(float *x, float shift, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = spmd__exp_f32(x[i] - shift);
}

SPMD_CLONES void spmd__rows_exp(const float *restrict x, const float *restrict shift, int64_t n, int64_t rows,
                                float *restrict to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            to[r * n + i] = x[r * n + i] - shift[r];
    for (int64_t i = 0; i < rows * n; i++)
        to[i] = spmd__exp_f32(to[i]);
}

SPMD_CLONES void spmd__row_scale(float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}
