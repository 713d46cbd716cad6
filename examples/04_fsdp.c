/* Fully sharded data parallel (FSDP, ZeRO-3): every device keeps a part of each parameter and of the optimizer's state,
 * and of the batch.
 *
 * Look at: a parameter is gathered inside the loss function, where it is used. The transpose of all_gather is
 * psum_scatter, so its gradient comes back in parts, already summed over the devices: nobody ever holds a whole one.
 * That sum is of the devices' LOCAL mean losses; spmd_mean_grads makes it the gradient of their mean. In automatic mode
 * the specs say "cut over data", and gathers and scatters follow. */
#include "examples/two_layers.h"

static spmd_status local_loss(spmd_ctx *ctx, const spmd_tensor *parts, int n, void *user, spmd_tensor *loss)
{
    const spmd_gather_opts along_0 = {.tiled = true};
    spmd_tensor whole[PARAMS];
    for (int k = 0; k < n; k++)
        SPMD_TRY(
            spmd_all_gather(ctx, &parts[k], "data", &along_0, &whole[k])); /* a program makes them in one meeting */
    return two_layers_loss(ctx, whole, n, user, loss);
}

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    two_layers_batch batch = {&in[3 * PARAMS], &in[3 * PARAMS + 1]};
    spmd_tensor grads[PARAMS], *loss = &out[3 * PARAMS];
    SPMD_TRY(spmd_value_and_grad(ctx, local_loss, &batch, in, PARAMS, loss, grads));
    SPMD_TRY(spmd_mean_grads(ctx, in, grads, PARAMS, "data")); /* the parameters vary: times 1/N, no call */
    SPMD_TRY(spmd_pmean(ctx, loss, "data", loss));
    return two_layers_update(ctx, 3, in, grads, out); /* every device its own part */
}

int main(void)
{
    const char *const cut[] = {"data", "data", "data", "data"}; /* dimension 0 of every parameter */
    two_layers l = {.name = "FSDP", .axes = "data=4", .lists = 3, .rows = "data", .by_hand = step};
    for (int list = 0; list < 3; list++)
        memcpy(l.spec[list], cut, sizeof cut);
    return two_layers_compare(&l);
}
