/* Chains of gradient transforms: their state and one step. The updates travel through the chain in the array that ends
 * up as the new parameters, so a step needs no memory of its own. */
#include "models/optim.h"
#include "kernels/kernels.h"
#include <string.h>

spmd_optim spmd_optim_chain(spmd_optim first, spmd_optim second)
{
    if (first.transforms < 0 || second.transforms < 0 || first.transforms + second.transforms > SPMD_MAX_TRANSFORMS)
        return (spmd_optim){.transforms = -1};
    for (int k = 0; k < second.transforms; k++)
        first.transform[first.transforms++] = second.transform[k];
    return first;
}

spmd_status spmd_optim_find(const char *name, spmd_optim *out, double *rate)
{
    const struct {
        const char *name;
        double rate;
        spmd_optim optim;
    } known[] = {
        {"sgd", 0.1, spmd_optim_sgd(0, false)},
        {"momentum", 0.05, spmd_optim_sgd(0.9, false)},
        {"nesterov", 0.05, spmd_optim_sgd(0.9, true)},
        {"adam", 3e-3, spmd_optim_adam(0.9, 0.999, 1e-8)},
        {"adamw", 3e-3, spmd_optim_adamw(0.9, 0.999, 1e-8, 1e-4)},
        {"lion", 3e-4, spmd_optim_lion(0.9, 0.99, 1e-3)},
        {"rmsprop", 1e-3, spmd_optim_rmsprop(0.9, 1e-8)},
        {"lamb", 1e-2, spmd_optim_lamb(0.9, 0.999, 1e-6, 0)},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strcmp(name, known[k].name) == 0) {
            *out = known[k].optim;
            if (rate)
                *rate = known[k].rate;
            return SPMD_OK;
        }
    return SPMD_FAIL(SPMD_EINVAL, "no optimizer '%s': use sgd, momentum, nesterov, adam, adamw, lion, rmsprop or lamb",
                     name);
}

static spmd_status check_chain(const spmd_optim *optim)
{
    SPMD_CHECK(optim->transforms >= 0, SPMD_EINVAL, "the optimizer's chain is longer than %d transforms",
               SPMD_MAX_TRANSFORMS);
    for (int k = 0; k < optim->transforms - 1; k++)
        SPMD_CHECK(!optim->transform[k].makes_params, SPMD_EINVAL,
                   "'%s' makes the new parameters: nothing can follow it, but '%s' does; put it last",
                   optim->transform[k].name, optim->transform[k + 1].name);
    return SPMD_OK;
}

int spmd_optim_state_count(const spmd_optim *optim, int n)
{
    int slots = 0;
    for (int k = 0; k < optim->transforms; k++)
        slots += optim->transform[k].slots;
    return slots * n;
}

spmd_status spmd_optim_init(const spmd_optim *optim, int n, spmd_array *const *params, spmd_array **state)
{
    SPMD_TRY(check_chain(optim));
    for (int k = 0; k < n; k++)
        SPMD_CHECK(spmd_array_dtype(params[k]) == SPMD_F32, SPMD_EDTYPE,
                   "optimizer: parameter %d is %s, needs f32 (cast to a smaller type inside the model)", k,
                   spmd_dtype_name(spmd_array_dtype(params[k])));
    int count = spmd_optim_state_count(optim, n);
    for (int k = 0; k < count; k++) {
        const spmd_array *like = params[k % n];
        spmd_status status = spmd_shard(spmd_array_mesh(like), NULL, SPMD_F32, spmd_array_rank(like),
                                        spmd_array_shape(like), spmd_array_spec(like), &state[k]);
        if (status != SPMD_OK) {
            while (k-- > 0) {
                spmd_array_destroy(state[k]);
                state[k] = NULL;
            }
            return spmd_trace_at(__FILE__, __LINE__, status);
        }
    }
    return SPMD_OK;
}

spmd_status spmd_optim_update(spmd_ctx *ctx, const spmd_optim *optim, const spmd_optim_step *step)
{
    SPMD_TRY(check_chain(optim));
    SPMD_CHECK(step->new_params != step->params, SPMD_EINVAL,
               "optimizer: new_params is the array of params; give an array of its own (the memory may be shared)");
    SPMD_CHECK(!step->state || step->new_state != step->state, SPMD_EINVAL,
               "optimizer: new_state is the array of state; give an array of its own (the memory may be shared)");
    for (int k = 0; k < step->n; k++)
        step->new_params[k] = step->grads[k];
    spmd_optim_step own = *step;
    bool done = false;
    for (int k = 0; k < optim->transforms; k++) {
        const spmd_transform *transform = &optim->transform[k];
        SPMD_TRY(transform->update(ctx, transform, &own));
        done = transform->makes_params;
        if (transform->slots > 0) {
            own.state += transform->slots * step->n;
            own.new_state += transform->slots * step->n;
        }
    }
    for (int k = 0; k < step->n && !done; k++) {
        spmd_tensor change;
        SPMD_TRY(spmd_mul(ctx, &step->new_params[k], step->rate, &change));
        SPMD_TRY(spmd_sub(ctx, &step->params[k], &change, &step->new_params[k]));
    }
    return SPMD_OK;
}
