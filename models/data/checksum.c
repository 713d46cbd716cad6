/* Size and md5 of a file against its entry in the registry. md5 because that is what the data sets' authors publish: it
 * finds damage and mix-ups, it is no protection against a forger.
 * libmd comes with libcurl (one build switch for both); without them the size must do, and gzip's own CRC. */
#include "models/data/checksum.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#ifdef SPMD_HAVE_CURL
#include <md5.h>

static spmd_status file_md5(const char *path, char *hex)
{
    MD5_CTX md5;
    uint8_t buffer[1 << 16];
    MD5Init(&md5);
    FILE *file = fopen(path, "rb");
    SPMD_CHECK(file, SPMD_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;)
        MD5Update(&md5, buffer, n);
    int failed = ferror(file), error = errno;
    fclose(file);
    SPMD_CHECK(!failed, SPMD_EIO, "%s: cannot be read: %s", path, strerror(error));
    MD5End(&md5, hex);
    return SPMD_OK;
}

static spmd_status check_md5(const char *path, const spmd__data_file *want)
{
    char hex[MD5_DIGEST_STRING_LENGTH];
    SPMD_TRY(file_md5(path, hex));
    SPMD_CHECK(strcmp(hex, want->md5) == 0, SPMD_EDATA,
               "%s: md5 is %s, expected %s: replace the file by the published one, or remove it", path, hex, want->md5);
    return SPMD_OK;
}
#else
static spmd_status check_md5(const char *path, const spmd__data_file *want)
{
    (void)path, (void)want;
    return SPMD_OK;
}
#endif

spmd_status spmd__file_check(const char *path, const spmd__data_file *want)
{
    struct stat info;
    SPMD_CHECK(stat(path, &info) == 0, SPMD_EIO, "%s: cannot be looked at: %s", path, strerror(errno));
    SPMD_CHECK(S_ISREG(info.st_mode), SPMD_EDATA, "%s: is not a regular file, expected %s: remove it", path,
               want->name);
    SPMD_CHECK((int64_t)info.st_size == want->bytes, SPMD_EDATA,
               "%s: has %lld bytes, expected %lld: replace the file by the published one, or remove it", path,
               (long long)info.st_size, (long long)want->bytes);
    return check_md5(path, want);
}
