/* A published file into the cache: mirrors in turn, continuing what broke off, checked before it gets its name. */
#include "models/data/download.h"
#include "models/data/checksum.h"
#include "models/data/http.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A round asks every mirror once. Rounds go on while they bring new bytes; two in a row without any end it, so that a
 * dead network costs seconds and a bad one still gets there. */
enum { MAX_ROUNDS = 20, IDLE_ROUNDS = 2, PAUSE_MS = 200, STALL_S = 20, MAX_URL = 2048 };

typedef struct fetch {
    const spmd__download *download;
    char *path, *part; /* final and temporary name */
    int fd;            /* of part */
    int64_t have;      /* bytes in part */
    bool wrong;        /* some mirror sent the whole file, with other bytes */
} fetch;

/* The bytes are on disk before the name is there: a power cut leaves the old state or the new one. */
static spmd_status publish(fetch *f)
{
    const char *folder = f->download->folder;
    SPMD_CHECK(fsync(f->fd) == 0, SPMD_EIO, "%s: cannot be written to disk: %s: make room for it", f->part,
               strerror(errno));
    SPMD_CHECK(rename(f->part, f->path) == 0, SPMD_EIO, "%s: cannot be renamed to %s: %s", f->part, f->path,
               strerror(errno));
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        fsync(dir); /* some file systems cannot sync a folder: the file is whole all the same */
        close(dir);
    }
    return SPMD_OK;
}

/* Wrong bytes: start again from nothing. */
static spmd_status refuse_part(fetch *f, bool fresh, spmd_status status)
{
    f->have = 0;
    f->wrong = f->wrong || fresh;
    return status;
}

/* One mirror, one try: OK when part is the published file. */
static spmd_status try_mirror(fetch *f, const char *mirror, bool *network)
{
    const spmd__download *d = f->download;
    char url[MAX_URL];
    int n = snprintf(url, sizeof url, "%s%s", mirror, d->file->name);
    SPMD_CHECK(n < MAX_URL, SPMD_EINVAL, "the URL of %s has %d characters, expected fewer than %d", d->file->name, n,
               MAX_URL);
    bool fresh = f->have == 0; /* else wrong bytes may come from what an earlier, broken try left */
    if (f->have < d->file->bytes) {
        spmd__http_request request = {
            .url = url,
            .file = d->file->name,
            .fd = f->fd,
            .from = f->have,
            .bytes = d->file->bytes,
            .stall_s = d->stall_s ? d->stall_s : STALL_S,
            .progress = d->progress,
            .user = d->user,
        };
        spmd_status status = spmd__http_get(&request, &f->have, network);
        SPMD_TRY(status == SPMD_EDATA ? refuse_part(f, fresh, status) : status);
    }
    spmd_status status = spmd__file_check(f->part, d->file);
    SPMD_TRY(status == SPMD_EDATA ? refuse_part(f, fresh, status) : status);
    if (d->progress)
        d->progress(d->user, d->file->name, d->file->bytes, d->file->bytes);
    return SPMD_OK;
}

void spmd__last_reason(char *text, size_t size)
{
    snprintf(text, size, "%s", spmd_last_error());
    char *path = strstr(text, " [");
    if (path)
        *path = 0;
}

static spmd_status try_all(fetch *f, bool *network)
{
    spmd_status status = SPMD_OK;
    int idle = 0, tries = 0;
    for (int round = 0; round < MAX_ROUNDS && idle < IDLE_ROUNDS; round++) {
        int64_t before = f->have;
        for (int i = 0; f->download->mirrors[i]; i++) {
            *network = false;
            status = try_mirror(f, f->download->mirrors[i], network);
            if (status == SPMD_OK)
                return SPMD_OK;
            if (!*network && status != SPMD_EDATA) /* ours, not the mirror's: no use in asking the next */
                return spmd_trace_at(__FILE__, __LINE__, status);
            tries++;
        }
        idle = f->have > before ? 0 : idle + 1;
        struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
        if (idle < IDLE_ROUNDS)
            nanosleep(&pause, NULL);
    }
    char last[1024];
    spmd__last_reason(last, sizeof last);
    *network = !f->wrong;
    return SPMD_FAIL(f->wrong ? SPMD_EDATA : status, "%s could not be fetched in %d tries; the last one: %s",
                     f->download->file->name, tries, last);
}

static spmd_status fetch_part(fetch *f, bool *network)
{
    f->fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct stat info;
    SPMD_CHECK(f->fd >= 0 && fstat(f->fd, &info) == 0, SPMD_EIO,
               "%s: cannot be written: %s: make the folder writable, or set XDG_CACHE_HOME to another", f->part,
               strerror(errno));
    f->have = info.st_size <= f->download->file->bytes ? (int64_t)info.st_size : 0;
    SPMD_TRY(try_all(f, network));
    return publish(f);
}

/* With the folder's lock held. */
static spmd_status fetch_locked(fetch *f, bool *network)
{
    if (spmd__file_check(f->path, f->download->file) == SPMD_OK)
        return SPMD_OK; /* another process was first */
    f->fd = -1;
    spmd_status status = fetch_part(f, network);
    if (f->fd >= 0) {
        if (status != SPMD_OK && f->have == 0)
            unlink(f->part); /* nothing worth continuing */
        close(f->fd);
    }
    return status;
}

static spmd_status lock_folder(const char *path, int *fd)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    SPMD_CHECK(*fd >= 0, SPMD_EIO,
               "%s: cannot be opened: %s: make the folder writable, or set XDG_CACHE_HOME to another", path,
               strerror(errno));
    int failed;
    do
        failed = flock(*fd, LOCK_EX);
    while (failed && errno == EINTR);
    if (failed) {
        spmd_status status = SPMD_FAIL(SPMD_EIO, "%s: cannot be locked: %s", path, strerror(errno));
        close(*fd);
        return status;
    }
    return SPMD_OK;
}

/* folder/name + suffix, malloc'ed; NULL: no memory. */
static char *join(const char *folder, const char *name, const char *suffix)
{
    size_t size = strlen(folder) + strlen(name) + strlen(suffix) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s%s", folder, name, suffix);
    return path;
}

spmd_status spmd__download_file(const spmd__download *download, bool *network)
{
    *network = false;
    fetch f = {.download = download, .fd = -1};
    char *lock = join(download->folder, ".lock", "");
    f.path = join(download->folder, download->file->name, "");
    f.part = join(download->folder, download->file->name, ".part");
    spmd_status status;
    int lock_fd;
    if (!lock || !f.path || !f.part) {
        status = SPMD_FAIL(SPMD_ENOMEM, "%s: no memory for its path", download->file->name);
    } else if ((status = lock_folder(lock, &lock_fd)) == SPMD_OK) {
        status = fetch_locked(&f, network);
        close(lock_fd); /* and with it the lock */
    }
    free(lock);
    free(f.path);
    free(f.part);
    return status;
}
