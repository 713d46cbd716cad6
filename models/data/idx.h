/* Private: the IDX format, gzip-compressed: how (Fashion-)MNIST is published. */
#ifndef MODELS_DATA_IDX_H
#define MODELS_DATA_IDX_H

#include "spmd/status.h"
#include <stdint.h>

/* Reads a file of `count` items of unsigned bytes, each of shape inner[0..ninner), all > 0: images {28, 28}, labels
 * none. *data is malloc'ed and never NULL on success. Errors: EIO, ENOMEM; EDATA not gzip, damaged, cut short, another
 * format, other dimensions, or bytes left over. */
spmd_status spmd__idx_read(const char *path, int ninner, const int64_t *inner, uint8_t **data, int64_t *count);

#endif
