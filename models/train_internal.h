/* Private to the training loop's files. */
#ifndef MODELS_TRAIN_INTERNAL_H
#define MODELS_TRAIN_INTERNAL_H

#include "models/train.h"
#include "spmd/jit.h"

typedef struct trained_array {
    spmd_array *array;
    char name[48];
} trained_array;

/* `arrays` holds, in order: parameters, optimizer state, then one of each of enum trained_other. */
enum trained_other { BATCH_X, BATCH_Y, BATCH_WEIGHT, RATE, COUNT, LOSS, ACCURACY, GRAD_NORM, OTHERS };

struct spmd_trainer {
    spmd_mesh *mesh;
    spmd_jit *jit; /* of the step; NULL: eager */
    spmd_profile *profile;
    spmd_train_options options;
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    int nparams, nstate, narrays;
    trained_array *arrays;
    spmd_array **in, **out; /* of the step's job: parameters, state, x, y, rate, count; parameters, state, metrics */
    spmd_spec *out_specs;
    const void **in_host; /* the caller's batch, in its place among `in` */
    float *x, *weight;    /* the host's side of a batch */
    int32_t *y;
    float *param; /* the largest parameter, on the host */
    int64_t steps;
};

static inline spmd_array *spmd__trainer_other(const spmd_trainer *trainer, enum trained_other which)
{
    return trainer->arrays[trainer->nparams + trainer->nstate + which].array;
}

/* Elements from .. to - 1 of what spmd_model_init makes. */
void spmd__model_init_some(const spmd_param_info *info, uint64_t seed, int k, int64_t from, int64_t to, float *values);
spmd_status spmd__trainer_check_finite(spmd_trainer *trainer, const spmd_metrics *metrics);
spmd_status spmd__trainer_check_examples(const spmd_trainer *trainer, const spmd_examples *examples);

#endif
