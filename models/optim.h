/* Optimizers as chains of gradient transforms, with Optax's names and numbers.
 *
 * A transform turns updates (at first: the gradients) into updates and keeps `slots` state tensors a parameter. All
 * state lives in tensors, and what changes from step to step is a tensor too (the rate, the step's number), so that a
 * step is a function of its inputs. The chain ends with params - rate * updates, unless its last transform makes the
 * new parameters itself (adamw: one fused op over all parameters). Constants here; the rate is a schedule's.
 *
 *     spmd_optim adamw = spmd_optim_adamw(0.9, 0.999, 1e-8, 1e-4);
 *     spmd_optim optim = spmd_optim_chain(spmd_optim_clip_by_global_norm(0.5), adamw);
 *     spmd_optim_init(&optim, n, params, state);    host: state arrays, all zero
 *     spmd_optim_update(ctx, &optim, &step);        in the shard function */
#ifndef MODELS_OPTIM_H
#define MODELS_OPTIM_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPMD_MAX_TRANSFORMS = 8 };

/* One step over n parameters. State is ordered by transform, then slot, then parameter. */
typedef struct spmd_optim_step {
    int n;
    const spmd_tensor *params;
    const spmd_tensor *grads;        /* reduced (spmd_mean_grads), f32 */
    const spmd_tensor *state;        /* spmd_optim_state_count tensors; NULL if none */
    const spmd_tensor *rate, *count; /* f32 scalars; count is the step's number, from 1 */
    spmd_tensor *new_params;         /* not the same array as params */
    spmd_tensor *new_state;          /* not the same array as state */
} spmd_optim_step;

typedef struct spmd_transform {
    const char *name;
    int slots;                /* state tensors a parameter, at most 2 */
    const char *slot_name[2]; /* Optax's: "mu", "nu", "trace" */
    bool makes_params;        /* update() leaves new parameters, not updates: only the last may */
    double constant[4];
    /* Reads and writes the updates in step->new_params (step->grads is not for it); state and new_state are its own. */
    spmd_status (*update)(spmd_ctx *ctx, const struct spmd_transform *transform, const spmd_optim_step *step);
} spmd_transform;

typedef struct spmd_optim {
    int transforms; /* -1: a chain too long, reported when it is used */
    spmd_transform transform[SPMD_MAX_TRANSFORMS];
} spmd_optim;

SPMD_API spmd_optim spmd_optim_sgd(double momentum, bool nesterov); /* momentum 0: no state. Local. */
SPMD_API spmd_optim spmd_optim_adam(double b1, double b2, double epsilon);
SPMD_API spmd_optim spmd_optim_adamw(double b1, double b2, double epsilon, double weight_decay);
SPMD_API spmd_optim spmd_optim_lion(double b1, double b2, double weight_decay);
SPMD_API spmd_optim spmd_optim_rmsprop(double decay, double epsilon); /* epsilon inside the root */
SPMD_API spmd_optim spmd_optim_lamb(double b1, double b2, double epsilon, double weight_decay);
/* Scales all updates so that their global norm is at most max_norm. */
SPMD_API spmd_optim spmd_optim_clip_by_global_norm(double max_norm);
SPMD_API spmd_optim spmd_optim_chain(spmd_optim first, spmd_optim second); /* Local. */
/* spmd_optim_find - "sgd", "momentum", "nesterov", "adam", "adamw", "lion", "rmsprop" or "lamb" with Optax's defaults;
 * `rate` (may be NULL) gets a rate to start with. Errors: EINVAL lists the names. Local. */
SPMD_API spmd_status spmd_optim_find(const char *name, spmd_optim *out, double *rate);

/* State tensors for n parameters. Local. */
SPMD_API int spmd_optim_state_count(const spmd_optim *optim, int n);
/* spmd_optim_init - zeros like the parameters, with their specs.   Local; host thread. The caller destroys the
 * arrays. Errors: EINVAL (the chain), EDTYPE (a parameter that is not f32), ENOMEM; then no array is left. */
SPMD_API spmd_status spmd_optim_init(const spmd_optim *optim, int n, spmd_array *const *params, spmd_array **state);
/* spmd_optim_update - one step.   Collective over the axes on which parameters vary, for clip and lamb; else Local.
 * Errors: EINVAL (the chain, the arrays), and what the ops return. */
SPMD_API spmd_status spmd_optim_update(spmd_ctx *ctx, const spmd_optim *optim, const spmd_optim_step *step);

/* A learning rate over the steps: from `start` to `peak` in `warmup` steps (a line), then to `end` in `decay` steps (a
 * line, or half a cosine), then `end`. decay 0: stays at `peak`. */
typedef struct spmd_schedule {
    double start, peak, end;
    int64_t warmup, decay;
    bool cosine;
} spmd_schedule;

SPMD_API spmd_schedule spmd_schedule_constant(double rate); /* Local. */
SPMD_API spmd_schedule spmd_schedule_linear(double start, double end, int64_t steps);
SPMD_API spmd_schedule spmd_schedule_cosine(double start, int64_t steps, double alpha); /* ends at alpha * start */
/* optax.warmup_cosine_decay_schedule: `steps` counts the warm-up too. */
SPMD_API spmd_schedule spmd_schedule_warmup_cosine(double start, double peak, int64_t warmup, int64_t steps,
                                                   double end);
/* spmd_schedule_find - "constant", "linear" (to 0), "cosine" (to 0) or "warmup_cosine" (a tenth of the steps from 0,
 * then to 0) for `steps` steps. Errors: EINVAL lists the names. Local. */
SPMD_API spmd_status spmd_schedule_find(const char *name, double rate, int64_t steps, spmd_schedule *out);
SPMD_API double spmd_schedule_at(const spmd_schedule *schedule, int64_t step); /* step counts from 0. Local. */

#ifdef __cplusplus
}
#endif
#endif
