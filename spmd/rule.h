/* Private: sharding rules, for the automatic mode.
 *
 * A rule labels the dimensions of a call's inputs and outputs with letters. Cutting a letter over a mesh axis cuts
 * every dimension that carries it, and the op then runs on the blocks unchanged. Of matmul "mk,kn->mn": a cut of m is
 * one of the rows of a and of the result; a cut of k makes the result a partial sum. A letter that no output carries
 * makes the outputs partial, so an op may only leave out letters over which it sums. A dimension with SPMD_WHOLE must
 * not be cut. An op without a rule has all its inputs whole and its outputs replicated. Which inputs pass a partial sum
 * on is said by the descriptor's `linear` and `joint`. */
#ifndef SPMD_RULE_H
#define SPMD_RULE_H

#include "spmd/op.h"

enum { SPMD_WHOLE = -1, SPMD_MAX_LETTERS = 16 }; /* letters are 0 .. SPMD_MAX_LETTERS-1 */

/* By input (output), then dimension. All SPMD_WHOLE when a rule is called. call's tensors have global shapes. */
typedef struct spmd_labels {
    int8_t (*in)[SPMD_MAX_RANK], (*out)[SPMD_MAX_RANK];
} spmd_labels;

/* Labels from text for calls of fixed ranks: "mk,kn->mn"; '-' is SPMD_WHOLE; an operand may be left out at the end. */
void spmd__label(const spmd_call *call, spmd_labels *labels, const char *text);
/* EINVAL unless the text has an operand for each of the call's, with a letter a dimension. */
spmd_status spmd__check_label(const char *op, const spmd_call *call, const char *text);
/* Pointwise with numpy's broadcasting: dimension d of the result is letter d; a broadcast dimension of size 1 is whole.
 */
void spmd__label_pointwise(const spmd_call *call, spmd_labels *labels);
/* All dimensions but the last `n` are letters (the same ones everywhere they exist), the others are whole: rows. */
void spmd__label_rows(const spmd_call *call, spmd_labels *labels, int n);

/* spmd__lies_as - would the one output of this call come to lie on the mesh as `like` does? A choice between two ways
 * to write the same. In explicit mode: yes. */
spmd_status spmd__lies_as(spmd_ctx *ctx, const spmd_op *op, const spmd_attr *attr, const spmd_tensor *in, int nin,
                          const spmd_tensor *like, bool *out);

#endif
