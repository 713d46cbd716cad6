/* Shared memory's shadow: as global memory's, but of one block and so without ops. */
#include "emu/emu_check.h"
#include <string.h>
#include <stdio.h>

enum { WORDS = EMU_SMEM_SLOT / 4, OURS = 0x0f /* a bit a byte: of a variable */, SPLIT = 0x40 };

typedef struct cell {
    emu_trace writer, reader;
} cell;

/* Cells of earlier blocks stay: their epochs lie before the block's base. */
struct emu_smem_shadow {
    cell word[WORDS], byte[4 * WORDS];
    uint8_t state[WORDS];
    size_t states; /* not zero are only those before */
};

struct emu_smem_shadow *emu_shadow_new(void)
{
    return emu_alloc(sizeof(struct emu_smem_shadow));
}

void emu_shadow_start(emu_block *block)
{
    memset(block->shadow->state, 0, block->shadow->states);
    block->shadow->states = 0;
    if (block->dynamic_size)
        emu_shadow_variable(block, 0, block->dynamic_size);
}

void emu_shadow_variable(emu_block *block, size_t offset, size_t size)
{
    uint8_t *state = block->shadow->state;
    memset(state + offset / 4, OURS, size / 4);
    if (size % 4)
        state[(offset + size) / 4] = (uint8_t)((1u << size % 4) - 1);
    size_t end = (offset + size + 3) / 4;
    if (block->shadow->states < end)
        block->shadow->states = end;
}

static void tell(const emu_access *a, const char *kind, const char *what, const char *remedy)
{
    char site[300];
    emu_site_text(a->site, site, sizeof site);
    const emu_thread *thread = emu_now.thread;
    const uint3 *block = &thread->block->index, *index = &thread->index;
    emu_report(kind, "%s: kernel %s block (%u,%u,%u) thread (%u,%u,%u) %s %zu bytes of shared memory at %p, %s. %s",
               site, a->ex->launch->name, block->x, block->y, block->z, index->x, index->y, index->z,
               a->write ? "writes" : "reads", a->size, a->address, what, remedy);
}

static void found(const emu_access *a, const char *kind, const char *what, const char *remedy)
{
    if (emu_report_new(kind, a->site, a->ex->launch->name))
        tell(a, kind, what, remedy);
}

static void found_outside(const emu_access *a, size_t offset)
{
    const emu_block *block = a->block;
    const char *name = "the dynamic shared memory";
    size_t end = block->dynamic_size;
    char what[200];
    for (int i = 0; i < block->variables; i++) {
        const emu_variable *variable = &block->variable[i];
        if (variable->offset <= offset && variable->offset + variable->size > end) {
            name = variable->name;
            end = variable->offset + variable->size;
        }
    }
    if (end)
        snprintf(what, sizeof what, "which is outside of every variable, %zu bytes behind the end of %s", offset - end,
                 name);
    else
        snprintf(what, sizeof what, "but the block has none");
    found(a, "memcheck", what, "Check the index against the variable's size, and the launch's smem argument");
}

static void found_race(const emu_access *a, emu_trace other, bool other_writes)
{
    char who[400], what[500];
    if (!emu_report_new("racecheck", a->site, a->ex->launch->name))
        return;
    emu_trace_text(other, other_writes, a->site, who, sizeof who);
    snprintf(what, sizeof what, "which %s with no barrier between", who);
    tell(a, "racecheck", what,
         emu_same_warp(other, a->now)
             ? "Put __syncwarp() (or __syncthreads()) between: warp functions do not order memory"
             : "Put __syncthreads() between");
}

static emu_trace of_this_block(const emu_access *a, emu_trace trace)
{
    return trace.epoch < a->block->base ? (emu_trace){0} : trace;
}

static void check_cell(const emu_access *a, cell *c)
{
    emu_trace writer = of_this_block(a, c->writer), reader = of_this_block(a, c->reader);
    if (!emu_trace_ordered(a->ex, a->block, writer, a->now))
        found_race(a, writer, true);
    if (a->write) {
        if (!emu_trace_ordered(a->ex, a->block, reader, a->now))
            found_race(a, reader, false);
        *c = (cell){.writer = emu_trace_writer(a->ex, a->block, writer, a->now)};
        return;
    }
    if (!writer.epoch)
        found(a, "initcheck", "which nobody has written", "Write it first; shared memory starts with any content");
    c->reader = reader;
    emu_trace_add_reader(a->ex, a->block, &c->reader, a->now);
}

void emu_smem_access(const emu_access *access, size_t offset)
{
    struct emu_smem_shadow *shadow = access->block->shadow;
    for (size_t left = access->size; left;) {
        size_t word = offset / 4, from = offset % 4, n = 4 - from < left ? 4 - from : left;
        unsigned bytes = ((1u << n) - 1) << from;
        if (word >= WORDS || (shadow->state[word] & bytes) != bytes) {
            found_outside(access, offset);
            return;
        }
        if (bytes != OURS && !(shadow->state[word] & SPLIT)) {
            for (size_t i = 0; i < 4; i++)
                shadow->byte[4 * word + i] = shadow->word[word];
            shadow->state[word] |= SPLIT;
        }
        if (shadow->state[word] & SPLIT) {
            for (size_t i = from; i < from + n; i++)
                check_cell(access, &shadow->byte[4 * word + i]);
        } else {
            check_cell(access, &shadow->word[word]);
        }
        offset += n;
        left -= n;
    }
}
