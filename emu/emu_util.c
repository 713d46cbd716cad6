#include "emu/emu_private.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void emu_fatal(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("[emu] fatal: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    fflush(stderr);
    _exit(67);
}

void *emu_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        emu_fatal("no memory for %zu bytes of bookkeeping", size);
    return p;
}

void *emu_resize(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);
    if (!q)
        emu_fatal("no memory for %zu bytes of bookkeeping", size);
    return q;
}

unsigned emu_hash(unsigned a, unsigned b, unsigned c)
{
    uint64_t x = ((uint64_t)a << 32 | b) + 0x9e3779b97f4a7c15ull * (c + 1ull);
    for (int round = 0; round < 2; round++) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
        x ^= x >> 27;
    }
    return (unsigned)(x >> 16);
}

/* --- names --- */
enum { NAME_BUCKETS = 256 };
typedef struct name {
    struct name *next;
    char text[];
} name;
static struct {
    pthread_mutex_t mutex;
    name *bucket[NAME_BUCKETS];
} names = {.mutex = PTHREAD_MUTEX_INITIALIZER};

const char *emu_intern(const char *text)
{
    size_t size = strlen(text);
    if (size > 2 && text[0] == '(' && text[size - 1] == ')') {
        text++;
        size -= 2;
    }
    unsigned hash = 0;
    for (size_t i = 0; i < size; i++)
        hash = hash * 31 + (unsigned char)text[i];
    pthread_mutex_lock(&names.mutex);
    name **bucket = &names.bucket[hash % NAME_BUCKETS], *found = *bucket;
    while (found && (strncmp(found->text, text, size) != 0 || found->text[size]))
        found = found->next;
    if (!found) {
        found = emu_alloc(sizeof *found + size + 1);
        memcpy(found->text, text, size);
        found->next = *bucket;
        *bucket = found;
    }
    pthread_mutex_unlock(&names.mutex);
    return found->text;
}

/* --- clocks --- */
void emu_clock_raise(emu_clock *clock, uint32_t lane, uint32_t seq)
{
    if (lane >= clock->n) {
        uint32_t n = lane + lane / 2 + 8;
        clock->at = emu_resize(clock->at, n * sizeof *clock->at);
        memset(clock->at + clock->n, 0, (n - clock->n) * sizeof *clock->at);
        clock->n = n;
    }
    if (clock->at[lane] < seq)
        clock->at[lane] = seq;
}

void emu_clock_join(emu_clock *into, const emu_clock *from)
{
    for (uint32_t lane = from->n; lane-- > 0;)
        if (from->at[lane])
            emu_clock_raise(into, lane, from->at[lane]);
}

void emu_clock_free(emu_clock *clock)
{
    free(clock->at);
    *clock = (emu_clock){0};
}
