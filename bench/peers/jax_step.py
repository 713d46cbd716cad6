"""The bench's training steps in JAX: data parallel on host devices, AdamW by hand; one JSON line.

usage: jax_step.py FORM DEVICES MODEL REPEATS BATCH DTYPE STEPS, for example: auto 2 shared-mlp 16 256 f32 21

FORM is auto (the compiler places the sum of the gradients) or explicit (shard_map with pmean). BATCH is a device's.
first_step_end: on the clock CLOCK_MONOTONIC.
"""
import json
import os
import resource
import statistics
import sys
import time

form, devices, model, repeats, per_device, dtype, steps = sys.argv[1:]
devices, repeats, per_device, steps = int(devices), int(repeats), int(per_device), int(steps)
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  (after the flags)
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

COMPUTE = {"f32": jnp.float32, "bf16": jnp.bfloat16}[dtype]
SIZES = (784, 1024, 1024, 10) if model == "shared-mlp" else (784, 256, 128, 10)
RATE, B1, B2, EPSILON, DECAY = 3e-4, 0.9, 0.999, 1e-8, 1e-4
WARM = 4


def start():
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = list(zip(SIZES, SIZES[1:]))
    weights = [jax.random.normal(key, shape) * (2 / shape[0]) ** 0.5 for key, shape in zip(keys, shapes)]
    return [(weight, jnp.zeros(weight.shape[1])) for weight in weights]


def logits(params, x):
    (w1, b1), (w2, b2), (w3, b3) = jax.tree.map(lambda p: p.astype(COMPUTE), params)
    h = jax.nn.gelu(x.astype(COMPUTE) @ w1 + b1)
    if model == "shared-mlp":
        h, _ = jax.lax.scan(lambda h, _: (0.9 * h + 0.1 * jax.nn.gelu(h @ w2 + b2), None), h, None, length=repeats)
    else:
        h = jax.nn.gelu(h @ w2 + b2)
    return (h @ w3 + b3).astype(jnp.float32)


def loss(params, x, y):
    z = logits(params, x)
    nll = jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[:, None], -1)[:, 0]
    return nll.mean(), (z.argmax(-1) == y).mean()


def adamw(params, mu, nu, grads, count):
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, mu, grads)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, nu, grads)

    def update(p, m, v):
        return p - RATE * (m / (1 - B1**count) / (jnp.sqrt(v / (1 - B2**count)) + EPSILON) + DECAY * p)

    return jax.tree.map(update, params, mu, nu), mu, nu


mesh = jax.make_mesh((devices,), ("data",))
everywhere, cut = PartitionSpec(), PartitionSpec("data")
gradient = jax.value_and_grad(loss, has_aux=True)


def averaged(params, x, y):
    return jax.lax.pmean(gradient(params, x, y), "data")


if form == "explicit":
    gradients = jax.shard_map(
        averaged, mesh=mesh, in_specs=(everywhere, cut, cut), out_specs=everywhere, check_vma=False
    )
else:
    gradients = gradient


def step(params, mu, nu, count, x, y):
    (value, hits), grads = gradients(params, x, y)
    norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(grads)))
    return *adamw(params, mu, nu, grads, count), count + 1, (value, hits, norm)


def main():
    batch = per_device * devices
    state = (start(), jax.tree.map(jnp.zeros_like, start()), jax.tree.map(jnp.zeros_like, start()), jnp.float32(1))
    state = jax.device_put(state, NamedSharding(mesh, everywhere))
    x = jax.device_get(jax.random.uniform(jax.random.key(1), (batch, SIZES[0])))
    y = jax.device_get(jnp.arange(batch) % SIZES[-1])
    jitted = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    times, first = [], 0
    for k in range(WARM + steps):
        before = time.perf_counter()
        shards = jax.device_put((x, y), NamedSharding(mesh, cut))  # a step begins with a batch on the host, as ours
        *state, metrics = jitted(*state, *shards)
        [float(metric) for metric in metrics]
        jax.block_until_ready(state)
        times.append(time.perf_counter() - before)
        first = first or time.perf_counter()
    ms = 1e3 * statistics.median(times[WARM:])
    row = {"ms_per_step": ms, "examples_per_s": 1e3 * batch / ms, "loss": float(metrics[0])}
    row |= {"peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "first_step_end": first}
    print(json.dumps(row), flush=True)


main()
