/* The gradient transforms, made of public ops; each is a function and the constructor that names it. Written as a user
 * would write one: spmd_transform is public. */
#include "models/optim.h"
#include "kernels/kernels.h"
#include "spmd/grad.h"

/* a * x + b * y for constants a and b. */
static spmd_status blend(spmd_ctx *ctx, double a, const spmd_tensor *x, double b, const spmd_tensor *y,
                         spmd_tensor *out)
{
    spmd_tensor ax, by;
    SPMD_TRY(spmd_scale(ctx, x, a, &ax));
    SPMD_TRY(spmd_scale(ctx, y, b, &by));
    return spmd_add(ctx, &ax, &by, out);
}

static spmd_optim one(spmd_transform transform)
{
    return (spmd_optim){.transforms = 1, .transform = {transform}};
}

/* optax.trace: t = g + decay t; the update is t, or g + decay t with Nesterov. */
static spmd_status trace_update(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    double decay = transform->constant[0];
    bool nesterov = transform->constant[1] != 0;
    for (int k = 0; k < step->n; k++) {
        spmd_tensor *update = &step->new_params[k];
        SPMD_TRY(blend(ctx, 1, update, decay, &step->state[k], &step->new_state[k]));
        if (nesterov)
            SPMD_TRY(blend(ctx, 1, update, decay, &step->new_state[k], update));
        else
            *update = step->new_state[k];
    }
    return SPMD_OK;
}

spmd_optim spmd_optim_sgd(double momentum, bool nesterov)
{
    if (momentum == 0)
        return (spmd_optim){.transforms = 0};
    return one((spmd_transform){.name = "trace",
                                .slots = 1,
                                .slot_name = {"trace"},
                                .constant = {momentum, nesterov ? 1 : 0},
                                .update = trace_update});
}

/* The fused op over all parameters: one pass over memory. */
static spmd_status adamw_update(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    const double *c = transform->constant;
    const spmd_adamw_opts opts = {.b1 = c[0], .b2 = c[1], .epsilon = c[2], .weight_decay = c[3]};
    int n = step->n;
    return spmd_adamw(ctx, &opts, n, step->params, step->new_params, step->state, step->state + n, step->rate,
                      step->count, step->new_params, step->new_state, step->new_state + n);
}

spmd_optim spmd_optim_adamw(double b1, double b2, double epsilon, double weight_decay)
{
    return one((spmd_transform){.name = "adamw",
                                .slots = 2,
                                .slot_name = {"mu", "nu"},
                                .makes_params = true,
                                .constant = {b1, b2, epsilon, weight_decay},
                                .update = adamw_update});
}

spmd_optim spmd_optim_adam(double b1, double b2, double epsilon)
{
    return spmd_optim_adamw(b1, b2, epsilon, 0);
}

/* optax.scale_by_adam is the fused op's step from parameter 0 at rate -1: the same bits as adamw's own update. */
static spmd_status scale_by_adam(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    const double *c = transform->constant;
    const spmd_adamw_opts opts = {.b1 = c[0], .b2 = c[1], .epsilon = c[2]};
    int n = step->n;
    spmd_tensor rate;
    SPMD_TRY(spmd_full(ctx, -1, SPMD_F32, SPMD_SCALAR, &rate));
    for (int k = 0; k < n; k++) {
        spmd_tensor *update = &step->new_params[k], zero;
        SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, update->rank, update->shape, &zero));
        SPMD_TRY(spmd_adamw(ctx, &opts, 1, &zero, update, &step->state[k], &step->state[n + k], &rate, step->count,
                            update, &step->new_state[k], &step->new_state[n + k]));
    }
    return SPMD_OK;
}

static spmd_status add_decayed_weights(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    for (int k = 0; k < step->n; k++)
        SPMD_TRY(blend(ctx, 1, &step->new_params[k], transform->constant[0], &step->params[k], &step->new_params[k]));
    return SPMD_OK;
}

/* optax.scale_by_trust_ratio: every tensor's update times |parameter| / |update|; as it is where either norm is 0. The
 * norms are those of the global tensors. */
static spmd_status scale_by_trust_ratio(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    (void)transform;
    spmd_tensor zero, same, norm, update_norm, is_zero, ratio;
    SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, &zero));
    SPMD_TRY(spmd_full(ctx, 1, SPMD_F32, SPMD_SCALAR, &same));
    for (int k = 0; k < step->n; k++) {
        spmd_tensor *update = &step->new_params[k];
        SPMD_TRY(spmd_global_norm(ctx, &step->params[k], 1, &norm));
        SPMD_TRY(spmd_global_norm(ctx, update, 1, &update_norm));
        SPMD_TRY(spmd_div(ctx, &norm, &update_norm, &ratio));
        SPMD_TRY(spmd_equal(ctx, &norm, &zero, &is_zero));
        SPMD_TRY(spmd_where(ctx, &is_zero, &same, &ratio, &ratio));
        SPMD_TRY(spmd_equal(ctx, &update_norm, &zero, &is_zero));
        SPMD_TRY(spmd_where(ctx, &is_zero, &same, &ratio, &ratio));
        SPMD_TRY(spmd_mul(ctx, update, &ratio, update));
    }
    return SPMD_OK;
}

