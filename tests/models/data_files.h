/* For tests of the data sets: a folder that goes away, and the files they need in it. */
#ifndef TESTS_MODELS_DATA_FILES_H
#define TESTS_MODELS_DATA_FILES_H

#include "models/data/registry.h"
#include "spmd/testing.h"
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef SPMD_HAVE_CURL
#include <md5.h>
#endif

enum { PATH_SIZE = 1024 };

/* A fresh folder; remove it with folder_remove. */
static inline void folder_make(char path[PATH_SIZE])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, PATH_SIZE, "%s/spmdkit-test-XXXXXX", tmp ? tmp : P_tmpdir);
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static inline void folder_remove(const char *path)
{
    char command[PATH_SIZE + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    ck_assert_int_eq(system(command), 0);
}

static inline const char *path_in(char out[PATH_SIZE], const char *folder, const char *name)
{
    ck_assert_int_lt(snprintf(out, PATH_SIZE, "%s/%s", folder, name), PATH_SIZE);
    return out;
}

static inline void file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "cannot write %s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

/* The whole file, malloc'ed. */
static inline uint8_t *file_read(const char *path, size_t *size)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL && fstat(fileno(file), &info) == 0, "cannot read %s", path);
    *size = (size_t)info.st_size;
    uint8_t *bytes = malloc(*size + 1);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void file_write_gz(const char *path, const void *bytes, size_t size)
{
    gzFile file = gzopen(path, "wb9");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)size), (int)size);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

/* IDX in memory: magic, dimensions, then `size` bytes of data; returns the total. */
static inline size_t idx_make(uint8_t *out, uint32_t magic, int ndims, const uint32_t *dims, const uint8_t *data,
                              size_t size)
{
    uint32_t words[5] = {magic};
    memcpy(words + 1, dims, sizeof(uint32_t) * (size_t)ndims);
    size_t at = 0;
    for (int i = 0; i <= ndims; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            out[at++] = (uint8_t)(words[i] >> shift);
    memcpy(out + at, data, size);
    return at + size;
}

/* md5 in hex; "" where the library is built without it, and then does not look at it either. */
static inline void md5_hex(const void *bytes, size_t size, char hex[33])
{
    hex[0] = 0;
#ifdef SPMD_HAVE_CURL
    MD5Data(bytes, size, hex);
#else
    (void)bytes, (void)size;
#endif
}

/* The registry's entry of a file as it is now. */
static inline spmd__data_file file_entry(const char *folder, const char *name, char hex[33])
{
    char path[PATH_SIZE];
    size_t size;
    uint8_t *bytes = file_read(path_in(path, folder, name), &size);
    md5_hex(bytes, size, hex);
    free(bytes);
    return (spmd__data_file){name, (int64_t)size, hex};
}

#endif
