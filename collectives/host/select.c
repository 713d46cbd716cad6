/* Which way a call goes: a table, which `bench_collectives --choice` measures again and prints in this form, by calls
 * as programs make them: write the own input, call, read the own result. By mail goes what is not slower so for psum
 * and psum_scatter, whose work is shared the other way; past the caches, for psum and all_gather. A virtual machine is
 * told of caches that it shares with others, so of the last-level cache's size and the row the smaller one counts. */
#include "collectives/coll.h"
#include "spmd/ctx.h"
#include <unistd.h>

const spmd_coll_limits spmd__coll_limits[] = {
    /* members up to, by mail up to, past the caches from */
    {2, 4096, 33554432},
    {4, 8192, 33554432},
    {8, 8192, 33554432},
    {64, 8192, 33554432},
};
const int spmd__coll_nlimits = sizeof spmd__coll_limits / sizeof *spmd__coll_limits;

/* Bytes of inputs and outputs on all shards. 0 in place, where nothing goes past the caches: what is overwritten has
 * just been read. */
static int64_t footprint(const spmd_kernel_args *args, int members)
{
    size_t bytes = 0;
    if (args->in[0].data == args->out[0].data)
        return 0;
    for (int k = 0; k < args->nin; k++)
        bytes += spmd__view_bytes(&args->in[k]);
    for (int k = 0; k < args->nout; k++)
        bytes += spmd__view_bytes(&args->out[k]);
    return members * (int64_t)bytes;
}

static bool worth_streaming(const spmd_coll_limits *row, int64_t bytes)
{
    enum { LEAST = 1 << 20 };
    long cache = 0;
    if (bytes < LEAST) /* most calls: the system is not asked */
        return false;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return bytes >= (cache > 0 && cache < row->stream ? cache : row->stream);
}

spmd_way spmd__coll_way(const spmd_mesh *mesh, int members, int64_t message, const spmd_kernel_args *args)
{
    bool mailable = message >= 0 && message <= SPMD_MAIL_BYTES;
    switch (mesh->forced_way) {
    case SPMD_WAY_MAIL:
        return mailable ? SPMD_WAY_MAIL : SPMD_WAY_DIRECT;
    case SPMD_WAY_DIRECT:
        return SPMD_WAY_DIRECT;
    case SPMD_WAY_STREAM:
        return footprint(args, members) > 0 ? SPMD_WAY_STREAM : SPMD_WAY_DIRECT;
    default:
        break;
    }
    const spmd_coll_limits *row = spmd__coll_limits;
    while (row->members < members)
        row++;
    if (mailable && message <= row->mail)
        return SPMD_WAY_MAIL;
    return worth_streaming(row, footprint(args, members)) ? SPMD_WAY_STREAM : SPMD_WAY_DIRECT;
}

void spmd__force_way(spmd_mesh *mesh, spmd_way way)
{
    mesh->forced_way = way;
}
