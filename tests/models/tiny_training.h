/* For tests of checkpoints: a training so small that a step takes microseconds. */
#ifndef TESTS_TINY_TRAINING_H
#define TESTS_TINY_TRAINING_H

#include "models/checkpoints.h"
#include "spmd/testing.h"
#include "tests/models/data_files.h"

enum { TINY_BATCH = 12, TINY_INPUTS = 20, TINY_EXAMPLES = 100 };

typedef struct tiny {
    spmd_mesh *mesh;
    spmd_train_options options;
    spmd_trainer *trainer;
    uint8_t images[TINY_EXAMPLES * TINY_INPUTS], labels[TINY_EXAMPLES];
    spmd_examples examples;
} tiny;

static inline void tiny_begin(tiny *t, const char *axes)
{
    *t = (tiny){0};
    for (int i = 0; i < TINY_EXAMPLES * TINY_INPUTS; i++)
        t->images[i] = (uint8_t)((unsigned)i * 2654435761u >> 13);
    for (int i = 0; i < TINY_EXAMPLES; i++)
        t->labels[i] = (uint8_t)(t->images[i * TINY_INPUTS] % 10);
    t->examples = (spmd_examples){t->images, t->labels, TINY_EXAMPLES, TINY_INPUTS};
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &t->mesh));
    spmd_mesh_set_log(t->mesh, NULL, NULL);
    ck_spmd_ok(spmd_train_defaults("mlp", &t->options));
    t->options.config.inputs = TINY_INPUTS;
    t->options.config.width = 16;
    t->options.batch = TINY_BATCH;
    t->options.optim = spmd_optim_chain(spmd_optim_clip_by_global_norm(1), t->options.optim);
}

static inline void tiny_create(tiny *t)
{
    ck_spmd_ok(spmd_trainer_create(t->mesh, &t->options, &t->trainer));
}

static inline double tiny_run(tiny *t, int64_t steps) /* the last loss */
{
    spmd_train_result result;
    ck_spmd_ok(spmd_trainer_run(t->trainer, &t->examples, steps, NULL, NULL, &result));
    return result.last.loss;
}

static inline uint64_t tiny_fingerprint(tiny *t)
{
    uint64_t print;
    ck_spmd_ok(spmd_trainer_fingerprint(t->trainer, &print));
    return print;
}

static inline void tiny_end(tiny *t)
{
    spmd_trainer_destroy(t->trainer);
    ck_spmd_ok(spmd_mesh_destroy(t->mesh));
}

/* A fresh trainer on `axes` that goes on from the newest checkpoint. */
static inline void tiny_resume(tiny *t, const char *axes, const char *folder)
{
    spmd_checkpoint_info info;
    tiny_begin(t, axes);
    tiny_create(t);
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, NULL, 0));
    ck_spmd_ok(spmd_checkpoints_load(t->trainer, &info, false));
}

#endif
