/* Optimizer state in parts (ZeRO-1): parameters are whole on every device, the optimizer's copy of them and its two
 * moments are cut over "data".
 *
 * Look at: gradients are local, as in 01_data_parallel.c, but instead of a pmean each is summed and cut in one go
 * (psum_scatter): a device gets only the part that it updates. After the update all_gather brings the new parameters
 * together, to INVARYING: all devices then hold the same, so that the step may return them as replicated. The same
 * bytes as a pmean, which is psum_scatter and all_gather in one; the optimizer's work and memory are divided by N.
 * In automatic mode the specs of the lists say all that. */
#include "examples/two_layers.h"

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    two_layers_batch batch = {&in[4 * PARAMS], &in[4 * PARAMS + 1]};
    const spmd_scatter_opts cut_0 = {.tiled = true};
    const spmd_gather_opts along_0 = {.tiled = true, .to = SPMD_TO_INVARYING};
    spmd_tensor grads[PARAMS], *loss = &out[4 * PARAMS], *own = &out[PARAMS];
    int devices;
    SPMD_TRY(spmd_axis_size(ctx, "data", &devices));
    SPMD_TRY(spmd_value_and_grad(ctx, two_layers_loss, &batch, in, PARAMS, loss, grads)); /* local */
    for (int k = 0; k < PARAMS; k++) {
        SPMD_TRY(spmd_psum_scatter(ctx, &grads[k], "data", &cut_0, &grads[k]));
        SPMD_TRY(spmd_scale(ctx, &grads[k], 1.0 / devices, &grads[k]));
    }
    SPMD_TRY(two_layers_update(ctx, 4, in, grads, out));
    for (int k = 0; k < PARAMS; k++)
        SPMD_TRY(spmd_all_gather(ctx, &own[k], "data", &along_0, &out[k]));
    return spmd_pmean(ctx, loss, "data", loss);
}

int main(void)
{
    const char *const whole[] = {"", "", "", ""}, *const cut[] = {"data", "data", "data", "data"};
    two_layers l = {.name = "ZeRO-1", .axes = "data=4", .lists = 4, .rows = "data", .by_hand = step};
    for (int list = 0; list < 4; list++)
        memcpy(l.spec[list], list ? cut : whole, sizeof cut);
    return two_layers_compare(&l);
}
