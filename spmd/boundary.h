/* Private: the steps at the edge of a shard function, which eager launches and programs share. */
#ifndef SPMD_BOUNDARY_H
#define SPMD_BOUNDARY_H

#include "spmd/ctx.h"

void spmd__begin_shard(spmd_ctx *ctx);
/* The inputs as tensors, then room for the outputs. NULL: out of memory. */
spmd_tensor *spmd__make_inputs(spmd_ctx *ctx);
/* The user's function and its stream, both done. */
spmd_status spmd__call_shard(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out);
/* A shard that failed: releases the others, waits for its stream; returns `status`, whose text stays. */
spmd_status spmd__give_up(spmd_ctx *ctx, spmd_status status);
/* Set, of this launch, no false claim of replication, fitting the given array. */
spmd_status spmd__check_output(spmd_ctx *ctx, int k, const spmd_tensor *t);
/* A created output: device 0 writes its type, every device its own block. */
spmd_status spmd__fill_shell(spmd_ctx *ctx, int k, const spmd_tensor *t);
/* All shards meet: every shard has succeeded, or none has. */
spmd_status spmd__agree(spmd_ctx *ctx, spmd_tensor *out);
/* Commits the launch after `agreed`, or returns why it is not. */
spmd_status spmd__finish(spmd_ctx *ctx, spmd_status agreed, const spmd_tensor *out);
/* The outputs' blocks are on their way: waits for the stream where it makes them; returns whether all went well. */
spmd_status spmd__end_outputs(spmd_ctx *ctx, spmd_status copied);
spmd_status spmd__run_program(spmd_ctx *ctx); /* with the mesh's jit entry: record if need be, replay */

#endif
