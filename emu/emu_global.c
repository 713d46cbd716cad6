/* Global memory's shadow: a cell for every 4-byte word, and one for each byte of words that were accessed in parts. */
#include "emu/emu_check.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WRITTEN = 0x0f /* a bit a byte */, ALLOCATED = 0x10, FREED = 0x20, SPLIT = 0x40 };

typedef struct cell {
    uint32_t writer_op, reader_ops;
    emu_trace writer, reader; /* of writer_op, and of reader_ops if that is one op */
} cell;

static struct {
    pthread_once_t once;
    cell *word, *byte;
    uint8_t *state;
} shadow = {.once = PTHREAD_ONCE_INIT};

static void *reserve(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        emu_fatal("no address space for the checker (%zu bytes): raise ulimit -v, or emulate fewer devices", size);
    return p;
}

static void make_shadow(void)
{
    size_t words = emu_memory.slot * ((size_t)emu_memory.devices + 1) / 4;
    shadow.word = reserve(words * sizeof(cell));
    shadow.byte = reserve(4 * words * sizeof(cell));
    shadow.state = reserve(words);
}

static size_t word_of(const void *p)
{
    return (size_t)((const char *)p - emu_memory.base) / 4;
}

/* Zeros; gives the memory of whole pages back. */
static void clear(void *p, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *from = p, *end = from + size;
    char *first = (char *)(((uintptr_t)from + page - 1) & ~(page - 1)), *last = (char *)((uintptr_t)end & ~(page - 1));
    if (size < (size_t)1 << 20) {
        memset(p, 0, size);
        return;
    }
    memset(from, 0, (size_t)(first - from));
    memset(last, 0, (size_t)(end - last));
    madvise(first, (size_t)(last - first), MADV_DONTNEED);
}

void emu_check_alloc(const void *p, size_t size)
{
    if (!emu_checking() || !size)
        return;
    pthread_once(&shadow.once, make_shadow);
    size_t first = word_of(p), words = (size + 3) / 4, tail = size % 4;
    memset(shadow.state + first, ALLOCATED, words);
    clear(shadow.word + first, words * sizeof(cell));
    if (tail) {
        cell *byte = &shadow.byte[4 * (first + words - 1)];
        memset(byte, 0, 4 * sizeof *byte);
        for (size_t i = tail; i < 4; i++)
            byte[i].writer_op = EMU_NO_BYTE;
        shadow.state[first + words - 1] |= SPLIT;
    }
}

void emu_check_free(const void *p, size_t size)
{
    if (!emu_checking() || !size)
        return;
    pthread_once(&shadow.once, make_shadow);
    memset(shadow.state + word_of(p), FREED, (size + 3) / 4);
}

/* False: it is no memory at all. */
static bool check_cell(const emu_access *a, cell *c)
{
    uint32_t id = a->op->id;
    if (c->writer_op == id) {
        if (a->ex && !emu_trace_ordered(a->ex, a->block, c->writer, a->now))
            emu_found_race(a, c->writer, true);
    } else if (c->writer_op == EMU_NO_BYTE) {
        emu_found_state(a, false);
        return false;
    } else if (c->writer_op && !(c->writer.who & a->now.who & EMU_ATOMIC) && !emu_happened(c->writer_op, a->op)) {
        emu_found_stream_race(a, c->writer_op, true);
    }
    if (!a->write) {
        if (c->reader_ops != id) {
            c->reader_ops = emu_readers_add(c->reader_ops, a->op);
            c->reader = a->now;
        } else if (a->ex) {
            emu_trace_add_reader(a->ex, a->block, &c->reader, a->now);
        }
        return true;
    }
    if (c->reader_ops == id) {
        if (a->ex && !emu_trace_ordered(a->ex, a->block, c->reader, a->now))
            emu_found_race(a, c->reader, false);
    } else if (c->reader_ops) {
        uint32_t conflict = emu_readers_conflict(c->reader_ops, a->op);
        if (conflict)
            emu_found_stream_race(a, conflict, false);
    }
    emu_trace now = a->ex && c->writer_op == id ? emu_trace_writer(a->ex, a->block, c->writer, a->now) : a->now;
    *c = (cell){.writer_op = id, .writer = now};
    return true;
}

static void split(size_t word)
{
    for (int i = 0; i < 4; i++)
        shadow.byte[4 * word + (size_t)i] = shadow.word[word];
    shadow.state[word] |= SPLIT;
}

/* `bytes`: a bit for each byte of the word that is accessed. */
static void check_word(const emu_access *a, size_t word, unsigned bytes, bool need_written)
{
    uint8_t state = shadow.state[word];
    if (!(state & ALLOCATED)) {
        emu_found_state(a, (state & FREED) != 0);
        return;
    }
    if (bytes != WRITTEN && !(state & SPLIT))
        split(word);
    if (shadow.state[word] & SPLIT) {
        for (size_t i = 0; i < 4; i++)
            if (bytes >> i & 1 && !check_cell(a, &shadow.byte[4 * word + i]))
                return;
    } else {
        check_cell(a, &shadow.word[word]);
    }
    if (a->write) {
        if ((state & bytes) != bytes)
            shadow.state[word] |= (uint8_t)bytes;
    } else if (need_written && (state & bytes) != bytes) {
        emu_found_unwritten(a);
    }
}

