/* Which op happened before which: vector clocks, and interned sets of readers. */
#include "emu/emu_check.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, CHUNKS = 1 << 16 };
static emu_op_info *chunks[CHUNKS];
static atomic_uint ids = 1;
static pthread_mutex_t order_mutex = PTHREAD_MUTEX_INITIALIZER;

const emu_op_info *emu_info(uint32_t id)
{
    return &chunks[id / CHUNK][id % CHUNK];
}

void emu_check_begin(emu_op *op)
{
    uint32_t id = atomic_fetch_add(&ids, 1);
    if (id >= (uint32_t)CHUNK * CHUNKS)
        emu_fatal("more than %u ops in one process: check a shorter run", (uint32_t)CHUNK * CHUNKS);
    pthread_mutex_lock(&order_mutex);
    if (!chunks[id / CHUNK])
        chunks[id / CHUNK] = emu_alloc(CHUNK * sizeof(emu_op_info));
    pthread_mutex_unlock(&order_mutex);
    chunks[id / CHUNK][id % CHUNK] = (emu_op_info){op->name, op->lane, op->seq};
    op->id = id;
}

static bool happened(uint32_t id, const emu_op *op)
{
    const emu_op_info *info = emu_info(id);
    return id == op->id || emu_clock_at(&op->clock, info->lane) >= info->seq;
}

bool emu_happened(uint32_t id, const emu_op *op)
{
    enum { KNOWN = 4 };
    static _Thread_local struct {
        uint32_t op, known[KNOWN];
        unsigned at;
    } cache; /* clocks only grow while an op runs: what happened before it stays so */
    if (cache.op != op->id) {
        memset(&cache, 0, sizeof cache);
        cache.op = op->id;
    }
    for (int i = 0; i < KNOWN; i++)
        if (cache.known[i] == id)
            return true;
    if (!happened(id, op))
        return false;
    cache.known[cache.at++ % KNOWN] = id;
    return true;
}

/* --- sets of readers: ids with the top bit set. A set never changes; equal sets are one. --- */
enum { SET = (int)0x80000000, BUCKETS = 4096 };
typedef struct reader_set {
    uint32_t n, next; /* next of its bucket, + 1 */
    uint32_t *id;     /* ascending */
} reader_set;
static struct {
    reader_set *set;
    uint32_t n, capacity;
    uint32_t bucket[BUCKETS]; /* index + 1 */
} sets;

static bool is_set(uint32_t readers)
{
    return (readers & (uint32_t)SET) != 0;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t intern_set(uint32_t *id, uint32_t n)
{
    if (n == 1)
        return id[0];
    qsort(id, n, sizeof *id, compare_ids);
    unsigned hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = emu_hash(hash, id[i], 1);
    uint32_t *bucket = &sets.bucket[hash % BUCKETS];
    for (uint32_t at = *bucket; at; at = sets.set[at - 1].next)
        if (sets.set[at - 1].n == n && memcmp(sets.set[at - 1].id, id, n * sizeof *id) == 0)
            return (uint32_t)SET | (at - 1);
    if (sets.n == sets.capacity) {
        sets.capacity = 2 * sets.capacity + 64;
        sets.set = emu_resize(sets.set, sets.capacity * sizeof *sets.set);
    }
    uint32_t *copy = emu_alloc(n * sizeof *id);
    memcpy(copy, id, n * sizeof *id);
    sets.set[sets.n] = (reader_set){n, *bucket, copy};
    *bucket = ++sets.n;
    return (uint32_t)SET | (sets.n - 1);
}

static uint32_t set_with(uint32_t readers, const emu_op *op)
{
    const reader_set one = {1, 0, &readers}, *old = is_set(readers) ? &sets.set[readers & ~(uint32_t)SET] : &one;
    uint32_t *id = emu_alloc((old->n + 1) * sizeof *id), n = 0;
    for (uint32_t i = 0; i < old->n; i++) /* those that happened before op need not be kept */
        if (old->id[i] != op->id && !happened(old->id[i], op))
            id[n++] = old->id[i];
    id[n++] = op->id;
    uint32_t result = intern_set(id, n);
    free(id);
    return result;
}

uint32_t emu_readers_add(uint32_t readers, const emu_op *op)
{
    static _Thread_local struct {
        uint32_t readers, op, result;
    } last;
    if (!readers || readers == op->id || (!is_set(readers) && emu_happened(readers, op)))
        return op->id;
    if (last.readers == readers && last.op == op->id)
        return last.result;
    pthread_mutex_lock(&order_mutex);
    uint32_t result = set_with(readers, op);
    pthread_mutex_unlock(&order_mutex);
    last.readers = readers;
    last.op = op->id;
    last.result = result;
    return result;
}

uint32_t emu_readers_conflict(uint32_t readers, const emu_op *op)
{
    uint32_t conflict = 0;
    if (!readers || readers == op->id)
        return 0;
    if (!is_set(readers))
        return emu_happened(readers, op) ? 0 : readers;
    pthread_mutex_lock(&order_mutex);
    const reader_set *set = &sets.set[readers & ~(uint32_t)SET];
    for (uint32_t i = 0; i < set->n && !conflict; i++)
        if (!happened(set->id[i], op))
            conflict = set->id[i];
    pthread_mutex_unlock(&order_mutex);
    return conflict;
}
