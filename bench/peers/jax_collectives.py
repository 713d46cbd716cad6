"""The bench's loops in JAX: shard_map over host devices, one JSON line a size.

usage: jax_collectives.py DEVICES OPS FIRST LAST FACTOR, for example: 2 psum,all_gather 1024 67108864 16

Bytes are the larger one of a shard's input and output. A call is measured twice, as a jitted function called from
Python (with its input donated, where that fits) and inside a loop of one program; the faster one counts.
"""
import functools
import json
import os
import statistics
import sys
import time

devices = int(sys.argv[1])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  (after the flags)
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

SAMPLES = 11
SAMPLE_SECONDS = 4e-3
MOST_CALLS = 10000
RING = [(k, (k + 1) % devices) for k in range(devices)]


def pbroadcast(x):
    """JAX has none on CPU: a sum of which all terms but the source's are zero."""
    return lax.psum(jnp.where(lax.axis_index("d") == devices - 1, x, 0), "d")


# name: the collective; parts of the size that a shard's input has; the result of inputs that are all index + 1,
# as (index, block) -> value
ROWS = {
    "psum": (lambda x: lax.psum(x, "d"), devices, lambda i, b: devices * (devices + 1) // 2),
    "pmean": (lambda x: lax.pmean(x, "d"), devices, lambda i, b: (devices + 1) / 2),
    "pmax": (lambda x: lax.pmax(x, "d"), devices, lambda i, b: devices),
    "all_gather": (lambda x: lax.all_gather(x, "d", tiled=True), 1, lambda i, b: b + 1),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x, "d", tiled=True),
        devices,
        lambda i, b: devices * (devices + 1) // 2,
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "d", 0, 0, tiled=True), devices, lambda i, b: b + 1),
    "ppermute": (lambda x: lax.ppermute(x, "d", RING), devices, lambda i, b: (i - 1) % devices + 1),
    "pbroadcast": (pbroadcast, devices, lambda i, b: devices),
}


def sharded(mesh, function, specs):
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec("d"), check_vma=False)


def repeated(op, x, calls):
    """`calls` calls in one program; each one's input is the last one's result, as far as it reaches."""

    def body(_, x):
        y = op(x)
        return y[: x.shape[0]] if y.shape[0] >= x.shape[0] else lax.dynamic_update_slice(x, y, (0,))

    return lax.fori_loop(0, calls, body, x)


def honest(op, x, calls):
    """Write the own input, call, read the own result; the barriers keep the three apart."""

    def body(k, state):
        x, total = state
        x = lax.optimization_barrier(jnp.full_like(x, k % 2))
        y = lax.optimization_barrier(op(x))
        return x, total + jnp.sum(y)

    return lax.fori_loop(0, calls, body, (x, jnp.float32(0)))[1][None]


def median_us(run):
    """run(calls) -> seconds."""
    run(2)
    once = run(8) / 8
    calls = max(1, min(MOST_CALLS, int(SAMPLE_SECONDS / once)))
    return 1e6 * statistics.median(run(calls) / calls for _ in range(SAMPLES))


def check(call, place, parts, count, expect):
    cut = count // devices
    size = cut * parts
    x = numpy.repeat(numpy.arange(1, devices + 1, dtype=numpy.float32), size)
    y = numpy.asarray(call(place(x))).reshape(devices, -1)
    for i in range(devices):
        for b in range(0, y.shape[1] // cut):
            if not (y[i, b * cut : (b + 1) * cut] == expect(i, b)).all():
                sys.exit(f"jax_collectives.py: shard {i}, block {b} is {y[i, b * cut]}, wanted {expect(i, b)}")


def measure(name, size, mesh):
    op, parts, expect = ROWS[name]
    count = -(-size // 4 // devices) * devices
    spec = PartitionSpec("d")
    place = functools.partial(jax.device_put, device=NamedSharding(mesh, spec))
    call = jax.jit(sharded(mesh, op, spec), donate_argnums=(0,) if parts == devices and name != "psum_scatter" else ())
    check(call, place, parts, count, expect)
    block = count // devices * parts
    program = jax.jit(sharded(mesh, functools.partial(repeated, op), (spec, PartitionSpec())))
    honest_program = jax.jit(sharded(mesh, functools.partial(honest, op), (spec, PartitionSpec())))

    def calls_from_python(calls):
        x = jax.block_until_ready(place(numpy.zeros(block * devices, numpy.float32)))
        start = time.perf_counter()
        for _ in range(calls):  # waiting each time: calls in flight can starve each other of XLA's threads and hang
            y = jax.block_until_ready(call(x))
            if y.shape == x.shape:
                x = y
        return time.perf_counter() - start

    x = jax.block_until_ready(place(numpy.zeros(block * devices, numpy.float32)))

    def calls_in(program, calls):
        start = time.perf_counter()
        jax.block_until_ready(program(x, calls))
        return time.perf_counter() - start

    python, inside = median_us(calls_from_python), median_us(functools.partial(calls_in, program))
    honest_us = median_us(functools.partial(calls_in, honest_program))
    line = {"op": name, "bytes": 4 * count, "us": min(python, inside), "honest_us": honest_us}
    print(json.dumps({**line, "python_us": python, "program_us": inside}), flush=True)


def main():
    ops, first, last, factor = sys.argv[2].split(","), *map(int, sys.argv[3:6])
    mesh = jax.make_mesh((devices,), ("d",))
    for name in ops:
        size = first
        while name in ROWS and size <= last:
            measure(name, size, mesh)
            size *= factor


main()
