/* Checkpoints of a training: one safetensors file each, in a folder of their own.
 *
 *   step-000000400.safetensors   parameters ("w1"), optimizer state ("mu/w1"); the rest in the metadata
 *   best.safetensors             the one with the highest score, if scores were given: a second name of that file
 *                                where the file system has such, else a copy
 *
 * A file is written whole or not at all, so whatever ends a program, the newest file is complete. The order of the
 * examples and all start values are functions of (seed, step): those two are the data's position and the random state,
 * and a run that is resumed makes the steps that it would have made, bit for bit on as many devices. */
#ifndef MODELS_CHECKPOINTS_H
#define MODELS_CHECKPOINTS_H

#include "models/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a checkpoint says of itself. */
typedef struct spmd_checkpoint_info {
    char path[1024];
    char model[32], optimizer[256], schedule[160]; /* names of the transforms; numbers of the curve */
    spmd_model_config config;
    int64_t step, batch; /* steps done; the global batch */
    uint64_t seed;
    double score; /* NaN: none */
} spmd_checkpoint_info;

/* spmd_checkpoints_save - the trainer as it is, into `folder` (made if need be). Keeps the last `keep` files (1 or
 * more) and removes older ones; a score (NaN: none) above the best one's makes it best.safetensors, too.   Host thread.
 * Errors: EIO cannot be written: the files that were there are untouched; EINVAL keep below 1; ENOMEM. */
SPMD_API spmd_status spmd_checkpoints_save(spmd_trainer *trainer, const char *folder, int keep, double score);

/* spmd_checkpoints_find - the newest checkpoint in `folder` that can be read, or best.safetensors if `best`; `folder`
 * may also be a file. Damaged ones are passed over: `notice` (may be NULL; "" if none) says which and why.   Local.
 * Errors: EIO no such folder, or no checkpoint in it; EDATA none that can be read (says what is wrong with the newest).
 */
SPMD_API spmd_status spmd_checkpoints_find(const char *folder, bool best, spmd_checkpoint_info *out, char *notice,
                                           size_t size);

/* spmd_checkpoints_load - parameters, and unless `only_params` the optimizer's state and the step, into a trainer.
 * Host thread.
 *   info   from spmd_checkpoints_find
 * Errors: EINVAL another model, batch, seed or optimizer (named with both values), unless it does not matter for the
 * parameters; ESHAPE other sizes; EDATA not a checkpoint. On an error the trainer holds a mixture: do not go on. */
SPMD_API spmd_status spmd_checkpoints_load(spmd_trainer *trainer, const spmd_checkpoint_info *info, bool only_params);

/* The learning rate's curve as checkpoints write it, to be compared with info.schedule. Returns as snprintf. Local. */
SPMD_API int spmd_schedule_format(const spmd_schedule *schedule, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
