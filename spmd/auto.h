/* Private: the automatic mode. A user's tensor has the global shape, and `vary` and `partial` 0; how it lies on the
 * mesh is kept here, by value id. Every op is launched on local blocks, through the same path as in explicit mode.
 *
 * auto.c is the table and the way from a user's call to a local one, choice.c decides how a call's operands lie,
 * layout.c brings them there. */
#ifndef SPMD_AUTO_H
#define SPMD_AUTO_H

#include "spmd/ctx.h"

/* Axes of size 1 are never named: they cut nothing. */
typedef struct spmd_placement {
    spmd_layout cut;
    uint8_t partial; /* the value is the sum over the shards along these axes */
} spmd_placement;

/* The inputs come in with the arrays' specs. */
spmd_status spmd__auto_begin(spmd_ctx *ctx, const spmd_tensor *in);
/* A user's call, whose shapes are known: chooses, moves the inputs, launches, fills in the outputs. */
spmd_status spmd__auto_launch(spmd_ctx *ctx, spmd_call *call);
/* The outputs become local tensors, cut by out_specs. */
spmd_status spmd__auto_end(spmd_ctx *ctx, spmd_tensor *out);
/* Gradients come to lie as their parameters, the loss whole: all sums of one kind in one meeting. On the tape these are
 * identities. */
spmd_status spmd__auto_settle(spmd_ctx *ctx, const spmd_tensor *params, int n, spmd_tensor *grads, spmd_tensor *loss);

/* A constraint from the tape, on another value. It has no shape function, by which it is told from ops. */
spmd_status spmd__constrain_again(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *in, spmd_tensor *out);

/* How one of the user's values lies. */
const spmd_placement *spmd__placement(const spmd_ctx *ctx, const spmd_tensor *t);
/* The block of a global tensor that lies so: shape and state; memory and id are the value's. */
spmd_tensor spmd__block_of(const spmd_mesh *mesh, const spmd_tensor *t, const spmd_placement *at);
/* A value that is moved twice to one place moves once: what is known of earlier moves. NULL: nothing. */
const spmd_tensor *spmd__moved(const spmd_ctx *ctx, uint32_t id, const spmd_placement *to);
spmd_status spmd__remember_move(spmd_ctx *ctx, uint32_t id, const spmd_placement *to, const spmd_tensor *block);

/* choice.c: how inputs and outputs are to lie. call's tensors have global shapes. */
spmd_status spmd__choose(spmd_ctx *ctx, const spmd_call *call, const spmd_placement *from, spmd_placement *to);

/* layout.c: bytes a device sends to bring a value from one placement to another, and doing it. to->partial is a part of
 * from's. */
double spmd__move_bytes(const spmd_mesh *mesh, const spmd_tensor *t, const spmd_placement *from,
                        const spmd_placement *to);
spmd_status spmd__move(spmd_ctx *ctx, const spmd_tensor *t, const spmd_placement *to, spmd_tensor *block);
/* Closes the open sums over `mask` of n values in one meeting; spmd__move finds the results. */
spmd_status spmd__sum_together(spmd_ctx *ctx, const spmd_tensor *t, int n, unsigned mask);
bool spmd__same_cut(const spmd_placement *a, const spmd_placement *b);
bool spmd__same_placement(const spmd_placement *a, const spmd_placement *b);
double spmd__block_bytes(const spmd_mesh *mesh, const spmd_tensor *t, const spmd_placement *at);

/* emit.c: hash, memory, kernel or program: call's tensors are local; ids and memory of the outputs are set. */
spmd_status spmd__launch(spmd_ctx *ctx, spmd_call *call);
spmd_status spmd__push_tape(spmd_ctx *ctx, const spmd_call *call);

#endif
