/* Private: loading a set from its registry entry; tests hand in entries of their own. */
#ifndef MODELS_DATA_DATASET_H
#define MODELS_DATA_DATASET_H

#include "models/data.h"
#include "models/data/registry.h"

/* As spmd_dataset_load, which see. */
spmd_status spmd__dataset_load_from(const spmd__data_source *source, const spmd_dataset_options *options,
                                    spmd_dataset *out);

#endif
