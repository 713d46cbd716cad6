"""The bench's loops in PyTorch with gloo: one process a rank, one JSON line a size from rank 0.

usage: gloo_collectives.py RANKS OPS FIRST LAST FACTOR, for example: 2 psum,all_gather 1024 67108864 16

Bytes are the larger one of a rank's input and output. Reductions work in place. Operations that gloo does not have are
left out, with a line on stderr.
"""
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SAMPLES = 5  # a call takes a millisecond or more
SAMPLE_SECONDS = 20e-3
MOST_CALLS = 10000


def psum(x, y, rank, ranks):
    dist.all_reduce(x)
    return x


def pmax(x, y, rank, ranks):
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x


def all_gather(x, y, rank, ranks):
    dist.all_gather_into_tensor(y, x)
    return y


def psum_scatter(x, y, rank, ranks):
    dist.reduce_scatter_tensor(y, x)
    return y


def all_to_all(x, y, rank, ranks):
    dist.all_to_all_single(y, x)
    return y


def ppermute(x, y, rank, ranks):
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]):
        work.wait()
    return y


def pbroadcast(x, y, rank, ranks):
    buffer = x if rank == ranks - 1 else y
    dist.broadcast(buffer, ranks - 1)
    return buffer


# name: the call; input and output as parts of the size, of which a rank's own block is one; the result of inputs that
# are all rank + 1, as (rank, ranks, block) -> value
ROWS = {
    "psum": (psum, False, False, lambda r, n, b: n * (n + 1) // 2),
    "pmax": (pmax, False, False, lambda r, n, b: n),
    "all_gather": (all_gather, True, False, lambda r, n, b: b + 1),
    "psum_scatter": (psum_scatter, False, True, lambda r, n, b: n * (n + 1) // 2),
    "all_to_all": (all_to_all, False, False, lambda r, n, b: b + 1),
    "ppermute": (ppermute, False, False, lambda r, n, b: (r - 1) % n + 1),
    "pbroadcast": (pbroadcast, False, False, lambda r, n, b: n),
}


def check(name, x, y, cut, rank, ranks):
    call, _, _, expect = ROWS[name]
    x.fill_(rank + 1)
    result = call(x, y, rank, ranks)
    for b, block in enumerate(result.split(cut)):
        if not bool((block == expect(rank, ranks, b)).all()):
            raise SystemExit(f"gloo_collectives.py: {name}: rank {rank}, block {b} is {block[0]}")


def median_us(step):
    def seconds(calls):
        dist.barrier()
        start = time.perf_counter()
        for k in range(calls):
            step(k)
        dist.barrier()
        return (time.perf_counter() - start) / calls

    seconds(2)
    calls = torch.tensor([max(1, min(MOST_CALLS, int(SAMPLE_SECONDS / seconds(8))))])
    dist.broadcast(calls, 0)
    return 1e6 * statistics.median(seconds(int(calls)) for _ in range(SAMPLES))


def measure(name, size, rank, ranks):
    call, in_cut, out_cut, _ = ROWS[name]
    cut = -(-size // 4 // ranks)
    x = torch.zeros(cut if in_cut else cut * ranks)
    y = torch.zeros(cut if out_cut else cut * ranks)
    check(name, x, y, cut, rank, ranks)
    x.zero_()

    def honest(k):
        x.fill_(k % 2)
        call(x, y, rank, ranks).sum()

    us, honest_us = median_us(lambda k: call(x, y, rank, ranks)), median_us(honest)
    if rank == 0:
        line = {"op": name, "bytes": 4 * cut * ranks, "us": us, "honest_us": honest_us}
        print(json.dumps(line), flush=True)


def run_rank(rank, ranks, ops, first, last, factor, store):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for name in ops:
        size = first
        while name in ROWS and size <= last:
            try:
                measure(name, size, rank, ranks)
            except (RuntimeError, NotImplementedError) as error:
                if rank == 0:
                    print(f"gloo_collectives.py: no {name}: {str(error).splitlines()[0]}", file=sys.stderr)
                break
            size *= factor
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, names = int(sys.argv[1]), sys.argv[2].split(",")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, (ranks, names, *map(int, sys.argv[3:6]), os.path.join(folder, "store")), ranks)
