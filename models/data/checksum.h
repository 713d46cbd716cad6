/* Private: is a file the published one? */
#ifndef MODELS_DATA_CHECKSUM_H
#define MODELS_DATA_CHECKSUM_H

#include "models/data/registry.h"
#include "spmd/status.h"

/* OK if `path` has the size and the md5 of `want` (built without libmd: the size). Errors: EIO cannot be read, EDATA
 * another size or md5. */
spmd_status spmd__file_check(const char *path, const spmd__data_file *want);

#endif
