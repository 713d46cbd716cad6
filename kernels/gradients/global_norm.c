/* The norm of a whole list of tensors, whatever mix of sharded and replicated they are. */
#include "kernels/gradients/sum_squares.h"
#include "kernels/kernels.h"
#include "spmd/linear.h"

/* One sum of squares for every distinct set of axes, then one psum over it: in automatic mode it is made when it is
 * needed. */
static spmd_status add_squares(spmd_ctx *ctx, const spmd_tensor *tensors, int n, unsigned spread, spmd_tensor *total)
{
    spmd_tensor sum = {0}, squares;
    for (int k = 0; k < n; k++) {
        if (spmd__spread(ctx, &tensors[k]) != spread)
            continue;
        SPMD_TRY(spmd__sum_squares(ctx, &tensors[k], &squares));
        if (sum.id)
            SPMD_TRY(spmd_add(ctx, &sum, &squares, &sum));
        else
            sum = squares;
    }
    if (!sum.id)
        return SPMD_OK;
    if (spread && !spmd__is_automatic(ctx))
        SPMD_TRY(spmd__linear_psum(ctx, &sum, 1, spread, &sum));
    if (total->id)
        return spmd_add(ctx, total, &sum, total);
    *total = sum;
    return SPMD_OK;
}

spmd_status spmd_global_norm(spmd_ctx *ctx, const spmd_tensor *tensors, int n, spmd_tensor *out)
{
    SPMD_CHECK(n >= 0 && (n == 0 || tensors), SPMD_EINVAL, "global_norm: %d tensors at NULL", n);
    spmd_tensor total = {0};
    for (unsigned spread = 0; spread < 1u << spmd_mesh_axes(spmd_ctx_mesh(ctx)); spread++)
        SPMD_TRY(add_squares(ctx, tensors, n, spread, &total));
    if (!total.id)
        return spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, out);
    return spmd_sqrt(ctx, &total, out);
}
