/* Device and pinned memory: one reservation, cut into slots. Every allocation has pages of its own, right-aligned, so
 * that an overrun meets a page that is not there even when nothing is checked. Fresh pages come from a file full of
 * 0xff, copied when written: large arenas cost nothing until they are used. Freed memory is kept for a while. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "emu/emu_runtime.h"

struct emu_memory emu_memory;

enum { PAGE = 4096, ALIGN = 256 };
static const size_t slot_size = (size_t)4 << 30, device_size = (size_t)2 << 30, fresh_size = (size_t)4 << 20;
static const size_t quarantine_size = (size_t)64 << 20;

struct block {
    char *pages; /* of its own; the allocation ends where they end, rounded to ALIGN */
    char *start;
    size_t span, size; /* bytes of pages; bytes asked for */
    bool freed;
    uint64_t freed_at; /* order of frees */
    const char *call;  /* that made it */
};

static struct slot {
    struct block *blocks; /* by address */
    int n, room;
    size_t used, quarantined;
} * slots;
static uint64_t frees;
static int fresh_file;
static struct range {
    const char *start;
    size_t size;
} * registered;
static int nregistered;

void emu_memory_start(void)
{
    size_t count = (size_t)emu_settings.devices + 1;
    char *base = mmap(NULL, slot_size * count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        emu_fatal("no address space for %zu slots of %zu bytes", count, slot_size);
    fresh_file = memfd_create("emu-fresh-memory", MFD_CLOEXEC);
    if (fresh_file < 0 || ftruncate(fresh_file, (off_t)fresh_size))
        emu_fatal("no memory file for fresh device memory");
    void *fill = mmap(NULL, fresh_size, PROT_READ | PROT_WRITE, MAP_SHARED, fresh_file, 0);
    if (fill == MAP_FAILED)
        emu_fatal("no memory for fresh device memory");
    memset(fill, 0xff, fresh_size);
    munmap(fill, fresh_size);
    slots = emu_alloc(sizeof *slots * count);
    emu_memory.slot = slot_size;
    emu_memory.devices = emu_settings.devices;
    emu_memory.base = base;
}

size_t emu_memory_total(void)
{
    return device_size;
}

size_t emu_memory_used(int slot)
{
    return slots[slot].used;
}

static size_t rounded(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* The first block that starts behind p. */
static int position(const struct slot *s, const char *p)
{
    int low = 0, high = s->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->blocks[middle].pages > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void map_fresh(char *pages, size_t span)
{
    for (size_t done = 0; done < span; done += fresh_size) {
        size_t part = span - done < fresh_size ? span - done : fresh_size;
        if (mmap(pages + done, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fresh_file, 0) ==
            MAP_FAILED)
            emu_fatal("no mapping for %zu bytes of device memory", part);
    }
}

static void unmap(char *pages, size_t span)
{
    if (mmap(pages, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        emu_fatal("cannot return %zu bytes of device memory", span);
}

static void forget(struct slot *s, int i)
{
    struct block *b = &s->blocks[i];
    unmap(b->pages, b->span);
    s->quarantined -= b->span;
    memmove(b, b + 1, sizeof *b * (size_t)(s->n - i - 1));
    s->n--;
}

/* Gives up the freed block that has waited longest; false: there is none. */
static bool forget_oldest(struct slot *s)
{
    int oldest = -1;
    for (int i = 0; i < s->n; i++)
        if (s->blocks[i].freed && (oldest < 0 || s->blocks[i].freed_at < s->blocks[oldest].freed_at))
            oldest = i;
    if (oldest >= 0)
        forget(s, oldest);
    return oldest >= 0;
}

/* The place of a gap of `span` bytes, with a page free on either side; -1: none. */
static int find_gap(const struct slot *s, char *base, size_t span, char **pages)
{
    char *from = base + PAGE;
    for (int i = 0; i <= s->n; i++) {
        char *to = i < s->n ? s->blocks[i].pages : base + slot_size;
        if (to > from && (size_t)(to - from) >= span + PAGE) {
            *pages = from;
            return i;
        }
        if (i < s->n)
            from = s->blocks[i].pages + s->blocks[i].span + PAGE;
    }
    return -1;
}

cudaError_t emu_memory_new(int slot, size_t size, const char *call, void **out)
{
    struct slot *s = &slots[slot];
    size_t want = rounded(size ? size : 1, ALIGN), span = rounded(want, PAGE);
    if (size > slot_size || (slot < emu_memory.devices && s->used + want > device_size))
        return cudaErrorMemoryAllocation;
    while (s->quarantined > quarantine_size && forget_oldest(s))
        ;
    char *base = emu_memory.base + (size_t)slot * slot_size, *pages = NULL;
    int at = find_gap(s, base, span, &pages);
    while (at < 0 && forget_oldest(s))
        at = find_gap(s, base, span, &pages);
    if (at < 0)
        return cudaErrorMemoryAllocation;
    map_fresh(pages, span);
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->blocks = emu_resize(s->blocks, sizeof *s->blocks * (size_t)s->room);
    }
    memmove(&s->blocks[at + 1], &s->blocks[at], sizeof *s->blocks * (size_t)(s->n - at));
    s->n++;
    s->blocks[at] = (struct block){.pages = pages, .start = pages + span - want, .span = span, .size = size};
    s->blocks[at].call = call;
    s->used += want;
    emu_check_alloc(s->blocks[at].start, size);
    emu_born(slot < emu_memory.devices ? EMU_DEVICE_MEMORY : EMU_PINNED_MEMORY);
    *out = s->blocks[at].start;
    return cudaSuccess;
}

/* The block whose pages hold p or end before it; NULL: none. */
static struct block *block_near(const void *p)
{
    int place = emu_place_of(p);
    if (place == EMU_ELSEWHERE)
        return NULL;
    struct slot *s = &slots[place];
    int i = position(s, p);
    return i ? &s->blocks[i - 1] : NULL;
}

cudaError_t emu_memory_delete(void *p, const char *call)
{
    struct block *b = block_near(p);
    char text[256];
    if (!b || b->start != p || b->freed) {
        bool twice = b && b->start == p;
        snprintf(text, sizeof text, twice ? "it was freed before" : "no allocation starts there");
        emu_report("free", "%s of %p: %s; free every pointer once, as it was returned", call, p, text);
        return cudaErrorInvalidValue;
    }
    struct slot *s = &slots[emu_place_of(p)];
    b->freed = true;
    b->freed_at = ++frees;
    s->used -= rounded(b->size ? b->size : 1, ALIGN);
    s->quarantined += b->span;
    emu_check_free(b->start, b->size);
    emu_died(emu_place_of(p) < emu_memory.devices ? EMU_DEVICE_MEMORY : EMU_PINNED_MEMORY);
    if (!emu_checking()) /* nobody would report the access: let it fault */
        mprotect(b->pages, b->span, PROT_NONE);
    return cudaSuccess;
}

bool emu_memory_find(const void *p, char **start, size_t *size)
{
    const struct block *b = block_near(p);
    if (!b || b->freed || (const char *)p < b->start || (const char *)p >= b->start + b->size)
        return false;
    *start = b->start;
    *size = b->size;
    return true;
}

static void describe(const struct block *b, const char *p, char *text, size_t size)
{
    int place = emu_place_of(b->start);
    char where[32];
    if (place < emu_memory.devices)
        snprintf(where, sizeof where, "on device %d", place);
    else
        snprintf(where, sizeof where, "in pinned memory");
    const char *freed = b->freed ? ", since freed" : "";
    long long offset = p - b->start;
    if (offset >= 0 && (size_t)offset < b->size)
        snprintf(text, size, "byte %lld of the %zu bytes that %s returned at %p %s%s", offset, b->size, b->call,
                 (void *)b->start, where, freed);
    else
        snprintf(text, size, "%lld bytes %s the %zu bytes that %s returned at %p %s%s",
                 offset < 0 ? -offset : offset - (long long)b->size, offset < 0 ? "before" : "behind", b->size, b->call,
                 (void *)b->start, where, freed);
}

void emu_describe_memory(const void *p, char *text, size_t size)
{
    int place = emu_place_of(p);
    emu_lock();
    struct block *b = block_near(p);
    if (place == EMU_ELSEWHERE) {
        snprintf(text, size, "host memory that CUDA did not allocate");
    } else if (!slots[place].n) {
        snprintf(text, size, "nothing is allocated there");
    } else {
        struct slot *s = &slots[place];
        struct block *next = b ? b + 1 : s->blocks;
        bool has_next = next < s->blocks + s->n;
        size_t behind = b ? (size_t)((const char *)p - b->start) : SIZE_MAX;
        bool closer = has_next &&
                      (!b || (behind >= b->size && (size_t)(next->start - (const char *)p) < behind - b->size));
        describe(closer ? next : b, p, text, size);
    }
    emu_unlock();
}

/* --- host memory that the user made and registered --- */
bool emu_is_pinned(const void *p)
{
    if (emu_place_of(p) == emu_memory.devices)
        return true;
    for (int i = 0; i < nregistered; i++)
        if ((size_t)((const char *)p - registered[i].start) < registered[i].size)
            return true;
    return false;
}

cudaError_t cudaHostRegister(void *p, size_t size, unsigned flags)
{
    EMU_CUDA_ENTER(cudaHostRegister);
    (void)flags;
    if (!p || !size || emu_place_of(p) != EMU_ELSEWHERE)
        return emu_return(cudaErrorInvalidValue);
    emu_lock();
    bool known = emu_is_pinned(p);
    if (!known) {
        registered = emu_resize(registered, sizeof *registered * (size_t)(nregistered + 1));
        registered[nregistered++] = (struct range){p, size};
        emu_born(EMU_PINNED_MEMORY);
    }
    emu_unlock();
    return emu_return(known ? cudaErrorHostMemoryAlreadyRegistered : cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p)
{
    EMU_CUDA_ENTER(cudaHostUnregister);
    cudaError_t error = cudaErrorHostMemoryNotRegistered;
    emu_lock();
    for (int i = 0; i < nregistered && error; i++)
        if (registered[i].start == p) {
            registered[i] = registered[--nregistered];
            emu_died(EMU_PINNED_MEMORY);
            error = cudaSuccess;
        }
    emu_unlock();
    return emu_return(error);
}
