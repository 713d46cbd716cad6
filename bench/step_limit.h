/* The limit of a training step: its matrix products alone, by the same library in plain row-major layouts, on all
 * devices at once. Nothing else of the step runs: no gelu, no sums, no meeting, no optimizer. */
#ifndef BENCH_STEP_LIMIT_H
#define BENCH_STEP_LIMIT_H

#include "models/train.h"

typedef struct step_limit step_limit;

/* Flops of the products of one step on one device with `rows` examples: forward, both gradients, but no gradient of the
 * batch. The one place where a step's flops are counted. */
double step_flops(const spmd_model *model, const spmd_model_config *config, int64_t rows);

/* Takes the operands' memory on every device. The caller destroys it, before the mesh. */
spmd_status step_limit_create(spmd_mesh *mesh, const spmd_model *model, const spmd_model_config *config, int64_t rows,
                              step_limit **out);
void step_limit_destroy(step_limit *limit);
/* One step's products, once; seconds from when the last device began to when the last one was done. */
spmd_status step_limit_run(step_limit *limit, double *seconds);

#endif
