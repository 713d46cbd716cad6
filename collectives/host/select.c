/* Which way a call goes: a table, which `bench_collectives --choice` measures again and prints in this form. By mail
 * goes what is not slower so, for psum, all_gather and psum_scatter. A virtual machine is told of caches that it shares
 * with others, so of the last-level cache's size and the row the smaller one counts. */
#include "collectives/coll.h"
#include "spmd/ctx.h"
#include <unistd.h>

const spmd_coll_limits spmd__coll_limits[] = {
    /* members up to, by mail up to, past the caches from */
    {2, 1024, 25165824},
    {4, 4096, 25165824},
    {8, 4096, 25165824},
    {64, 2048, 25165824},
};
const int spmd__coll_nlimits = sizeof spmd__coll_limits / sizeof *spmd__coll_limits;

static bool worth_streaming(const spmd_coll_limits *row, int64_t footprint)
{
    enum { LEAST = 1 << 20 };
    long cache = 0;
    if (footprint < LEAST) /* most calls: the system is not asked */
        return false;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return footprint >= (cache > 0 && cache < row->stream ? cache : row->stream);
}

spmd_way spmd__coll_way(const spmd_mesh *mesh, int members, int64_t message, int64_t footprint)
{
    bool mailable = message >= 0 && message <= SPMD_MAIL_BYTES;
    switch (mesh->forced_way) {
    case SPMD_WAY_MAIL:
        return mailable ? SPMD_WAY_MAIL : SPMD_WAY_DIRECT;
    case SPMD_WAY_DIRECT:
        return SPMD_WAY_DIRECT;
    case SPMD_WAY_STREAM:
        return footprint > 0 ? SPMD_WAY_STREAM : SPMD_WAY_DIRECT;
    default:
        break;
    }
    const spmd_coll_limits *row = spmd__coll_limits;
    while (row->members < members)
        row++;
    if (mailable && message <= row->mail)
        return SPMD_WAY_MAIL;
    return worth_streaming(row, footprint) ? SPMD_WAY_STREAM : SPMD_WAY_DIRECT;
}

void spmd__force_way(spmd_mesh *mesh, spmd_way way)
{
    mesh->forced_way = way;
}
