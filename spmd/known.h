/* Private: what the rules said of a call the last time. Outputs' types, attributes as the op completed them, hash and
 * every check of an op depend on nothing but the call's attributes and its inputs' types, and a step makes the same
 * calls again and again. */
#ifndef SPMD_KNOWN_H
#define SPMD_KNOWN_H

#include "spmd/op.h"

enum { SPMD_KNOWN_CALLS = 64, SPMD_KNOWN_TENSORS = 4, SPMD_KNOWN_TEXT = 24 };

typedef struct spmd_known {
    spmd_call call;                          /* op NULL: nothing is known */
    uint64_t hash;                           /* of the call */
    char text[SPMD_KNOWN_TEXT];              /* from which the attributes were made; "": not known */
    spmd_tensor tensors[SPMD_KNOWN_TENSORS]; /* call.in, then call.out: their types are known, the values are not */
    spmd_view views[SPMD_KNOWN_TENSORS];     /* of the same, for the kernel */
    spmd_attr given;                         /* by the caller; call.attr: as the op completed it */
} spmd_known;

/* spmd__known - where such a call is remembered, or will be; *hit: it is there. NULL: it never is, because it has more
 * tensors, or its rules are a user's function, or the program's and the automatic mode's business. */
spmd_known *spmd__known(spmd_ctx *ctx, const spmd_op *op, const spmd_attr *attr, const spmd_tensor *in, int nin,
                        int nout, bool *hit);
void spmd__remember(spmd_known *known, const spmd_attr *given, const spmd_call *call, uint64_t hash);

/* For ops of one input and output whose attributes follow from a text, so that they need not be made to be compared:
 * the call, or NULL; and after it was emitted, that it came from this text. */
spmd_known *spmd__known_text(spmd_ctx *ctx, const spmd_op *op, const char *text, const spmd_tensor *in);
void spmd__remember_text(spmd_ctx *ctx, const spmd_op *op, const char *text);

/* spmd__emit_known - spmd__emit of a call that is known. */
spmd_status spmd__emit_known(spmd_ctx *ctx, spmd_known *known, const spmd_tensor *in, spmd_tensor *out);

#endif
