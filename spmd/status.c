/* The codes and the text of this thread's last failure: the one place with mutable file-scope state, which is
 * thread-local, so that spmd_last_error needs no object and no lock. */
#include "spmd/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    char text[SPMD_ERROR_SIZE]; /* "where: message [file:line < file:line]" */
    char where[96];
} error;

const char *spmd_status_name(spmd_status status)
{
    static const char *const names[] = {"SPMD_OK",
#define NAME(name, text) "SPMD_" #name,
                                        SPMD_STATUS_MAP(NAME)
#undef NAME
    };
    return (unsigned)status < SPMD_STATUS_COUNT ? names[status] : "SPMD_?";
}

const char *spmd_status_text(spmd_status status)
{
    static const char *const texts[] = {"success",
#define TEXT(name, text) text,
                                        SPMD_STATUS_MAP(TEXT)
#undef TEXT
    };
    return (unsigned)status < SPMD_STATUS_COUNT ? texts[status] : "not a status";
}

const char *spmd_last_error(void)
{
    return error.text;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

spmd_status spmd_fail_at(const char *file, int line, spmd_status status, const char *format, ...)
{
    enum { TRAIL = 160 }; /* kept free for the path that SPMD_TRY writes */
    char message[SPMD_ERROR_SIZE - TRAIL - sizeof error.where];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args); /* first: an argument may be the present text */
    va_end(args);
    snprintf(error.text, sizeof error.text, "%s%s%s [%s:%d]", error.where, error.where[0] ? ": " : "", message,
             base_name(file), line);
    return status;
}

spmd_status spmd_trace_at(const char *file, int line, spmd_status status)
{
    size_t used = strlen(error.text);
    char step[64];
    int n = snprintf(step, sizeof step, " < %s:%d]", base_name(file), line);
    if (used && error.text[used - 1] == ']' && n > 0 && (size_t)n < sizeof step && used + (size_t)n < sizeof error.text)
        memcpy(error.text + used - 1, step, (size_t)n + 1);
    return status;
}

void spmd__error_set_where(const char *where)
{
    snprintf(error.where, sizeof error.where, "%s", where ? where : "");
}

bool spmd__error_in_shard(void)
{
    return error.where[0] != 0;
}

void spmd__error_copy(const char *text)
{
    snprintf(error.text, sizeof error.text, "%s", text);
}
