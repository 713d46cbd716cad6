/* The averaging recipe that is right for every kind of parameter. */
#include "collectives/collectives.h"
#include "kernels/kernels.h"
#include "spmd/linear.h"

/* Sums the gradients of all parameters that want this set of axes in one meeting, and divides. */
static spmd_status mean_over(spmd_ctx *ctx, const spmd_tensor *params, spmd_tensor *grads, int n, unsigned axes,
                             unsigned mask)
{
    int m = 0;
    spmd_tensor *list = spmd__scratch(ctx, (size_t)n * sizeof *list + 1);
    if (!list)
        return SPMD_ENOMEM;
    for (int k = 0; k < n; k++)
        if ((axes & ~(unsigned)params[k].vary) == mask)
            list[m++] = grads[k];
    if (m && mask)
        SPMD_TRY(spmd__linear_psum(ctx, list, m, mask, list));
    m = 0;
    double factor = 1.0 / spmd__mask_size(spmd_ctx_mesh(ctx), axes);
    for (int k = 0; k < n; k++)
        if ((axes & ~(unsigned)params[k].vary) == mask)
            SPMD_TRY(spmd_scale(ctx, &list[m++], factor, &grads[k]));
    return SPMD_OK;
}

spmd_status spmd_mean_grads(spmd_ctx *ctx, const spmd_tensor *params, spmd_tensor *grads, int n, const char *axes)
{
    SPMD_CHECK(n >= 0 && (n == 0 || (params && grads)), SPMD_EINVAL, "mean_grads: %d gradients, params or grads NULL",
               n);
    spmd_axes over;
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), axes, &over));
    if (spmd__is_automatic(ctx)) /* they are the gradients of the one global loss already */
        return SPMD_OK;
    for (unsigned mask = 0; mask <= over.mask; mask++)
        if ((mask & ~(unsigned)over.mask) == 0)
            SPMD_TRY(mean_over(ctx, params, grads, n, over.mask, mask));
    return SPMD_OK;
}
