/* Private. How a kernel says that a value which it was given is wrong: see spmd_cuda_note. It goes on, with whatever
 * harmless result, since nobody waits for it. */
#ifndef SPMD_CUDA_BLAME_CUH
#define SPMD_CUDA_BLAME_CUH

#include "spmd/cuda.cuh"
#include "spmd/cuda/cuda_ctx.h"
#include <stdint.h>

/* `value`, at `position` of the input, is not one of 0 .. size-1 (or whatever the text says of the four). */
__device__ inline void spmd__cuda_blame(spmd_cuda_note *note, const char *text, double value, int64_t position,
                                        int64_t size)
{
    if (atomicCAS(&note->taken, 0u, 1u) != 0)
        return;
    note->text = text;
    note->value = value;
    note->position = position;
    note->last = size - 1;
    note->size = size;
}

#endif
