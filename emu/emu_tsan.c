/* What g++ -fsanitize=thread calls for every load and store. These take the place of ThreadSanitizer's own library,
 * which is not linked: so a kernel needs no change to be checked. */
#include "emu/emu_check.h"
#include <stdatomic.h>
#include <stdlib.h>

#define SITE __builtin_return_address(0)

static atomic_bool checking; /* something is compiled for checking */
static atomic_ulong accesses;

bool emu_checking(void)
{
    return atomic_load_explicit(&checking, memory_order_relaxed);
}

unsigned long emu_count_accesses(unsigned long more)
{
    return atomic_fetch_add(&accesses, more) + more;
}

unsigned long emu_accesses(void)
{
    return emu_count_accesses(0);
}

void emu_atomic(const void *address, size_t size, const void *site)
{
    if (emu_checking())
        emu_observe(address, size, true, true, site);
}

void emu_check_async_copy(const emu_async_copy *copy, const void *site)
{
    if (!emu_checking())
        return;
    if (copy->size > copy->zeros)
        emu_observe(copy->from, copy->size - copy->zeros, false, false, site);
    emu_observe(copy->to, copy->size, true, false, site);
}

#ifndef __SANITIZE_THREAD__ /* then the emulator itself is under the real one, and kernels run unchecked */
void __tsan_init(void);
void __tsan_init(void)
{
    atomic_store(&checking, true);
}

void __tsan_func_entry(void *call);
void __tsan_func_entry(void *call)
{
    (void)call;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

#define OBSERVE(name, size, write)                \
    void name(void *p);                           \
    void name(void *p)                            \
    {                                             \
        emu_observe(p, size, write, false, SITE); \
    }
#define OBSERVE_SIZE(size)                            \
    OBSERVE(__tsan_read##size, size, false)           \
    OBSERVE(__tsan_write##size, size, true)           \
    OBSERVE(__tsan_unaligned_read##size, size, false) \
    OBSERVE(__tsan_unaligned_write##size, size, true) \
    OBSERVE(__tsan_volatile_read##size, size, false)  \
    OBSERVE(__tsan_volatile_write##size, size, true)
OBSERVE_SIZE(1)
OBSERVE_SIZE(2)
OBSERVE_SIZE(4)
OBSERVE_SIZE(8)
OBSERVE_SIZE(16)

void __tsan_read_range(void *p, size_t size);
void __tsan_read_range(void *p, size_t size)
{
    emu_observe(p, size, false, false, SITE);
}

void __tsan_write_range(void *p, size_t size);
void __tsan_write_range(void *p, size_t size)
{
    emu_observe(p, size, true, false, SITE);
}

void __tsan_vptr_update(void **slot, void *table);
void __tsan_vptr_update(void **slot, void *table)
{
    (void)slot;
    (void)table;
}

void __tsan_vptr_read(void **slot);
void __tsan_vptr_read(void **slot)
{
    (void)slot;
}

/* Atomics of host code that is compiled for checking: done, not checked. */
#define ATOMIC(bits, type)                                                     \
    type __tsan_atomic##bits##_load(const volatile type *p, int order);        \
    type __tsan_atomic##bits##_load(const volatile type *p, int order)         \
    {                                                                          \
        (void)order;                                                           \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                           \
    }                                                                          \
    void __tsan_atomic##bits##_store(volatile type *p, type value, int order); \
    void __tsan_atomic##bits##_store(volatile type *p, type value, int order)  \
    {                                                                          \
        (void)order;                                                           \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                          \
    }                                                                          \
    ATOMIC_RMW(bits, type, exchange, exchange_n)                               \
    ATOMIC_RMW(bits, type, fetch_add, fetch_add)                               \
    ATOMIC_RMW(bits, type, fetch_sub, fetch_sub)                               \
    ATOMIC_RMW(bits, type, fetch_and, fetch_and)                               \
    ATOMIC_RMW(bits, type, fetch_or, fetch_or)                                 \
    ATOMIC_RMW(bits, type, fetch_xor, fetch_xor)                               \
    ATOMIC_RMW(bits, type, fetch_nand, fetch_nand)                             \
    ATOMIC_CAS(bits, type, strong)                                             \
    ATOMIC_CAS(bits, type, weak)
#define ATOMIC_RMW(bits, type, name, builtin)                                   \
    type __tsan_atomic##bits##_##name(volatile type *p, type value, int order); \
    type __tsan_atomic##bits##_##name(volatile type *p, type value, int order)  \
    {                                                                           \
        (void)order;                                                            \
        return __atomic_##builtin(p, value, __ATOMIC_SEQ_CST);                  \
    }
#define ATOMIC_CAS(bits, type, name)                                                                             \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *want, type value, int ok, int no); \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *want, type value, int ok, int no)  \
    {                                                                                                            \
        (void)ok;                                                                                                \
        (void)no;                                                                                                \
        return __atomic_compare_exchange_n(p, want, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);           \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    atomic_thread_fence(memory_order_seq_cst);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    atomic_signal_fence(memory_order_seq_cst);
}
#endif
