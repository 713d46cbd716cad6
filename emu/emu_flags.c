/* Flags by which kernels of other streams or devices order themselves: what happened before the release of a flag
 * happened before what follows its acquire. The order holds for the whole op: finer would be a clock for each thread.
 */
#include "emu/emu_check.h"
#include <stdlib.h>

enum { BUCKETS = 1024 };
typedef struct flag_clock {
    const unsigned *flag;
    emu_clock clock;
    struct flag_clock *next;
} flag_clock;

static struct {
    pthread_mutex_t mutex;
    flag_clock *bucket[BUCKETS];
} flags = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static flag_clock **find(const unsigned *flag)
{
    flag_clock **at = &flags.bucket[(uintptr_t)flag / sizeof *flag % BUCKETS];
    while (*at && (*at)->flag != flag)
        at = &(*at)->next;
    return at;
}

static void check(const unsigned *flag, bool write, const void *site)
{
    emu_execution *ex = emu_now.running;
    ex->fenced = true;
    if (!emu_checking())
        return;
    emu_access access = {ex->op, ex,   ex->current,  emu_trace_now(emu_now.thread, true, site),
                         flag,   site, sizeof *flag, write};
    emu_flag_access(&access);
}

unsigned emu_load_acquire(const unsigned *flag)
{
    check(flag, false, __builtin_return_address(0));
    unsigned value = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
    emu_op *op = emu_now.running->op;
    if (emu_checking()) {
        pthread_mutex_lock(&flags.mutex);
        const flag_clock *found = *find(flag);
        if (found)
            emu_clock_join(&op->clock, &found->clock);
        pthread_mutex_unlock(&flags.mutex);
    }
    return value;
}

void emu_store_release(unsigned *flag, unsigned value)
{
    check(flag, true, __builtin_return_address(0));
    const emu_op *op = emu_now.running->op;
    if (emu_checking()) {
        pthread_mutex_lock(&flags.mutex);
        flag_clock **found = find(flag);
        if (!*found) {
            *found = emu_alloc(sizeof **found);
            (*found)->flag = flag;
        }
        emu_clock_join(&(*found)->clock, &op->clock);
        pthread_mutex_unlock(&flags.mutex);
    }
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}
