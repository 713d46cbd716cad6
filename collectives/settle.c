/* settle, settle_list: what a sum over shards is called in a source that serves both modes. */
#include "collectives/coll.h"

spmd_status(spmd_settle_list)(spmd_ctx *ctx, const spmd_tensor *in, int n, const char *text, spmd_tensor *out)
{
    spmd_axes axes;
    if (!spmd__is_automatic(ctx))
        return (spmd_psum_list)(ctx, in, n, text, out);
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), text, &axes));
    for (int k = 0; k < n; k++)
        out[k] = in[k];
    return SPMD_OK;
}

spmd_status(spmd_settle)(spmd_ctx *ctx, const spmd_tensor *in, const char *text, spmd_tensor *out)
{
    return (spmd_settle_list)(ctx, in, 1, text, out);
}
