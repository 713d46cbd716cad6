/* Private: a published file into the cache. */
#ifndef MODELS_DATA_DOWNLOAD_H
#define MODELS_DATA_DOWNLOAD_H

#include "models/data.h"
#include "models/data/registry.h"
#include <stddef.h>

typedef struct spmd__download {
    const char *const *mirrors; /* URLs that the file's name is added to; NULL ends the list */
    const spmd__data_file *file;
    const char *folder; /* must exist */
    long stall_s;       /* give up a connection after so many seconds without a byte; 0: 20 */
    spmd_download_fn *progress;
    void *user;
} spmd__download;

/* Makes sure that folder/<name> is the published file: fetches it unless it is there already, as folder/<name>.part,
 * which a later call continues; the name appears only when the bytes are checked and on disk. Several processes may do
 * this at once: one fetches, the others wait. *network: no mirror could be reached, or none kept sending.
 * Errors: EIO network or disk; EDATA the mirrors have other bytes; EUSER stopped by progress; EUNSUPPORTED no libcurl;
 * ENOMEM. */
spmd_status spmd__download_file(const spmd__download *download, bool *network);

/* The last error without its path ("[file:line < ...]"), to be part of another message. */
void spmd__last_reason(char *text, size_t size);

#endif
