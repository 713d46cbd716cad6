/* IDX files. A first byte of '!' gives the rest as it is; else the input is what is compressed, so that the header of
 * the data is reached at all. */
#include "models/data/idx.h"
#include "tests/fuzz/fuzz.h"
#include <stdbool.h>
#include <zlib.h>

static volatile uint64_t sink; /* keeps the reading */

static fuzz_file compressed(const uint8_t *data, size_t size)
{
    z_stream z = {0};
    uLong room = compressBound(size) + 64;
    uint8_t *out = malloc(room);
    if (!out || deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    z.next_in = (Bytef *)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    fuzz_file file = fuzz_file_make(out, z.total_out);
    deflateEnd(&z);
    free(out);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t inner[2] = {2, 3};
    bool raw = size > 0 && data[0] == '!';
    fuzz_file file = raw ? fuzz_file_make(data + 1, size - 1) : compressed(data, size);
    for (int rank = 0; rank <= 2; rank += 2) {
        uint8_t *items;
        int64_t count;
        if (spmd__idx_read(file.path, rank, inner, &items, &count) != SPMD_OK)
            continue;
        for (int64_t i = 0; i < count * (rank ? 6 : 1); i++)
            sink += items[i];
        free(items);
    }
    fuzz_file_end(&file);
    return 0;
}
