/* Private: what the files that read and write safetensors share. */
#ifndef MODELS_DATA_SAFETENSORS_ENTRY_H
#define MODELS_DATA_SAFETENSORS_ENTRY_H

#include "models/safetensors.h"
#include <cjson/cJSON.h>

typedef struct safetensors_entry {
    spmd_safetensor tensor;
    uint64_t begin, end; /* within the data part */
} safetensors_entry;

/* Checks `item` ("name": {dtype, shape, data_offsets}) by itself, against data of `data_bytes`, and fills *out but for
 * its data pointer. Errors: EDATA, EUNSUPPORTED. */
spmd_status spmd__safetensors_entry(const char *path, const cJSON *item, uint64_t data_bytes, safetensors_entry *out);

const char *spmd__safetensors_dtype(spmd_dtype dtype); /* "F32", as headers name it */

/* How the header of a file with a checksum begins; the eight digits follow. They are the checksum of the header, with
 * zeros in their place, and the data. */
#define SAFETENSORS_CHECKED "{\"__metadata__\":{\"" SPMD_SAFETENSORS_CRC32 "\":\""
enum { SAFETENSORS_DIGITS = 8 };

/* Gives the file `from` a second name, which becomes that file or stays what it was; nothing is copied. false: it
 * cannot be done, as on a file system without such links. */
bool spmd__safetensors_link(const char *from, const char *to);

#endif
