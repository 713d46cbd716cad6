/* Sends and receives: an op starts when it is the head of its stream and ends when each of its items has met its
 * partner. Items of one pair of ranks meet in the order of their calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emu/emu_nccl.h"

static void bind(emu_op *op)
{
    const emu_transfers *mine = op->args;
    struct ncclComm *comm = mine->comm;
    emu_clique *clique = comm->clique;
    emu_op_drop(comm->last);
    comm->last = op;
    emu_op_keep(op);
    if (clique->ntransfers == clique->transfers_room) {
        clique->transfers_room += 16;
        clique->transfers = emu_resize(clique->transfers, sizeof(emu_op *) * (size_t)clique->transfers_room);
    }
    clique->transfers[clique->ntransfers++] = op;
    bool demanded = false;
    for (int i = 0; i < clique->ntransfers; i++)
        demanded = demanded || clique->transfers[i]->demanded;
    if (demanded)
        emu_demand(op);
}

static void remove_op(emu_clique *clique, const emu_op *op)
{
    int n = 0;
    for (int i = 0; i < clique->ntransfers; i++)
        if (clique->transfers[i] != op)
            clique->transfers[n++] = clique->transfers[i];
    clique->ntransfers = n;
}

/* The first started, unmet item of another op (or this one) that pairs with `item` of rank `rank`. */
static emu_transfer *partner(emu_clique *clique, const emu_transfer *item, int rank, emu_op **of)
{
    for (int i = 0; i < clique->ntransfers; i++) {
        emu_op *op = clique->transfers[i];
        emu_transfers *theirs = op->args;
        if (theirs->comm->rank != item->call.root || !op->running)
            continue;
        for (int k = 0; k < theirs->n; k++) {
            emu_transfer *other = &theirs->item[k];
            if (!other->other && other->call.kind != item->call.kind && other->call.root == rank) {
                *of = op;
                return other;
            }
        }
    }
    return NULL;
}

static bool arrive(emu_op *op)
{
    emu_transfers *mine = op->args;
    emu_clique *clique = mine->comm->clique;
    if (mine->comm->aborted) {
        remove_op(clique, op);
        emu_finish(op);
        return false;
    }
    emu_check_begin(op);
    for (int i = 0; i < mine->n; i++) {
        emu_transfer *item = &mine->item[i], *other;
        emu_op *of = NULL;
        if (item->other || !(other = partner(clique, item, mine->comm->rank, &of)))
            continue;
        *item = (emu_transfer){item->call, other, of, true, false};
        other->other = item;
        other->other_op = op;
        mine->working = true;
        bool sends = item->call.kind == EMU_SEND;
        if (of != op)
            emu_clock_join(sends ? &of->clock : &op->clock, sends ? &op->clock : &of->clock);
    }
    return mine->working;
}

static bool is_done(const emu_op *op)
{
    const emu_transfers *t = op->args;
    for (int i = 0; i < t->n; i++)
        if (!t->item[i].done)
            return false;
    return true;
}

static void depart(emu_op *op)
{
    emu_transfers *mine = op->args;
    emu_clique *clique = mine->comm->clique;
    mine->working = false;
    for (int i = clique->ntransfers - 1; i >= 0; i--) {
        emu_op *each = clique->transfers[i];
        const emu_transfers *theirs = each->args;
        if (!each->running || theirs->working || !is_done(each))
            continue;
        remove_op(clique, each);
        emu_finish(each);
    }
}

static void demand(emu_op *op)
{
    const emu_transfers *mine = op->args;
    emu_clique *clique = mine->comm->clique;
    for (int i = 0; i < clique->ntransfers; i++)
        if (clique->transfers[i] != op)
            emu_demand(clique->transfers[i]);
}

static int describe(const emu_op *op, char *text, size_t size)
{
    const emu_transfers *t = op->args;
    int used = snprintf(text, size, "communicator %d, rank %d;", t->comm->clique->number, t->comm->rank);
    for (int i = 0; i < t->n; i++)
        if (!t->item[i].done && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, " no partner for %s %d",
                             t->item[i].call.kind == EMU_SEND ? "the send to rank" : "the receive from rank",
                             t->item[i].call.root);
    return used;
}

const emu_binding emu_transfer_binding = {bind, arrive, depart, demand, describe};

void emu_nccl_leave_transfers(struct ncclComm *comm)
{
    emu_clique *clique = comm->clique;
    for (int i = clique ? clique->ntransfers - 1 : -1; i >= 0; i--) {
        emu_op *op = clique->transfers[i];
        const emu_transfers *t = op->args;
        bool busy = false; /* another op copies one of its items now */
        for (int k = 0; k < t->n; k++)
            busy = busy || (t->item[k].other && !t->item[k].done);
        if (t->comm != comm || !op->running || busy)
            continue;
        remove_op(clique, op);
        emu_finish(op);
    }
}

static void copy(emu_op *from, const emu_nccl_call *send, emu_op *to, const emu_nccl_call *recv)
{
    size_t size = send->count * emu_nccl_size(send->type), room = recv->count * emu_nccl_size(recv->type);
    if (size != room) {
        emu_report("nccl",
                   "communicator %d: rank %d sends %zu bytes to rank %d, which receives %zu; both sides must agree",
                   send->comm->clique->number, send->comm->rank, size, recv->comm->rank, room);
        size = size < room ? size : room;
    }
    emu_use(from, send->send, size, false);
    emu_use(to, recv->recv, size, true);
    if (!from->error && !to->error)
        memmove(recv->recv, send->send, size);
}

/* Copies every pair that this op has completed, without the lock: nobody else touches them. */
void emu_run_transfers(emu_op *op, void *args)
{
    emu_transfers *mine = args;
    for (int i = 0; i < mine->n; i++) {
        emu_transfer *item = &mine->item[i];
        if (!item->copies)
            continue;
        if (item->call.kind == EMU_SEND)
            copy(op, &item->call, item->other_op, &item->other->call);
        else
            copy(item->other_op, &item->other->call, op, &item->call);
        emu_lock();
        item->done = item->other->done = true;
        emu_unlock();
    }
}
