/* Private: a generated data set of the published ones' format. */
#ifndef MODELS_DATA_SYNTHETIC_H
#define MODELS_DATA_SYNTHETIC_H

#include "models/data.h"

/* Fills out->train, test and classes; counts of 0 mean 60000 and 10000. Example i of a part depends on (seed, part, i)
 * only: a smaller set is the beginning of a larger one. Errors: ENOMEM (what was allocated stays in *out). */
spmd_status spmd__synthetic_fill(uint64_t seed, int64_t train_count, int64_t test_count, spmd_dataset *out);

#endif
