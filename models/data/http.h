/* Private: one transfer over HTTP into an open file. */
#ifndef MODELS_DATA_HTTP_H
#define MODELS_DATA_HTTP_H

#include "models/data.h"

typedef struct spmd__http_request {
    const char *url;
    const char *file; /* the name told to `progress` */
    int fd;           /* where the bytes go, each at its own offset */
    int64_t from;     /* bytes that `fd` holds already; a server that cannot continue there starts again at 0 */
    int64_t bytes;    /* size of the whole file */
    long stall_s;     /* give up after so many seconds without a byte */
    spmd_download_fn *progress;
    void *user;
} spmd__http_request;

/* *have: bytes that `fd` holds afterwards, also on failure. *network: the failure lies between here and the server, so
 * that another try or another server may help. Errors: EIO network, or `fd` cannot be written; EDATA the server's file
 * is longer than `bytes`; EUSER progress returned false; EUNSUPPORTED built without libcurl (counts as network). */
spmd_status spmd__http_get(const spmd__http_request *request, int64_t *have, bool *network);

#endif
