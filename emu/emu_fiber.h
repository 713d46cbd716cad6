/* Private: fibers. A fiber has a stack of its own and runs on the OS thread that switches to it. */
#ifndef EMU_FIBER_H
#define EMU_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(EMU_UCONTEXT)
#define EMU_UCONTEXT 1
#endif
#ifdef EMU_UCONTEXT
#include <ucontext.h>
#endif

typedef struct emu_fiber {
    void *sp; /* while it does not run */
#ifdef EMU_UCONTEXT
    ucontext_t context;
#endif
    const char *stack; /* lowest usable byte */
    size_t stack_size;
    void *fake_stack;       /* AddressSanitizer's */
    struct emu_fiber *next; /* in its pool */
} emu_fiber;

/* Fibers of one stack size and one entry function, which never returns. Used by one OS thread. */
typedef struct emu_fiber_pool {
    size_t stack_size;
    void (*entry)(void); /* calls emu_fiber_entered first */
    emu_fiber *free;
} emu_fiber_pool;

#ifdef __SANITIZE_ADDRESS__
#define EMU_FIBER_STACK ((size_t)256 << 10)
#else
#define EMU_FIBER_STACK ((size_t)64 << 10)
#endif

/* Describes the calling OS thread, so that it can be switched from and back to. */
void emu_fiber_adopt(emu_fiber *self);
emu_fiber *emu_fiber_get(emu_fiber_pool *pool);
void emu_fiber_put(emu_fiber_pool *pool, emu_fiber *fiber);     /* it goes on where it last switched away */
void emu_fiber_restart(emu_fiber_pool *pool, emu_fiber *fiber); /* back to the pool, as if new */
void emu_fiber_switch(emu_fiber *from, emu_fiber *to);
void emu_fiber_entered(void);

/* Where the stacks of all fibers lie. */
bool emu_on_fiber_stack(const void *p);
/* A stack grew into the page below it. */
bool emu_below_fiber_stack(const emu_fiber *fiber, const void *p);

#endif
