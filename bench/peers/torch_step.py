"""The bench's training steps in PyTorch: a process a device, DDP over gloo, fused AdamW; one JSON line.

usage: torch_step.py DEVICES MODEL REPEATS BATCH DTYPE STEPS, for example: 2 shared-mlp 16 256 f32 21

BATCH is a device's. A device has one thread: the cores are shared as ours share them. peak_rss: of all processes, with
the pages of the libraries, which they share, counted once. first_step_end: on the clock CLOCK_MONOTONIC.
"""
import json
import os
import pathlib
import re
import resource
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

WARM = 4


class Net(nn.Module):
    def __init__(self, model, repeats):
        super().__init__()
        self.shared = model == "shared-mlp"
        sizes = (784, 1024, 1024, 10) if self.shared else (784, 256, 128, 10)
        self.first, self.block, self.last = (nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.repeats = repeats
        for layer in (self.first, self.block, self.last):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        h = functional.gelu(self.first(x), approximate="tanh")
        if not self.shared:
            return self.last(functional.gelu(self.block(h), approximate="tanh"))
        for _ in range(self.repeats):
            h = 0.9 * h + 0.1 * functional.gelu(self.block(h), approximate="tanh")
        return self.last(h)


def peak_rss(rank):
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if rank > 0:
        status = pathlib.Path("/proc/self/status").read_text()
        own -= 1024 * int(re.search(r"RssFile:\s*(\d+)", status)[1])
    total = torch.tensor(own)
    torch.distributed.all_reduce(total)
    return int(total)


def work(rank, devices, model, repeats, batch, dtype, steps, meeting_file):
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // devices))
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo", f"file://{meeting_file}", rank=rank, world_size=devices)
    net = DistributedDataParallel(Net(model, repeats))
    optimizer = torch.optim.AdamW(net.parameters(), 3e-4, weight_decay=1e-4, fused=True)
    x, y = torch.rand(batch, 784), torch.arange(batch) % 10
    times, first = [], 0
    for _ in range(WARM + steps):
        before = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            loss = functional.cross_entropy(net(x).float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value = loss.item()
        times.append(time.perf_counter() - before)
        first = first or time.perf_counter()
    peak = peak_rss(rank)
    if rank == 0:
        ms = 1e3 * statistics.median(times[WARM:])
        row = {"ms_per_step": ms, "examples_per_s": 1e3 * batch * devices / ms, "loss": value}
        row |= {"peak_rss": peak, "first_step_end": first}
        print(json.dumps(row), flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os._exit(0)  # not through the libraries' destructors: they abort when a thread of gloo's is still there


def main():
    devices, model, repeats, batch, dtype, steps = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        args = (int(devices), model, int(repeats), int(batch), dtype, int(steps), os.path.join(folder, "meeting"))
        torch.multiprocessing.spawn(work, args, int(devices))


if __name__ == "__main__":
    main()
