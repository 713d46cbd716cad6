/* Which way a message goes, all giving the same bits: up to so many bytes by mail (meet.h: one meeting, but every
 * shard does the whole work), above that straight from inputs to outputs (two meetings, and the work of a
 * reduction is shared).
 *
 * The limit is measured. To find it again, build once with SPMD_MAIL_BYTES as 1 and once as 8192, run
 * bench_collectives of both in turns for psum, all_gather and psum_scatter from 64 bytes to 8 KiB on 2, 4 and 8
 * devices, and take the largest size that is not slower for any of them.
 *
 * Results are written past the caches when inputs and outputs of all shards do not fit into the last-level cache, but
 * into no more than LARGEST_CACHE: a virtual machine is told of caches that it shares with others. Measured as above,
 * out of place, from 1 to 128 MiB: a tenth to a third faster above, slower below. */
#include "collectives/coll.h"
#include <unistd.h>

bool spmd__use_mail(int64_t bytes)
{
    return bytes <= SPMD_MAIL_BYTES;
}

bool spmd__use_stream(int64_t bytes)
{
    enum { LARGEST_CACHE = 24 << 20, LEAST = 1 << 20 };
    long cache = 0;
    if (bytes < LEAST) /* most calls: the system is not asked */
        return false;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return bytes >= (cache > 0 && cache < LARGEST_CACHE ? cache : LARGEST_CACHE);
}
