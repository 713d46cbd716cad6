/* Data and tensor parallel at once, on a mesh of two axes: rows are cut over "data", the block over "model".
 *
 * Look at: each axis is dealt with on its own, and neither knows of the other. Over "model" the loss function sums, as
 * in 06_tensor_parallel.c; over "data" gradients of the local losses are averaged, as in 01_data_parallel.c, each
 * device its own part of a cut weight with those that hold the same part. */
#include "examples/two_layers.h"

static spmd_status local_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const two_layers_batch *b = user;
    spmd_tensor h;
    SPMD_TRY(spmd_linear_gelu(ctx, b->x, &p[W1], &p[B1], &h)); /* [rows / data, hidden / model] */
    SPMD_TRY(spmd_matmul(ctx, &h, &p[W2], false, false, &h));
    SPMD_TRY(spmd_psum(ctx, &h, "model", &h));
    SPMD_TRY(spmd_add(ctx, &h, &p[B2], &h));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &h, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss); /* differs over "data", not over "model" */
}

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    two_layers_batch batch = {&in[3 * PARAMS], &in[3 * PARAMS + 1]};
    spmd_tensor mean[PARAMS + 1]; /* the gradients and the loss */
    SPMD_TRY(spmd_value_and_grad(ctx, local_loss, &batch, in, PARAMS, &mean[PARAMS], mean));
    SPMD_TRY(spmd_pmean_list(ctx, mean, PARAMS + 1, "data", mean));
    out[3 * PARAMS] = mean[PARAMS];
    return two_layers_update(ctx, 3, in, mean, out);
}

int main(void)
{
    const char *const cut[] = {[W1] = "-,model", [B1] = "model", [W2] = "model,-", [B2] = ""};
    two_layers l = {.name = "data and tensor parallel", .axes = "data=2,model=2", .lists = 3, .by_hand = step};
    l.rows = "data";
    for (int list = 0; list < 3; list++)
        memcpy(l.spec[list], cut, sizeof cut);
    return two_layers_compare(&l);
}
