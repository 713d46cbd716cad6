/* Wild accesses of kernels. Real devices stop the kernel with an error and the host goes on; so here: behind the end of
 * device memory a page is put and the kernel goes on, with wrong numbers; elsewhere it ends. */
#include "emu/emu_kernel.h"
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sigaction before;

static bool survives(const void *address)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *from = (void *)((uintptr_t)address & ~(page - 1));
    emu_op *op = emu_current_op();
    char memory[300];
    if (!op || emu_place_of(address) == EMU_ELSEWHERE)
        return false;
    emu_describe_memory(address, memory, sizeof memory);
    op->error = cudaErrorIllegalAddress;
    if (!emu_checking() || !emu_now.thread) /* else the checker has reported it */
        emu_report("memcheck",
                   "%s touches %p, %s: this memory is not allocated. Check the index against its size; build "
                   "for checking to see the line",
                   op->name, address, memory);
    return mprotect(from, page, PROT_READ | PROT_WRITE) == 0;
}

/* Where no page can be put: the kernel ends here. */
static void end_kernel(const emu_thread *thread, const void *address)
{
    emu_execution *ex = emu_now.running;
    const uint3 *block = &thread->block->index, *index = &thread->index;
    char who[300];
    snprintf(who, sizeof who, "kernel %s block (%u,%u,%u) thread (%u,%u,%u)", ex->launch->name, block->x, block->y,
             block->z, index->x, index->y, index->z);
    if (emu_below_fiber_stack(thread->fiber, address)) {
        emu_report("launch", "%s needs more than %zu KB for its local variables: make its arrays smaller", who,
                   EMU_FIBER_STACK >> 10);
    } else {
        emu_report(
            "memcheck",
            "%s touches %p, which is no memory at all. Is the pointer NULL, or one of the host? Build for checking "
            "to see the line",
            who, address);
        ex->op->error = cudaErrorIllegalAddress;
    }
    emu_abandon_kernel();
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (survives(info->si_addr))
        return;
    if (emu_now.thread)
        end_kernel(emu_now.thread, info->si_addr);
    if (emu_place_of(info->si_addr) >= 0)
        emu_report("host", "host code touches %p, which is device memory. Copy it with cudaMemcpyAsync and synchronize",
                   info->si_addr);
    sigaction(signal, &before, NULL); /* the instruction faults again, as it would without the emulator */
}

void emu_catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
    sigaction(SIGBUS, &action, NULL);
}

void emu_catch_faults_here(void)
{
    enum { STACK = 64 << 10 };
    static _Thread_local stack_t stack;
    stack.ss_sp = emu_alloc(STACK);
    stack.ss_size = STACK;
    sigaltstack(&stack, NULL);
}
