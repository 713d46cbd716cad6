/* How far two numbers, or two arrays, are apart. NaN is the largest difference of all: it must not vanish in a maximum,
 * as it does in fmax. */
#include "cli/cli.h"
#include <math.h>
#include <stdlib.h>

double cli_larger(double a, double b)
{
    return a >= b || isnan(a) ? a : b;
}

double cli_relative(double a, double b)
{
    double size = cli_larger(fabs(a), fabs(b));
    return size == 0 ? 0 : fabs(a - b) / size;
}

spmd_status cli_compare_arrays(const spmd_array *a, const spmd_array *b, double *difference, double *size)
{
    size_t n = (size_t)spmd_array_count(a);
    float *x = malloc(2 * n * sizeof *x), *y = x + n;
    SPMD_CHECK(x, SPMD_ENOMEM, "out of memory for %zu elements", 2 * n);
    spmd_status status = spmd_unshard(a, x);
    if (status == SPMD_OK)
        status = spmd_unshard(b, y);
    *difference = *size = 0;
    for (size_t i = 0; status == SPMD_OK && i < n; i++) {
        *difference = cli_larger(*difference, fabs((double)x[i] - (double)y[i]));
        *size = cli_larger(*size, fabs((double)x[i]));
    }
    free(x);
    return status;
}
