/* Private. Reductions and exp along one row of floats. Sums run in 16 lanes, element i in lane i % 16, and the lanes
 * are added in order: a fixed order that also vectorizes. NaN: a sum has it, the maximum ignores it. */
#ifndef KERNELS_ROW_MATH_H
#define KERNELS_ROW_MATH_H

#include <stdint.h>

float spmd__row_max(const float *x, int64_t n); /* -inf for none */
float spmd__row_sum(const float *x, int64_t n);
float spmd__row_dot(const float *a, const float *b, int64_t n);
void spmd__row_exp(float *x, float shift, int64_t n); /* in place: e^(x - shift) */
/* The same for rows one after the other, each with its shift. Short rows are one run for vector code. */
void spmd__rows_exp(const float *x, const float *shift, int64_t n, int64_t rows, float *to);
void spmd__row_scale(float *x, float factor, int64_t n); /* in place */

#endif
