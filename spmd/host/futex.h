/* Private: sleeping on a word. Linux only, like the library. */
#ifndef SPMD_HOST_FUTEX_H
#define SPMD_HOST_FUTEX_H

#include <linux/futex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == expected, at most `ms` milliseconds (negative: no bound); may wake early. */
static inline void spmd__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t ms)
{
    struct timespec bound = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, ms < 0 ? NULL : &bound, NULL, 0);
}

static inline void spmd__futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline int64_t spmd__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t spmd__now_ms(void)
{
    return spmd__now_ns() / 1000000;
}

static inline void spmd__cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Asks for the line, to be read or written soon; what it takes to call it from another core's cache passes meanwhile.
 * The empty statements keep gcc from dropping calls that, as it thinks, do nothing. */
static inline void spmd__expect_read(const void *line)
{
    __builtin_prefetch(line);
    __asm__ __volatile__("");
}

static inline void spmd__expect_write(const void *line)
{
#if defined(__x86_64__) /* without the option for it gcc makes a prefetch for reading of the builtin */
    __asm__ __volatile__("prefetchw %0" ::"m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
    __asm__ __volatile__("");
#endif
}

#endif
