/* Private: the published data sets: their files, checksums and mirrors. */
#ifndef MODELS_DATA_REGISTRY_H
#define MODELS_DATA_REGISTRY_H

#include <stdint.h>

typedef struct spmd__data_file {
    const char *name;
    int64_t bytes;
    const char *md5; /* of the compressed file, lower-case hex */
} spmd__data_file;

enum { SPMD__MAX_MIRRORS = 4 };

typedef struct spmd__data_source {
    const char *name;
    spmd__data_file train_images, train_labels, test_images, test_labels;
    const char *mirrors[SPMD__MAX_MIRRORS]; /* URLs that a file's name is added to; NULL ends the list */
    int64_t rows, columns, classes;
} spmd__data_source;

const spmd__data_source *spmd__data_source_find(const char *name); /* NULL: none of that name */

#endif
