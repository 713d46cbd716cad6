/* Kernels of NCCL wait for each other and occupy the device meanwhile: collectives of two communicators that share two
 * devices must start in one order there, or they can wait for each other for ever. The emulator's do not, so that it
 * must be said. */
#include "emu/emu_nccl.h"

static int rank_on(const emu_clique *clique, int device)
{
    for (int r = 0; r < clique->n; r++)
        if (clique->comms[r] && clique->comms[r]->device == device)
            return r;
    return -1;
}

static bool is_whole(const emu_clique *clique)
{
    for (int r = 0; r < clique->n; r++)
        if (!clique->comms[r] || clique->comms[r]->destroyed)
            return false;
    return true;
}

/* `other` was called before `m` on m's device `rank`. Where was it the other way round? -1: nowhere. */
static int opposite_device(const emu_clique *mine, const emu_meeting_place *m, int rank, const emu_clique *theirs,
                           const emu_meeting_place *other)
{
    for (int r = 0; r < mine->n; r++) {
        int device = mine->comms[r]->device, there = rank_on(theirs, device);
        if (r != rank && there >= 0 && m->order[r] && (!other->order[there] || other->order[there] > m->order[r]))
            return device;
    }
    return -1;
}

/* Was `other` called on every device before `m` was on any? Then the older ones of its communicator were, too. */
static bool is_older(const emu_clique *theirs, const emu_meeting_place *other, const emu_clique *mine,
                     const emu_meeting_place *m)
{
    for (int r = 0; r < theirs->n; r++)
        for (int k = 0; k < mine->n; k++)
            if (!other->order[r] || (m->order[k] && m->order[k] < other->order[r]))
                return false;
    return true;
}

static bool found(const emu_clique *mine, const emu_meeting_place *m, int rank, const emu_clique *theirs,
                  const emu_meeting_place *list)
{
    int device = mine->comms[rank]->device, here = rank_on(theirs, device);
    for (const emu_meeting_place *other = list; other && !is_older(theirs, other, mine, m); other = other->next) {
        int opposite = other->order[here] ? opposite_device(mine, m, rank, theirs, other) : -1;
        if (opposite < 0)
            continue;
        emu_report("nccl",
                   "device %d starts collective %llu of communicator %d before collective %llu of communicator %d, "
                   "device %d the other way round, which can deadlock; call the collectives of all communicators in "
                   "one order on all devices",
                   device, (unsigned long long)other->seq, theirs->number, (unsigned long long)m->seq, mine->number,
                   opposite);
        return true;
    }
    return false;
}

void emu_nccl_check_order(const emu_clique *clique, const emu_meeting_place *m, int rank)
{
    for (const emu_clique *theirs = emu_cliques; theirs; theirs = theirs->next)
        if (theirs != clique && rank_on(theirs, clique->comms[rank]->device) >= 0 && is_whole(theirs) &&
            (found(clique, m, rank, theirs, theirs->meetings) || found(clique, m, rank, theirs, theirs->past)))
            return;
}
