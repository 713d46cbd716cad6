/* safetensors: the first line of the input is the header, for which the length is put in front; the rest is the data. A
 * first byte of '!' gives the rest as it is. What is accepted is read to its last byte. */
#include "models/safetensors.h"
#include "tests/fuzz/fuzz.h"

static volatile uint64_t sink; /* keeps the reading */

static void read_all(const spmd_safetensors *file)
{
    for (int64_t k = 0; k < spmd_safetensors_count(file); k++) {
        const spmd_safetensor *t = spmd_safetensors_at(file, k), *found;
        for (size_t i = 0; i < t->bytes; i++)
            sink += ((const uint8_t *)t->data)[i];
        if (spmd_safetensors_find(file, t->name, &found) != SPMD_OK || found != t)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file file;
    if (size > 0 && data[0] == '!') {
        file = fuzz_file_make(data + 1, size - 1);
    } else {
        const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
        size_t header = end ? (size_t)(end - data) : size, rest = end ? size - header - 1 : 0;
        uint8_t *bytes = calloc(1, size + 9);
        if (!bytes)
            abort();
        for (int i = 0; i < 8; i++)
            bytes[i] = (uint8_t)((uint64_t)header >> 8 * i);
        memcpy(bytes + 8, data, header);
        memcpy(bytes + 8 + header, end ? end + 1 : data, rest);
        file = fuzz_file_make(bytes, 8 + header + rest);
        free(bytes);
    }
    spmd_safetensors *opened;
    if (spmd_safetensors_open(file.path, &opened) == SPMD_OK) {
        read_all(opened);
        spmd_safetensors_close(opened);
    }
    fuzz_file_end(&file);
    return 0;
}
