/* Private: between the tape (grad.c) and its checkpoints (checkpoint.c). */
#ifndef SPMD_CHECKPOINT_H
#define SPMD_CHECKPOINT_H

#include "spmd/ctx.h"

enum { SPMD_MAX_REPEAT_CAUSES = 63 };

/* A checkpoint's calls, made once more. */
typedef struct spmd_repeat {
    const spmd_call *call; /* the checkpoint on the tape: in[] are the values from outside that its calls read */
    spmd_tensor *outside;  /* those again, by input */
    uint32_t first, n;     /* its calls made values first .. first + n - 1 */
    spmd_tensor *inside;   /* those again; id 0: not a value of the tape's */
    int tape;              /* where the new calls begin on the tape */
} spmd_repeat;

/* Fills in everything but `call`. Nothing of it runs before `cause` is there (the cotangents that ask for it): else a
 * program would do it early and keep the memory that was to be saved. */
spmd_status spmd__repeat_calls(spmd_ctx *ctx, spmd_repeat *repeat, const spmd_tensor *cause, int ncauses);

#endif
