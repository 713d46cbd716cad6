/* Misaligned accesses. g++ -fsanitize=alignment calls the first function with the place in the source; it takes the
 * place of UndefinedBehaviorSanitizer's own library, which is not linked. */
#include "emu/emu_check.h"
#include <stdio.h>

void emu_aligned(const void *address, size_t align, const char *what, const char *file, int line)
{
    const emu_thread *thread = emu_now.thread;
    if (!thread || (uintptr_t)address % align == 0)
        return;
    emu_execution *ex = emu_now.running;
    ex->op->error = cudaErrorMisalignedAddress;
    emu_report("alignment",
               "%s:%d: kernel %s block (%u,%u,%u) thread %d: %s at %p, which is no multiple of %zu bytes. Align the "
               "pointer and the offsets that are added to it, or use narrower accesses",
               file, line, ex->launch->name, thread->block->index.x, thread->block->index.y, thread->block->index.z,
               thread->linear, what, address, align);
}

#ifndef __SANITIZE_ADDRESS__ /* then the real one is linked, too */
/* As the compiler lays them out. */
typedef struct ubsan_type {
    uint16_t kind, info;
    char name[];
} ubsan_type;
typedef struct ubsan_access {
    const char *file;
    uint32_t line, column;
    const ubsan_type *type;
    unsigned char log_alignment, check;
} ubsan_access;

void __ubsan_handle_type_mismatch_v1(const ubsan_access *access, const void *address);
void __ubsan_handle_type_mismatch_v1(const ubsan_access *access, const void *address)
{
    static const char *const checks[] = {"a load of type", "a store to type", "a reference to type",
                                         "a member of type"};
    char what[200];
    unsigned check = access->check < sizeof checks / sizeof *checks ? access->check : 3;
    snprintf(what, sizeof what, "%s %s", checks[check], access->type->name);
    emu_aligned(address, (size_t)1 << access->log_alignment, what, access->file, (int)access->line);
}

void __ubsan_handle_type_mismatch_v1_abort(const ubsan_access *access, const void *address);
void __ubsan_handle_type_mismatch_v1_abort(const ubsan_access *access, const void *address)
{
    __ubsan_handle_type_mismatch_v1(access, address);
}
#endif
