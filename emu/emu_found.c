/* The texts of what the checker finds in global memory. */
#include "emu/emu_check.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

void emu_trace_text(emu_trace trace, bool write, const void *near, char *text, size_t size)
{
    int n = trace.who & (EMU_MAX_THREADS - 1);
    char who[80], site[300];
    if (trace.who & EMU_BLOCKS)
        snprintf(who, sizeof who, "threads of several blocks");
    else if (trace.who & EMU_WARPS)
        snprintf(who, sizeof who, "several threads");
    else if (trace.who & EMU_LANES)
        snprintf(who, sizeof who, "several threads of warp %d", n);
    else
        snprintf(who, sizeof who, "thread %d%s", n, trace.who & EMU_ATOMIC ? " (by an atomic function)" : "");
    uintptr_t code = ((uintptr_t)near & ~(uintptr_t)0xffffffff) | trace.site;
    emu_site_text((const void *)code, site, sizeof site);
    snprintf(text, size, "%s %s at %s", who, write ? "wrote" : "read", site);
}

/* "file.cu:7: kernel k block (0,0,0) thread (3,0,0)", or the op's name and stream. */
static void who_and_where(const emu_access *a, char *text, size_t size)
{
    char site[300] = "";
    int used = 0;
    if (a->site) {
        emu_site_text(a->site, site, sizeof site);
        used = snprintf(text, size, "%s: ", site);
    }
    text += used;
    size -= (size_t)used;
    if (a->ex) {
        const uint3 *block = &a->block->index, *thread = &emu_now.thread->index;
        snprintf(text, size, "kernel %s block (%u,%u,%u) thread (%u,%u,%u)", a->ex->launch->name, block->x, block->y,
                 block->z, thread->x, thread->y, thread->z);
    } else if (a->op && a->op->lane) {
        snprintf(text, size, "%s (stream %u)", a->op->name, a->op->lane);
    } else {
        snprintf(text, size, "%s", a->op ? a->op->name : "host code");
    }
}

static const char *op_name(const emu_access *a)
{
    return a->op ? a->op->name : "host code";
}

static void tell(const emu_access *a, const char *kind, const char *what, const char *remedy)
{
    char who[500], memory[300];
    who_and_where(a, who, sizeof who);
    emu_describe_memory(a->address, memory, sizeof memory);
    emu_report(kind, "%s %s %zu bytes at %p, %s: %s. %s", who, a->write ? "writes" : "reads", a->size, a->address,
               memory, what, remedy);
}

static void found(const emu_access *a, const char *kind, const char *what, const char *remedy)
{
    if (emu_report_new(kind, a->site, op_name(a)))
        tell(a, kind, what, remedy);
}

void emu_found_state(const emu_access *a, bool freed)
{
    found(a, "memcheck", freed ? "this memory was freed" : "this memory is not allocated",
          freed ? "Free it after the last use: synchronize, or cudaFreeAsync on the stream that uses it"
                : "Check the index against the size that was allocated");
    a->op->error = cudaErrorIllegalAddress;
}

void emu_found_unwritten(const emu_access *a)
{
    found(a, "initcheck", "nobody has written it", "Copy, set or compute it first");
}

void emu_found_peer(const emu_access *a, int place)
{
    char what[120];
    snprintf(what, sizeof what, "device %d has no access to the memory of device %d", a->op->device, place);
    found(a, "peer", what, "Call cudaDeviceEnablePeerAccess, or copy with cudaMemcpyPeerAsync");
    a->op->error = cudaErrorIllegalAddress;
}

void emu_found_race(const emu_access *a, emu_trace other, bool other_writes)
{
    char who[400], what[600], block_text[40] = "";
    uint32_t block = a->ex->epoch_block[other.epoch - a->ex->first_epoch];
    bool same = !(other.who & EMU_BLOCKS) && block == a->block->linear;
    if (!emu_report_new("race", a->site, op_name(a)))
        return;
    emu_trace_text(other, other_writes, a->site, who, sizeof who);
    if (!(other.who & EMU_BLOCKS))
        snprintf(block_text, sizeof block_text, " (block number %u)", block);
    snprintf(what, sizeof what, "%s%s in the same launch, and nothing orders the two", who, block_text);
    tell(a, "race", what,
         same
             ? "Put __syncthreads() between (__syncwarp() within a warp)"
             : "Blocks run in any order: use another launch, atomics with __threadfence(), or one block's memory only");
}

void emu_found_stream_race(const emu_access *a, uint32_t other, bool other_writes)
{
    const emu_op_info *info = emu_info(other);
    char what[400];
    bool host = !info->lane || !a->op->lane;
    if (info->lane)
        snprintf(what, sizeof what, "%s (stream %u) %s it, and no event or synchronization orders the two", info->name,
                 info->lane, other_writes ? "writes" : "reads");
    else
        snprintf(what, sizeof what, "host code %s it, and no synchronization orders the two",
                 other_writes ? "writes" : "reads");
    found(a, host ? "pinned" : "stream-race", what,
          host ? "The host may touch it after cudaStreamSynchronize or cudaEventSynchronize only"
               : "Record an event behind the first and let the other stream wait for it");
}

/* --- memory of the host --- */
static bool within(const void *p, const void *from, size_t size)
{
    return (size_t)((const char *)p - (const char *)from) < size;
}

/* What a kernel may touch beside device and shared memory: its own built-ins, arguments, and constants. */
static bool is_private(const emu_access *a)
{
    static _Atomic(uintptr_t) known_page; /* of the program's image */
    Dl_info object;
    if (within(a->address, &emu_now, sizeof emu_now) || within(a->address, a->ex->pack, a->ex->launch->pack_size))
        return true;
    uintptr_t page = (uintptr_t)a->address >> 12;
    if (page == known_page)
        return true;
    if (!dladdr(a->address, &object) || !object.dli_fbase)
        return false;
    known_page = page;
    return true;
}

void emu_found_host_memory(const emu_access *a)
{
    if (!a->ex) {
        found(a, "host", "the host cannot reach the memory of a device",
              "Copy it with cudaMemcpyAsync and synchronize");
        return;
    }
    if (is_private(a))
        return;
    found(a, "memcheck", "a kernel cannot reach this memory of the host",
          "Pass memory of cudaMalloc or cudaMallocHost; arguments of a kernel are copied, what they point to is not");
    a->op->error = cudaErrorIllegalAddress;
}
