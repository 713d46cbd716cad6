/* Memory: one counted allocator for everything that the library keeps, and a bump arena per device for a launch. */
#include "spmd/ctx.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, FIRST_CHUNK = 1 << 20 };

void *spmd__alloc(spmd_mesh *mesh, size_t bytes)
{
    void *memory = NULL;
    bool huge = bytes >= HUGE_PAGE; /* first touch is four times faster with huge pages */
    size_t align = huge ? HUGE_PAGE : ALIGN, rounded = (bytes + align - 1) / align * align;
    if (rounded >= bytes && spmd__permitted(mesh, SPMD_ALLOCATION, bytes))
        memory = aligned_alloc(align, rounded ? rounded : align);
    if (!memory)
        SPMD_FAIL(SPMD_ENOMEM, "out of memory: %zu bytes wanted; use fewer devices or smaller blocks", bytes);
    else if (huge)
        madvise(memory, rounded, MADV_HUGEPAGE); /* only advice */
    return memory;
}

void spmd__free(void *memory)
{
    free(memory);
}

void spmd__clear(void *memory, size_t bytes)
{
    size_t pages = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (bytes < HUGE_PAGE || madvise(memory, pages, MADV_DONTNEED) != 0)
        memset(memory, 0, bytes);
}

static void *take(spmd_chunk *chunk, size_t bytes)
{
    if (!chunk || chunk->size - chunk->used < bytes)
        return NULL;
    void *memory = chunk->memory + chunk->used;
    chunk->used += bytes;
    return memory;
}

static spmd_chunk *new_chunk(spmd_arena *arena, size_t bytes)
{
    size_t size = FIRST_CHUNK;
    for (spmd_chunk *c = arena->first; c; c = c->next)
        size = c->size >= size ? 2 * c->size : size; /* doubling: few chunks whatever the step needs */
    size = size > (size_t)256 << 20 ? (size_t)256 << 20 : size;
    size = size < bytes ? bytes : size;
    spmd_chunk *chunk = spmd__alloc(arena->mesh, sizeof *chunk);
    if (!chunk)
        return NULL;
    *chunk = (spmd_chunk){.size = size, .memory = spmd__alloc(arena->mesh, size)};
    if (!chunk->memory) {
        spmd__free(chunk);
        return NULL;
    }
    return chunk;
}

void *spmd__arena_get(spmd_arena *arena, size_t bytes)
{
    size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (rounded < bytes) /* beyond what a size can say */
        return spmd__alloc(arena->mesh, bytes);
    rounded = rounded ? rounded : ALIGN; /* distinct addresses even for empty tensors */
    for (void *memory; arena->current; arena->current = arena->current->next) {
        if ((memory = take(arena->current, rounded))) {
            arena->used += rounded;
            return memory;
        }
        if (!arena->current->next)
            break;
    }
    if (arena->fixed) {
        SPMD_FAIL(SPMD_ENOMEM,
                  "out of device memory: %zu bytes wanted of the %zu that a device of this mesh keeps for values; use "
                  "smaller blocks, more devices or a jit, or set SPMD_CUDA_MEMORY (MiB a device)",
                  rounded, arena->fixed);
        return NULL;
    }
    spmd_chunk *chunk = new_chunk(arena, rounded);
    if (!chunk)
        return NULL;
    if (arena->current)
        arena->current->next = chunk;
    else
        arena->first = chunk;
    arena->current = chunk;
    arena->used += rounded;
    return take(chunk, rounded);
}

void spmd__arena_release(spmd_arena *arena, spmd_mark mark)
{
    for (spmd_chunk *c = mark.chunk ? mark.chunk->next : arena->first; c; c = c->next)
        c->used = 0;
    arena->current = mark.chunk ? mark.chunk : arena->first;
    if (mark.chunk)
        mark.chunk->used = mark.used;
    arena->used = mark.total;
}

bool spmd__arena_holds(const spmd_arena *arena, const void *memory)
{
    for (const spmd_chunk *c = arena->first; c; c = c->next)
        if ((uintptr_t)memory - (uintptr_t)c->memory < c->size)
            return true;
    return false;
}

void spmd__arena_reset(spmd_arena *arena)
{
    for (spmd_chunk *c = arena->first; c; c = c->next)
        c->used = 0;
    arena->current = arena->first;
    arena->used = 0;
}

void spmd__arena_free(spmd_arena *arena)
{
    for (spmd_chunk *c = arena->first, *next; c; c = next) {
        next = c->next;
        spmd__free(c->memory);
        spmd__free(c);
    }
    arena->first = arena->current = NULL;
}
