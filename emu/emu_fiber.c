#include "emu/emu_fiber.h"
#include "emu/emu_private.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef EMU_UCONTEXT
/* Saves the callee's registers on the stack, keeps the stack pointer in *save, and goes on with the stack at load. */
void emu_fiber_swap(void **save, void *load);
#if defined(__x86_64__)
enum { SAVED_WORDS = 6 };
__asm__(".text\n.p2align 4\n.globl emu_fiber_swap\n.hidden emu_fiber_swap\n.type emu_fiber_swap,@function\n"
        "emu_fiber_swap:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size emu_fiber_swap,.-emu_fiber_swap\n");

static void *first_frame(char *top, void (*entry)(void))
{
    void **word = (void **)top;
    *--word = NULL; /* a return address for entry: it has none */
    *--word = (void *)(uintptr_t)entry;
    word -= SAVED_WORDS;
    memset(word, 0, SAVED_WORDS * sizeof *word);
    return word;
}
#else
enum { SAVED_WORDS = 20, LINK_REGISTER = 11 };
__asm__(".text\n.p2align 4\n.globl emu_fiber_swap\n.hidden emu_fiber_swap\n.type emu_fiber_swap,%function\n"
        "emu_fiber_swap:\n"
        "sub sp,sp,#160\n"
        "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "add sp,sp,#160\nret\n"
        ".size emu_fiber_swap,.-emu_fiber_swap\n");

static void *first_frame(char *top, void (*entry)(void))
{
    void **word = (void **)top - SAVED_WORDS;
    memset(word, 0, SAVED_WORDS * sizeof *word);
    word[LINK_REGISTER] = (void *)(uintptr_t)entry;
    return word;
}
#endif
#endif

/* One reservation for all stacks, so that one comparison tells whether an address lies on any of them. */
static struct {
    pthread_mutex_t mutex;
    char *base;
    size_t size, used;
} stacks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static char *new_stack(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_lock(&stacks.mutex);
    if (!stacks.base) {
        size_t want = (size_t)1 << 36;
        void *base = MAP_FAILED;
        for (; base == MAP_FAILED && want >= (size_t)1 << 28; want >>= 1) {
            base = mmap(NULL, want, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            stacks.size = want;
        }
        stacks.base = base == MAP_FAILED ? NULL : base;
    }
    char *bottom = stacks.base + stacks.used + page; /* the page below stays out of reach */
    bool fits = stacks.base && stacks.used + page + size <= stacks.size;
    stacks.used += page + size;
    pthread_mutex_unlock(&stacks.mutex);
    if (!fits || mprotect(bottom, size, PROT_READ | PROT_WRITE))
        emu_fatal("no memory for the stacks of a kernel's threads: launch smaller or fewer blocks at once");
    return bottom;
}

bool emu_on_fiber_stack(const void *p)
{
    return (size_t)((const char *)p - stacks.base) < stacks.size;
}

bool emu_below_fiber_stack(const emu_fiber *fiber, const void *p)
{
    const char *at = p;
    return fiber && at < fiber->stack && fiber->stack - at <= sysconf(_SC_PAGESIZE);
}

void emu_fiber_adopt(emu_fiber *self)
{
    *self = (emu_fiber){0};
#ifdef __SANITIZE_ADDRESS__
    pthread_attr_t attributes;
    void *stack = NULL;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &self->stack_size);
    pthread_attr_destroy(&attributes);
    self->stack = stack;
#endif
}

static void prepare(emu_fiber *fiber, void (*entry)(void))
{
#ifdef EMU_UCONTEXT
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = (void *)(uintptr_t)fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_size;
    makecontext(&fiber->context, entry, 0);
#else
    fiber->sp = first_frame((char *)(uintptr_t)fiber->stack + fiber->stack_size, entry);
#endif
}

emu_fiber *emu_fiber_get(emu_fiber_pool *pool)
{
    emu_fiber *fiber = pool->free;
    if (fiber) {
        pool->free = fiber->next;
        return fiber;
    }
    fiber = emu_alloc(sizeof *fiber);
    fiber->stack = new_stack(pool->stack_size);
    fiber->stack_size = pool->stack_size;
    prepare(fiber, pool->entry);
    return fiber;
}

void emu_fiber_put(emu_fiber_pool *pool, emu_fiber *fiber)
{
    fiber->next = pool->free;
    pool->free = fiber;
}

void emu_fiber_restart(emu_fiber_pool *pool, emu_fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_size);
#endif
    prepare(fiber, pool->entry);
    emu_fiber_put(pool, fiber);
}

void emu_fiber_switch(emu_fiber *from, emu_fiber *to)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_size);
#endif
#ifdef EMU_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    emu_fiber_swap(&from->sp, to->sp);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void emu_fiber_entered(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}
