/* IDX files: a big-endian header (0, 0, type 8 = unsigned bytes, rank; then the dimensions), then the bytes.
 *
 * Built on zlib's inflate rather than gzread, because gzread silently ignores whatever follows the compressed data and
 * passes uncompressed files through: here both are errors, and every error can name its place in the file. */
#include "models/data/idx.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { CHUNK = 1 << 16, MAX_INNER = 3, UNSIGNED_BYTES = 8 };

/* Deflate cannot compress better than this: a header that promises more than the file can hold is refused before
 * anything is allocated for it. */
enum { LARGEST_RATIO = 1032 };

typedef struct gz_reader {
    const char *path;
    FILE *file;
    int64_t size; /* of the compressed file */
    int64_t fed;  /* compressed bytes read so far */
    bool ended;   /* the end of the gzip data was seen */
    z_stream z;
    uint8_t in[CHUNK];
} gz_reader;

static spmd_status gz_feed(gz_reader *gz)
{
    size_t n = fread(gz->in, 1, CHUNK, gz->file);
    SPMD_CHECK(n > 0 || !ferror(gz->file), SPMD_EIO, "%s: cannot be read at byte %lld: %s", gz->path,
               (long long)gz->fed, strerror(errno));
    SPMD_CHECK(n > 0, SPMD_EDATA,
               "%s: cut short: the gzip data should go on after byte %lld (%lld bytes uncompressed so far), expected a "
               "whole file: fetch it again",
               gz->path, (long long)gz->fed, (long long)gz->z.total_out);
    gz->fed += (int64_t)n;
    gz->z.next_in = gz->in;
    gz->z.avail_in = (uInt)n;
    return SPMD_OK;
}

/* Up to `want` uncompressed bytes; fewer only at the end of the gzip data. */
static spmd_status gz_read(gz_reader *gz, uint8_t *out, size_t want, size_t *got)
{
    *got = 0;
    while (*got < want && !gz->ended) {
        if (gz->z.avail_in == 0)
            SPMD_TRY(gz_feed(gz));
        size_t room = want - *got < (1u << 30) ? want - *got : (1u << 30);
        gz->z.next_out = out + *got;
        gz->z.avail_out = (uInt)room;
        int code = inflate(&gz->z, Z_NO_FLUSH);
        SPMD_CHECK(code != Z_MEM_ERROR, SPMD_ENOMEM, "%s: no memory to uncompress it", gz->path);
        SPMD_CHECK(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, SPMD_EDATA,
                   "%s: not gzip data, or damaged, near byte %lld: %s: fetch the file again", gz->path,
                   (long long)(gz->fed - gz->z.avail_in), gz->z.msg ? gz->z.msg : "unknown");
        *got += room - gz->z.avail_out;
        gz->ended = code == Z_STREAM_END;
    }
    return SPMD_OK;
}

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Checks the header; *count and the bytes of one item come out of it. */
static spmd_status read_header(gz_reader *gz, int ninner, const int64_t *inner, int64_t *count, int64_t *item)
{
    uint8_t header[4 + 4 * (1 + MAX_INNER)];
    size_t length = 4 + 4 * (size_t)(1 + ninner), got;
    SPMD_TRY(gz_read(gz, header, length, &got));
    SPMD_CHECK(got == length, SPMD_EDATA, "%s: holds %zu bytes uncompressed, expected a header of %zu", gz->path, got,
               length);
    uint32_t magic = big_endian(header), want = UNSIGNED_BYTES << 8 | (uint32_t)(1 + ninner);
    SPMD_CHECK(magic == want, SPMD_EDATA,
               "%s: magic number 0x%08x, expected 0x%08x (IDX, unsigned bytes, %d dimensions): images and labels "
               "exchanged, or another kind of file",
               gz->path, magic, want, 1 + ninner);
    *count = big_endian(header + 4);
    *item = 1;
    for (int d = 0; d < ninner; d++) {
        int64_t size = big_endian(header + 8 + 4 * d);
        SPMD_CHECK(size == inner[d], SPMD_EDATA, "%s: dimension %d is %lld, expected %lld", gz->path, d + 1,
                   (long long)size, (long long)inner[d]);
        *item *= size;
    }
    SPMD_CHECK(*count <= gz->size * LARGEST_RATIO / *item, SPMD_EDATA,
               "%s: its header promises %lld items of %lld bytes, expected at most what %lld compressed bytes can "
               "hold: the file is damaged, fetch it again",
               gz->path, (long long)*count, (long long)*item, (long long)gz->size);
    return SPMD_OK;
}

static spmd_status read_items(gz_reader *gz, int64_t count, int64_t item, uint8_t *data)
{
    size_t want = (size_t)(count * item), got, extra;
    SPMD_TRY(gz_read(gz, data, want, &got));
    SPMD_CHECK(got == want, SPMD_EDATA, "%s: ends after %zu bytes of data, expected %lld items of %lld = %zu bytes",
               gz->path, got, (long long)count, (long long)item, want);
    uint8_t more;
    SPMD_TRY(gz_read(gz, &more, 1, &extra)); /* also takes in the checksum at the end of the gzip data */
    SPMD_CHECK(extra == 0, SPMD_EDATA, "%s: goes on after its %lld items of %lld bytes, expected the end of the data",
               gz->path, (long long)count, (long long)item);
    int64_t end = gz->fed - gz->z.avail_in;
    SPMD_CHECK(end == gz->size, SPMD_EDATA,
               "%s: %lld bytes follow the end of the gzip data at byte %lld, expected none: fetch the file again",
               gz->path, (long long)(gz->size - end), (long long)end);
    return SPMD_OK;
}

static spmd_status read_open(gz_reader *gz, int ninner, const int64_t *inner, uint8_t **data, int64_t *count)
{
    int64_t item = 0;
    SPMD_TRY(read_header(gz, ninner, inner, count, &item));
    size_t bytes = (size_t)(*count * item);
    *data = malloc(bytes ? bytes : 1);
    SPMD_CHECK(*data, SPMD_ENOMEM, "%s: no memory for %zu bytes", gz->path, bytes);
    spmd_status status = read_items(gz, *count, item, *data);
    if (status != SPMD_OK) {
        free(*data);
        *data = NULL;
    }
    return status;
}

spmd_status spmd__idx_read(const char *path, int ninner, const int64_t *inner, uint8_t **data, int64_t *count)
{
    *data = NULL;
    SPMD_CHECK(ninner >= 0 && ninner <= MAX_INNER, SPMD_EINVAL, "%s: %d inner dimensions, expected 0 to %d", path,
               ninner, MAX_INNER);
    gz_reader *gz = calloc(1, sizeof *gz);
    SPMD_CHECK(gz, SPMD_ENOMEM, "%s: no memory for a buffer of %zu bytes", path, sizeof *gz);
    gz->path = path;
    gz->file = fopen(path, "rb");
    struct stat info;
    spmd_status status;
    if (!gz->file || fstat(fileno(gz->file), &info) != 0) {
        status = SPMD_FAIL(SPMD_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    } else if (inflateInit2(&gz->z, MAX_WBITS + 16) != Z_OK) { /* + 16: gzip, and nothing else */
        status = SPMD_FAIL(SPMD_ENOMEM, "%s: no memory to uncompress it", path);
    } else {
        gz->size = (int64_t)info.st_size;
        status = read_open(gz, ninner, inner, data, count);
        inflateEnd(&gz->z);
    }
    if (gz->file)
        fclose(gz->file);
    free(gz);
    return status;
}
