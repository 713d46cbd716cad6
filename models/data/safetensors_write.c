/* Writes safetensors files whole or not at all: into a temporary file beside it, to the disk, then renamed. */
#include "models/safetensors.h"
#include "models/data/safetensors_entry.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static void quote(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(f, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, f);
    fputc('"', f);
}

static size_t tensor_bytes(const spmd_safetensor *t)
{
    size_t bytes = spmd_dtype_size(t->dtype);
    for (int d = 0; d < t->rank; d++)
        bytes *= (size_t)t->shape[d];
    return bytes;
}

/* The header, its checksum still zeros; filled up with spaces, so that the data begins at a multiple of 8. */
static void write_header(FILE *f, const spmd_safetensors_content *c)
{
    size_t begin = 0;
    fputs(SAFETENSORS_CHECKED "00000000\"", f);
    for (int k = 0; k < c->nmetadata; k++) {
        fputc(',', f);
        quote(f, c->metadata[k][0]);
        fputc(':', f);
        quote(f, c->metadata[k][1]);
    }
    fputc('}', f);
    for (int64_t i = 0; i < c->count; i++) {
        const spmd_safetensor *t = &c->tensors[i];
        fputc(',', f);
        quote(f, t->name);
        fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", spmd__safetensors_dtype(t->dtype));
        for (int d = 0; d < t->rank; d++)
            fprintf(f, "%s%lld", d ? "," : "", (long long)t->shape[d]);
        fprintf(f, "],\"data_offsets\":[%zu,%zu]}", begin, begin + tensor_bytes(t));
        begin += tensor_bytes(t);
    }
    fputc('}', f);
    while (ftell(f) % 8 != 0)
        fputc(' ', f);
}

static spmd_status put(FILE *file, const char *path, const void *bytes, size_t size)
{
    SPMD_CHECK(
        fwrite(bytes, 1, size, file) == size, SPMD_EIO,
        "%s: cannot be written: %s; what was there before is untouched: free some space or choose another folder", path,
        strerror(errno));
    return SPMD_OK;
}

static spmd_status write_content(FILE *file, const char *path, const spmd_safetensors_content *c, const char *header,
                                 size_t length)
{
    uint8_t prefix[8];
    char digits[SAFETENSORS_DIGITS + 1];
    uLong crc = crc32_z(crc32(0, NULL, 0), (const Bytef *)header, length);
    for (int i = 0; i < 8; i++)
        prefix[i] = (uint8_t)((uint64_t)length >> (8 * i));
    SPMD_TRY(put(file, path, prefix, 8));
    SPMD_TRY(put(file, path, header, length));
    for (int64_t i = 0; i < c->count; i++) {
        const void *data = c->tensors[i].data;
        if (c->bytes)
            SPMD_TRY(c->bytes(c->user, i, &data));
        crc = crc32_z(crc, data, tensor_bytes(&c->tensors[i]));
        SPMD_TRY(put(file, path, data, tensor_bytes(&c->tensors[i])));
    }
    snprintf(digits, sizeof digits, "%08lx", crc);
    SPMD_CHECK(fseek(file, (long)(8 + sizeof SAFETENSORS_CHECKED - 1), SEEK_SET) == 0, SPMD_EIO,
               "%s: cannot be written: %s", path, strerror(errno));
    SPMD_TRY(put(file, path, digits, SAFETENSORS_DIGITS));
    SPMD_CHECK(
        fflush(file) == 0 && fsync(fileno(file)) == 0, SPMD_EIO,
        "%s: cannot be written: %s; what was there before is untouched: free some space or choose another folder", path,
        strerror(errno));
    return SPMD_OK;
}

/* A rename is on the disk when its folder is. Some file systems cannot do that, and then it is as good as it gets. */
static void sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
}

static spmd_status write_file(const char *path, const char *temporary, const spmd_safetensors_content *c)
{
    char *header = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&header, &length);
    SPMD_CHECK(text, SPMD_ENOMEM, "%s: no memory for its header", path);
    write_header(text, c);
    bool good = fclose(text) == 0;
    FILE *file = good ? fopen(temporary, "wb") : NULL;
    spmd_status status;
    if (!good)
        status = SPMD_FAIL(SPMD_ENOMEM, "%s: no memory for its header", path);
    else if (!file)
        status = SPMD_FAIL(SPMD_EIO, "%s: cannot be made: %s: choose a folder that can be written", temporary,
                           strerror(errno));
    else
        status = write_content(file, path, c, header, length);
    free(header);
    if (file && fclose(file) != 0 && status == SPMD_OK)
        status = SPMD_FAIL(SPMD_EIO, "%s: cannot be written: %s", path, strerror(errno));
    if (status == SPMD_OK && rename(temporary, path) != 0)
        status = SPMD_FAIL(SPMD_EIO, "%s: cannot be renamed to %s: %s", temporary, path, strerror(errno));
    if (status != SPMD_OK && file)
        unlink(temporary);
    return status;
}

spmd_status spmd_safetensors_write(const char *path, const spmd_safetensors_content *content)
{
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    SPMD_CHECK(n < PATH_MAX, SPMD_EINVAL, "the path of the file has %d characters, expected fewer than %d", n,
               PATH_MAX);
    for (int64_t i = 0; i < content->count; i++)
        SPMD_CHECK(content->tensors[i].name && content->tensors[i].name[0], SPMD_EINVAL, "%s: tensor %lld has no name",
                   path, (long long)i);
    SPMD_TRY(write_file(path, temporary, content));
    sync_folder(path);
    return SPMD_OK;
}

bool spmd__safetensors_link(const char *from, const char *to)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.tmp", to) >= PATH_MAX)
        return false;
    unlink(temporary); /* of a program that was killed before it could rename it */
    if (link(from, temporary) != 0)
        return false;
    if (rename(temporary, to) != 0) {
        unlink(temporary);
        return false;
    }
    sync_folder(to);
    return true;
}
