/* Reads and writes safetensors files: named tensors as they lie in memory, after a JSON header.
 *
 * Nothing in a file is believed: lengths, dtypes, shapes and offsets are all checked when it is opened, and every
 * error names the file, the tensor and the values. The whole file is read (not mapped): a file that is cut short later
 * cannot hurt, and every tensor is aligned, wherever the file put it. */
#ifndef MODELS_SAFETENSORS_H
#define MODELS_SAFETENSORS_H

#include "spmd/dtype.h"
#include "spmd/spec.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spmd_safetensors spmd_safetensors;

typedef struct spmd_safetensor {
    const char *name;
    spmd_dtype dtype;
    int rank;
    int64_t shape[SPMD_MAX_RANK];
    int64_t count;    /* elements */
    size_t bytes;     /* count * size of dtype */
    const void *data; /* row-major, 64-byte aligned; lives until the file is closed. Not NULL, also when empty. */
} spmd_safetensor;

/* Errors: EIO cannot be opened or read; EDATA malformed; EUNSUPPORTED a dtype or rank this toolkit does not have;
 * ENOMEM. */
SPMD_API spmd_status spmd_safetensors_open(const char *path, spmd_safetensors **out);
/* The same without reading the data: every tensor's data is NULL, and a checksum is not checked. */
SPMD_API spmd_status spmd_safetensors_open_header(const char *path, spmd_safetensors **out);
SPMD_API void spmd_safetensors_close(spmd_safetensors *file); /* NULL is fine */

/* Tensors in the order of their data; NULL if i is out of range. */
SPMD_API int64_t spmd_safetensors_count(const spmd_safetensors *file);
SPMD_API const spmd_safetensor *spmd_safetensors_at(const spmd_safetensors *file, int64_t i);
/* Errors: EINVAL no tensor of that name (says how many there are and which come closest in order). */
SPMD_API spmd_status spmd_safetensors_find(const spmd_safetensors *file, const char *name, const spmd_safetensor **out);
/* Value of a metadata key, NULL if there is none. Lives until the file is closed. */
SPMD_API const char *spmd_safetensors_metadata(const spmd_safetensors *file, const char *key);

/* Files that are written here begin with a checksum of themselves in their metadata, and are checked when they are
 * opened (EDATA): eight hexadecimal digits, zlib's crc32 of header and data. */
#define SPMD_SAFETENSORS_CRC32 "spmdkit.crc32"

/* Points *data at the bytes of tensor i, which must stay until the next call. */
typedef spmd_status spmd_tensor_bytes_fn(void *user, int64_t i, const void **data);

typedef struct spmd_safetensors_content {
    int64_t count;
    const spmd_safetensor *tensors; /* name, dtype, rank, shape; data where `bytes` is NULL */
    spmd_tensor_bytes_fn *bytes; /* (optional) called once a tensor, in order, so that not all need be there at once */
    void *user;
    const char *const (*metadata)[2]; /* key and value */
    int nmetadata;
} spmd_safetensors_content;

/* spmd_safetensors_write - writes the file whole or not at all: into path.tmp, to the disk, then renamed; whatever
 * happens, `path` is the old file or the new one.   Local.
 * Errors: EIO cannot be written (disk full, no folder): the temporary file is removed; EINVAL a tensor without a name;
 * ENOMEM; what `bytes` returns. */
SPMD_API spmd_status spmd_safetensors_write(const char *path, const spmd_safetensors_content *content);

#ifdef __cplusplus
}
#endif
#endif