static void global_access(const emu_access *access, int place, bool need_written)
{
    const emu_op *op = access->op;
    bool library_crosses = op->kind == EMU_COPY || op->kind == EMU_COLLECTIVE;
    if (!shadow.state)
        return; /* nothing was allocated */
    if (place != op->device && place != emu_memory.devices && op->device >= 0 && !library_crosses &&
        !emu_peer_allowed(op->device, place))
        emu_found_peer(access, place);
    need_written = need_written && place != emu_memory.devices; /* not all that writes pinned memory is seen */
    emu_access a = *access;
    uintptr_t at = (uintptr_t)access->address;
    for (size_t left = access->size; left;) {
        size_t from = at % 4, n = 4 - from < left ? 4 - from : left;
        a.address = (const void *)at;
        check_word(&a, word_of(a.address), ((1u << n) - 1) << from, need_written);
        at += n;
        left -= n;
    }
}

void emu_flag_access(const emu_access *access)
{
    int place = emu_place_of(access->address);
    if (!shadow.state || place == EMU_ELSEWHERE)
        return;
    size_t word = word_of(access->address);
    if (place != access->op->device && place != emu_memory.devices && !emu_peer_allowed(access->op->device, place))
        emu_found_peer(access, place);
    if (!(shadow.state[word] & ALLOCATED))
        emu_found_state(access, (shadow.state[word] & FREED) != 0);
    else if (access->write)
        shadow.state[word] |= WRITTEN;
    else if ((shadow.state[word] & WRITTEN) != WRITTEN)
        emu_found_unwritten(access);
}

/* --- ops of libraries --- */
static void check_range(emu_op *op, const void *p, size_t size, bool write, bool need_written)
{
    int place = emu_place_of(p);
    if (!emu_checking() || !size || place == EMU_ELSEWHERE)
        return;
    emu_access access = {.op = op, .address = p, .size = size, .write = write};
    global_access(&access, place, need_written);
}

void emu_check_read(emu_op *op, const void *p, size_t size)
{
    check_range(op, p, size, false, true);
}

void emu_check_write(emu_op *op, const void *p, size_t size)
{
    check_range(op, p, size, true, false);
}

void emu_check_copy(emu_op *op, void *dst, const void *src, size_t size)
{
    int to = emu_place_of(dst), from = emu_place_of(src);
    bool on_devices = to >= 0 && to < emu_memory.devices && from >= 0 && from < emu_memory.devices;
    check_range(op, src, size, false, !on_devices);
    check_range(op, dst, size, true, false);
    if (!emu_checking() || !on_devices)
        return;
    for (size_t i = 0; i < size; i++) {
        const char *source = (const char *)src + i;
        char *target = (char *)dst + i;
        unsigned written = shadow.state[word_of(source)] >> (uintptr_t)source % 4 & 1;
        uint8_t bit = (uint8_t)(1u << (uintptr_t)target % 4), *state = &shadow.state[word_of(target)];
        *state = written ? *state | bit : *state & (uint8_t)~bit;
    }
}

/* --- the host --- */
static void host_access(const void *p, size_t size, bool write, const void *site)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static emu_op host; /* what the host did since it last issued an op */
    pthread_mutex_lock(&mutex);
    emu_lock();
    if (!host.id || host.seq != emu_host.seq + 1) {
        host.name = emu_intern("host code");
        host.kind = EMU_HOST_FUNCTION;
        host.device = EMU_ELSEWHERE;
        host.seq = emu_host.seq + 1;
        emu_check_begin(&host);
    }
    emu_clock_raise(&emu_host.clock, 0, host.seq);
    emu_clock_join(&host.clock, &emu_host.clock);
    emu_unlock();
    emu_access access = {.op = &host, .address = p, .size = size, .write = write, .site = site};
    global_access(&access, emu_memory.devices, false);
    pthread_mutex_unlock(&mutex);
}

void emu_observe(const void *p, size_t size, bool write, bool atomic, const void *site)
{
    emu_execution *ex = emu_now.running;
    int place;
    if (ex) {
        emu_thread *thread = emu_now.thread;
        emu_block *block = ex->current;
        ex->accesses++;
        emu_access access = {ex->op, ex, block, emu_trace_now(thread, atomic, site), p, site, size, write};
        size_t offset = (size_t)((const char *)p - block->smem);
        if (offset < EMU_SMEM_SLOT) {
            if (block->shadow)
                emu_smem_access(&access, offset);
        } else if ((place = emu_place_of(p)) != EMU_ELSEWHERE) {
            global_access(&access, place, true);
        } else if (!emu_on_fiber_stack(p)) {
            emu_found_host_memory(&access);
        }
    } else if ((place = emu_place_of(p)) != EMU_ELSEWHERE) {
        emu_op *op = emu_current_op();
        emu_access access = {.op = op, .address = p, .size = size, .write = write, .site = site};
        if (place < emu_memory.devices && (!op || op->kind == EMU_HOST_FUNCTION))
            emu_found_host_memory(&access);
        else if (op)
            global_access(&access, place, true);
        else
            host_access(p, size, write, site);
    }
}
