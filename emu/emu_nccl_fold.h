/* Private: NCCL's reductions, with its arithmetic. */
#ifndef EMU_NCCL_FOLD_H
#define EMU_NCCL_FOLD_H
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

size_t emu_nccl_size(ncclDataType_t type); /* bytes an element; 0: a type that the emulator does not know */
bool emu_nccl_known_op(ncclRedOp_t op);

/* out[i] = in[start][i] op in[start + 1][i] ... (ranks taken modulo their number), i < count. As in NCCL, bf16 and f16
 * are rounded after every step, max and min drop NaN, and ncclAvg of floats scales every summand first. out may be one
 * of the inputs. */
void emu_nccl_fold(void *out, const void *const *in, int ranks, int start, size_t count, ncclDataType_t type,
                   ncclRedOp_t op);
#endif
