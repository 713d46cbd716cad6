/* The training loop: one launch a step. In explicit mode each shard differentiates its own rows' loss, gradients, loss
 * and accuracy are averaged by hand in one meeting over "data", and the optimizer runs inside the step; parameters and
 * optimizer state are inputs and outputs of the launch, in place. In automatic mode the same step function computes
 * with global values, and the averaging is the library's.
 *
 * The global batch is the same for every number of devices, so the losses are too, up to the order of the sums. */
#ifndef MODELS_TRAIN_H
#define MODELS_TRAIN_H

#include "models/data.h"
#include "models/mlp.h"
#include "models/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd_train_options {
    const spmd_model *model;
    spmd_model_config config;
    spmd_optim optim;
    spmd_schedule schedule;
    int64_t batch;  /* global */
    uint64_t seed;  /* of the start values and of the order of the examples */
    bool eager;     /* run every op as it is called, instead of recording the step once (spmd/jit.h) */
    bool automatic; /* spmd_auto_map instead of spmd_shard_map */
} spmd_train_options;

/* spmd_train_defaults - model `name` with its default sizes, adamw, 3e-3 falling as a cosine to 0 over 400 steps, batch
 * 512, seed 1.   Local. Errors: EINVAL (the name). */
SPMD_API spmd_status spmd_train_defaults(const char *name, spmd_train_options *out);

typedef struct spmd_trainer spmd_trainer;

/* spmd_trainer_create - parameters, state and batch on the mesh.   Local; host thread.
 * Errors: EAXIS the mesh has no axis "data"; EINVAL a batch that does not divide over it (names the nearest that do),
 * sizes of the model; ENOMEM. The caller destroys the trainer, before the mesh. */
SPMD_API spmd_status spmd_trainer_create(spmd_mesh *mesh, const spmd_train_options *options, spmd_trainer **out);
SPMD_API void spmd_trainer_destroy(spmd_trainer *trainer); /* NULL is allowed */

typedef struct spmd_metrics {
    int64_t step; /* from 1 */
    double loss;  /* means over the step's global batch, before its update */
    double accuracy;
    double grad_norm; /* of the averaged gradient, before clipping */
    double rate;
} spmd_metrics;

/* spmd_trainer_step - one step on the global batch x [batch, inputs], y [batch].   Host thread.
 * Errors: ENONFINITE names the step and the first bad parameter; what the launch returns. */
SPMD_API spmd_status spmd_trainer_step(spmd_trainer *trainer, const float *x, const int32_t *y, spmd_metrics *out);

/* Called after every step; returning false ends the run. */
typedef bool spmd_train_fn(void *user, const spmd_metrics *metrics);

typedef struct spmd_train_result {
    spmd_metrics last;
    int64_t steps; /* done in this run */
    bool stopped;  /* by the callback */
    double seconds, first_step_s;
    double examples_per_s; /* without the first step, which also builds kernels and arenas; 0 after only one */
} spmd_train_result;

/* spmd_trainer_run - up to `steps` steps on batches of `examples`.   Host thread. fn may be NULL. On an error `out`
 * holds what was reached. Errors: those of spmd_trainer_step; EINVAL the batch is larger than the set, or its width is
 * not the model's. */
SPMD_API spmd_status spmd_trainer_run(spmd_trainer *trainer, const spmd_examples *examples, int64_t steps,
                                      spmd_train_fn *fn, void *user, spmd_train_result *out);

typedef struct spmd_evaluation {
    int64_t examples;
    double loss, accuracy;
} spmd_evaluation;
/* spmd_trainer_evaluate - over all `examples`, every one once, whatever their number.   Host thread. */
SPMD_API spmd_status spmd_trainer_evaluate(spmd_trainer *trainer, const spmd_examples *examples, spmd_evaluation *out);

/* spmd_trainer_predict - for each of the first `count` examples the class with the largest logit (the first of equals)
 * and, where `confidence` is not NULL, its probability.   Host thread.
 *   predicted [count], confidence [count]
 * Errors: EINVAL count below 0 or above the set's, a width that is not the model's; what the launch returns. */
SPMD_API spmd_status spmd_trainer_predict(spmd_trainer *trainer, const spmd_examples *examples, int64_t count,
                                          int32_t *predicted, float *confidence);

/* spmd_trainer_fingerprint - FNV-1a over the parameters' bytes: equal runs have equal ones.   Local; host thread. */
SPMD_API spmd_status spmd_trainer_fingerprint(spmd_trainer *trainer, uint64_t *out);

/* The step's program (NULL if eager), and a profile for the steps to come (NULL: none; the caller keeps it). Local. */
SPMD_API const spmd_jit *spmd_trainer_jit(const spmd_trainer *trainer);
SPMD_API void spmd_trainer_set_profile(spmd_trainer *trainer, spmd_profile *profile);

/* Steps done, also by the runs before that a checkpoint brought back. Local. */
SPMD_API int64_t spmd_trainer_steps(const spmd_trainer *trainer);

/* The trainer's arrays, parameters first; `name` (may be NULL) is "w1", "mu/w1", "batch.x"... NULL past the last.
 * The trainer keeps them. Local. */
SPMD_API spmd_array *spmd_trainer_array(const spmd_trainer *trainer, int k, const char **name);

#ifdef __cplusplus
}
#endif
#endif