static spmd_optim decayed_weights(double weight_decay)
{
    if (weight_decay == 0)
        return (spmd_optim){.transforms = 0};
    return one(
        (spmd_transform){.name = "add_decayed_weights", .constant = {weight_decay}, .update = add_decayed_weights});
}

spmd_optim spmd_optim_lamb(double b1, double b2, double epsilon, double weight_decay)
{
    spmd_optim adam = one((spmd_transform){.name = "scale_by_adam",
                                           .slots = 2,
                                           .slot_name = {"mu", "nu"},
                                           .constant = {b1, b2, epsilon},
                                           .update = scale_by_adam});
    spmd_optim trust = one((spmd_transform){.name = "scale_by_trust_ratio", .update = scale_by_trust_ratio});
    return spmd_optim_chain(spmd_optim_chain(adam, decayed_weights(weight_decay)), trust);
}

/* optax.scale_by_lion: the sign of a blend of gradient and memory; x / |x| keeps NaN a NaN. */
static spmd_status scale_by_lion(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    double b1 = transform->constant[0], b2 = transform->constant[1];
    spmd_tensor zero, x, size, is_zero, sign;
    SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, &zero));
    for (int k = 0; k < step->n; k++) {
        spmd_tensor *update = &step->new_params[k];
        SPMD_TRY(blend(ctx, 1 - b1, update, b1, &step->state[k], &x));
        SPMD_TRY(blend(ctx, 1 - b2, update, b2, &step->state[k], &step->new_state[k]));
        SPMD_TRY(spmd_neg(ctx, &x, &size));
        SPMD_TRY(spmd_maximum(ctx, &x, &size, &size));
        SPMD_TRY(spmd_div(ctx, &x, &size, &sign));
        SPMD_TRY(spmd_equal(ctx, &x, &zero, &is_zero));
        SPMD_TRY(spmd_where(ctx, &is_zero, &zero, &sign, update));
    }
    return SPMD_OK;
}

spmd_optim spmd_optim_lion(double b1, double b2, double weight_decay)
{
    spmd_optim lion = one((spmd_transform){
        .name = "scale_by_lion", .slots = 1, .slot_name = {"mu"}, .constant = {b1, b2}, .update = scale_by_lion});
    return spmd_optim_chain(lion, decayed_weights(weight_decay));
}

/* optax.scale_by_rms: the gradient over the root of its running mean square. */
static spmd_status scale_by_rms(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    double decay = transform->constant[0];
    spmd_tensor epsilon, square, root;
    SPMD_TRY(spmd_full(ctx, transform->constant[1], SPMD_F32, SPMD_SCALAR, &epsilon));
    for (int k = 0; k < step->n; k++) {
        spmd_tensor *update = &step->new_params[k];
        SPMD_TRY(spmd_square(ctx, update, &square));
        SPMD_TRY(blend(ctx, 1 - decay, &square, decay, &step->state[k], &step->new_state[k]));
        SPMD_TRY(spmd_add(ctx, &step->new_state[k], &epsilon, &root));
        SPMD_TRY(spmd_sqrt(ctx, &root, &root));
        SPMD_TRY(spmd_div(ctx, update, &root, update));
    }
    return SPMD_OK;
}

spmd_optim spmd_optim_rmsprop(double decay, double epsilon)
{
    return one((spmd_transform){
        .name = "scale_by_rms", .slots = 1, .slot_name = {"nu"}, .constant = {decay, epsilon}, .update = scale_by_rms});
}

/* max / maximum(norm, max) is 1 below the limit, and NaN stays NaN. */
static spmd_status clip(spmd_ctx *ctx, const spmd_transform *transform, const spmd_optim_step *step)
{
    spmd_tensor limit, norm, factor;
    SPMD_TRY(spmd_full(ctx, transform->constant[0], SPMD_F32, SPMD_SCALAR, &limit));
    SPMD_TRY(spmd_global_norm(ctx, step->new_params, step->n, &norm));
    SPMD_TRY(spmd_maximum(ctx, &norm, &limit, &norm));
    SPMD_TRY(spmd_div(ctx, &limit, &norm, &factor));
    for (int k = 0; k < step->n; k++)
        SPMD_TRY(spmd_mul(ctx, &step->new_params[k], &factor, &step->new_params[k]));
    return SPMD_OK;
}

spmd_optim spmd_optim_clip_by_global_norm(double max_norm)
{
    return one((spmd_transform){.name = "clip_by_global_norm", .constant = {max_norm}, .update = clip});
}
