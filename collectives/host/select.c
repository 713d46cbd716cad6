/* Which way a message goes, both giving the same bits: up to so many bytes through mailboxes (mailbox.c: one meeting,
 * but every shard does the whole work), above that straight from inputs to outputs (two meetings, and the work of a
 * reduction is shared).
 *
 * The limits are measured. To find them again, let SPMD_MAILBOX_BYTES be 8192, build once with both limits 0 and once
 * with both 8192, run bench_collectives of both in turns for psum, all_gather and psum_scatter from 64 bytes to 8 KiB
 * on 2, 4 and 8 devices, and take the largest size that is not slower for any of them. */
#include "collectives/coll.h"

static const struct {
    bool crowded; /* more devices than cores: a meeting is some microseconds, and not 0.2 */
    int64_t bytes;
} limits[] = {
    {false, 512},
    {true, SPMD_MAILBOX_BYTES},
};

bool spmd__use_mailbox(const spmd_ctx *ctx, int64_t bytes)
{
    return bytes <= limits[spmd__crowded(ctx)].bytes;
}
