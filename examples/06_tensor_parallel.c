/* Tensor parallel, as Megatron cuts a block: the first weight by columns, the second by rows, the batch not at all.
 *
 * Look at: each device computes its own columns of the hidden layer, from all of x, with no communication; its rows of
 * the second weight then give a summand of the result, and ONE psum a block makes the whole. The loss is the same on
 * all devices, and so every gradient is complete: those of cut weights in parts, those of whole ones whole. In
 * automatic mode the weights' specs lead to the same cut, and the sum is made where it is needed. */
#include "examples/two_layers.h"

static spmd_status loss_fn(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const two_layers_batch *b = user;
    spmd_tensor h;
    SPMD_TRY(spmd_linear_gelu(ctx, b->x, &p[W1], &p[B1], &h)); /* [rows, hidden / devices] */
    SPMD_TRY(spmd_matmul(ctx, &h, &p[W2], false, false, &h));  /* a summand of [rows, classes] */
    SPMD_TRY(spmd_psum(ctx, &h, "model", &h));
    SPMD_TRY(spmd_add(ctx, &h, &p[B2], &h)); /* after the sum, or it would be added once a device */
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &h, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    two_layers_batch batch = {&in[3 * PARAMS], &in[3 * PARAMS + 1]};
    spmd_tensor grads[PARAMS];
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &batch, in, PARAMS, &out[3 * PARAMS], grads));
    return two_layers_update(ctx, 3, in, grads, out);
}

int main(void)
{
    const char *const cut[] = {[W1] = "-,model", [B1] = "model", [W2] = "model,-", [B2] = ""};
    two_layers l = {.name = "tensor parallel", .axes = "model=4", .lists = 3, .rows = "", .by_hand = step};
    for (int list = 0; list < 3; list++)
        memcpy(l.spec[list], cut, sizeof cut);
    return two_layers_compare(&l);
}
