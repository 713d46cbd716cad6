/* pmean_weighted: the mean over shards that do not count the same. Declared with the collectives, made of ops, so that
 * its gradients are theirs. */
#include "collectives/collectives.h"
#include "kernels/kernels.h"
#include "spmd/linear.h"

static spmd_status to_f32(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    if (in->dtype != SPMD_F32)
        return spmd_cast(ctx, in, SPMD_F32, out);
    *out = *in;
    return SPMD_OK;
}

spmd_status(spmd_pmean_weighted)(spmd_ctx *ctx, const spmd_tensor *in, int n, const spmd_tensor *weight,
                                 const char *text, spmd_tensor *out)
{
    char type[96];
    spmd_axes axes;
    SPMD_CHECK(n >= 0, SPMD_EINVAL, "pmean_weighted of a list of %d tensors; expected 0 or more", n);
    SPMD_CHECK(weight->rank == 0, SPMD_ESHAPE,
               "pmean_weighted: the weight is %s; expected a scalar, one number a shard",
               spmd__shape_text(weight, type));
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &axes));
    spmd_tensor *list = spmd__scratch(ctx, ((size_t)n + 1) * sizeof *list), *total = &list[n];
    if (!list)
        return SPMD_ENOMEM;
    SPMD_TRY(to_f32(ctx, weight, total));
    SPMD_TRY(spmd__linear_pcast(ctx, total, axes.mask, total)); /* equal weights are nothing to be warned of */
    for (int k = 0; k < n; k++) {
        SPMD_TRY(to_f32(ctx, &in[k], &list[k]));
        SPMD_TRY(spmd_mul(ctx, &list[k], total, &list[k]));
    }
    if (axes.mask && !spmd__is_automatic(ctx)) /* there, a value is the same everywhere: the weight cancels */
        SPMD_TRY(spmd__linear_psum(ctx, list, n + 1, axes.mask, list));
    for (int k = 0; k < n; k++) {
        spmd_dtype dtype = spmd_dtype_is_float(in[k].dtype) ? in[k].dtype : SPMD_F32;
        SPMD_TRY(spmd_div(ctx, &list[k], total, &out[k]));
        if (dtype != SPMD_F32)
            SPMD_TRY(spmd_cast(ctx, &out[k], dtype, &out[k]));
    }
    return SPMD_OK;
}
