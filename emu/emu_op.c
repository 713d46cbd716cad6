/* Ops on fibers: one that waits inside of its function is left, and gone on with later. And launches. */
#include "emu/emu_kernel.h"
#include <stdlib.h>
#include <string.h>

static void op_main(void);
static _Thread_local struct {
    emu_fiber worker; /* the OS thread's own stack */
    bool adopted, ended;
    emu_op *op;
    emu_fiber_pool pool;
} here = {.pool = {(size_t)512 << 10, op_main, NULL}};

static void op_main(void)
{
    emu_fiber_entered();
    for (;;) {
        emu_op *op = here.op;
        op->fn(op, op->args);
        here.ended = true;
        emu_fiber_switch(op->fiber, &here.worker);
    }
}

bool emu_op_step(emu_op *op)
{
    if (!here.adopted)
        emu_fiber_adopt(&here.worker);
    here.adopted = true;
    if (!op->fiber)
        op->fiber = emu_fiber_get(&here.pool);
    here.op = op;
    here.ended = false;
    emu_fiber_switch(&here.worker, op->fiber);
    here.op = NULL;
    emu_now = (emu_builtins){0};
    if (!here.ended)
        return false;
    emu_fiber_put(&here.pool, op->fiber);
    op->fiber = NULL;
    return true;
}

void emu_op_suspend(void)
{
    emu_fiber_switch(here.op->fiber, &here.worker);
}

emu_op *emu_current_op(void)
{
    return here.op;
}

/* --- launches --- */
static cudaError_t check_launch(const emu_launch_info *launch)
{
    const dim3 *grid = &launch->grid, *block = &launch->block;
    size_t threads = (size_t)block->x * block->y * block->z, blocks = (size_t)grid->x * grid->y * grid->z;
    if (!threads || threads > EMU_MAX_THREADS || block->z > 64 || !blocks || grid->x > 0x7fffffff || grid->y > 65535 ||
        grid->z > 65535)
        return cudaErrorInvalidConfiguration;
    if (launch->smem > emu_smem_limit(launch->kernel))
        return cudaErrorInvalidValue;
    size_t a_processor = 2048 / threads;
    if (launch->smem && a_processor > EMU_MAX_SMEM / launch->smem)
        a_processor = EMU_MAX_SMEM / launch->smem;
    if (launch->cooperative && blocks > EMU_MULTIPROCESSORS * a_processor)
        return cudaErrorCooperativeLaunchTooLarge;
    return cudaSuccess;
}

void emu_launch(const emu_launch_info *launch)
{
    cudaError_t error = cudaSuccess;
    emu_init();
    if (emu_injected("cudaLaunchKernel", &error) || (error = check_launch(launch)) != cudaSuccess) {
        emu_return(error);
        return;
    }
    emu_launch_info *copy = emu_alloc(EMU_PACK_OFFSET + launch->pack_size);
    *copy = *launch;
    copy->pack = NULL;
    copy->name = emu_intern(launch->name);
    if (launch->pack_size)
        memcpy((char *)copy + EMU_PACK_OFFSET, launch->pack, launch->pack_size);
    emu_return(
        emu_enqueue(launch->stream, EMU_KERNEL, copy->name, emu_run_kernel, copy, EMU_PACK_OFFSET + launch->pack_size));
    free(copy);
}
