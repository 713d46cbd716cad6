#!/usr/bin/env python3
"""Reference values from JAX and Optax: writes ops, optimizers and shared_mlp.safetensors.

usage: make_golden.py OUT DATA     (DATA holds fashion-mnist/; needs jax, optax, numpy, safetensors)

Everything is float32 with JAX's matmul precision "highest". The random inputs are stored with the results, so the
tests never need this script; it is here to say exactly what the numbers mean and to add more of them.
"""

import gzip
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from safetensors.numpy import save_file

jax.config.update("jax_default_matmul_precision", "highest")
VERSIONS = f"jax {jax.__version__}, optax {optax.__version__}, numpy {np.__version__}"


class Source:
    """Random inputs, drawn in the order of the calls."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def normal(self, *shape, scale=1.0):
        return (scale * self.generator.standard_normal(shape)).astype(np.float32)

    def below(self, limit, *shape):
        return self.generator.integers(0, limit, shape).astype(np.int32)


def save(path, tensors, **metadata):
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(tensors, path, {"by": VERSIONS, **metadata})
    print(f"{path}: {len(tensors)} tensors")


# --- ops: value, and gradients of sum(out * ct) -----------------------------------------------------------------------


def layer_norm(x, gain, bias):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + bias


def causal_attention(q, k, v):
    time = q.shape[2]
    scores = jnp.matmul(q, jnp.swapaxes(k, 2, 3)) / np.sqrt(q.shape[3])
    visible = jnp.arange(time)[:, None] >= jnp.arange(time)[None, :]
    return jnp.matmul(jax.nn.softmax(jnp.where(visible, scores, -jnp.inf)), v)


def ops(path):
    source = Source(11)
    tensors = {}

    def add(name, function, *inputs):
        out, pull_back = jax.vjp(function, *map(jnp.asarray, inputs))
        ct = source.normal(*out.shape)
        tensors[f"{name}.out"] = out
        tensors[f"{name}.ct"] = ct
        for k, (value, grad) in enumerate(zip(inputs, pull_back(jnp.asarray(ct)))):
            tensors[f"{name}.in{k}"] = value
            tensors[f"{name}.grad{k}"] = grad

    normal = source.normal
    add("matmul", jnp.matmul, normal(17, 33), normal(33, 9))
    add("bias_gelu", lambda x, bias: jax.nn.gelu(x + bias, approximate=True), normal(17, 33, scale=2), normal(33))
    add("layernorm", layer_norm, normal(11, 48), normal(48), normal(48))
    add("softmax", jax.nn.softmax, normal(13, 29, scale=3))
    labels = tensors["xent.labels"] = source.below(29, 13)
    add(
        "xent",
        lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, labels),
        normal(13, 29, scale=3),
    )
    tokens = tensors["embedding.tokens"] = source.below(19, 3, 7)
    add("embedding", lambda table: table[tokens], normal(19, 12))
    for name, shape in (("attention", (2, 3, 37, 16)), ("attention_long", (1, 2, 300, 32))):
        add(name, causal_attention, *(normal(*shape) for _ in range(3)))
    for name, function in (
        ("relu", jax.nn.relu),
        ("tanh", jnp.tanh),
        ("silu", jax.nn.silu),
        ("exp", jnp.exp),
        ("sigmoid", jax.nn.sigmoid),
    ):
        add(name, function, normal(9, 21))
    save(path, tensors, gelu="tanh form")


# --- optimizers: six given gradients -----------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "sgd_momentum": optax.sgd(0.1, momentum=0.9),
    "sgd_nesterov": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optax.adam(1e-2),
    "adamw": optax.adamw(1e-2, weight_decay=0.1),
    "clip_adamw": optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2, weight_decay=0.1)),
    "warmup_cosine_adam": optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 6)),
    "lion": optax.lion(1e-3),
    "rmsprop": optax.rmsprop(1e-2),
    "lamb": optax.lamb(1e-2),
}


def optimizers(path):
    source = Source(12)
    start, grads = source.normal(7, 5), source.normal(6, 7, 5)
    tensors = {"w": start, "grads": grads}
    for name, optimizer in OPTIMIZERS.items():
        w = jnp.asarray(start)
        state = optimizer.init(w)
        for grad in grads:
            update, state = optimizer.update(jnp.asarray(grad), state, w)
            w = optax.apply_updates(w, update)
        tensors[f"after.{name}"] = w
    save(path, tensors)


# --- the shared-block MLP: one batch, then five AdamW steps on it ------------------------------------------------------

HIDDEN, REPEATS, MIX, BATCH, STEPS = 64, 6, 0.1, 32, 5


def first_images(data):
    def raw(name, skip, count):
        with gzip.open(pathlib.Path(data, "fashion-mnist", name)) as file:
            return np.frombuffer(file.read(skip + count), np.uint8)[skip:]

    pixels = raw("train-images-idx3-ubyte.gz", 16, BATCH * 784).reshape(BATCH, 784)
    return pixels.astype(np.float32) / 255, raw("train-labels-idx1-ubyte.gz", 8, BATCH).astype(np.int32)


def shared_mlp(path, data):
    source = Source(13)
    x, y = first_images(data)
    params = {}
    for part, fan_in, fan_out in (("in", 784, HIDDEN), ("block", HIDDEN, HIDDEN), ("out", HIDDEN, 10)):
        params[f"w_{part}"] = source.normal(fan_in, fan_out, scale=np.sqrt(2 / fan_in))
        params[f"b_{part}"] = source.normal(fan_out, scale=0.1)

    def logits(p):
        h = jax.nn.gelu(x @ p["w_in"] + p["b_in"], approximate=True)
        for _ in range(REPEATS):
            block = jax.nn.gelu(h @ p["w_block"] + p["b_block"], approximate=True)
            h = (1 - MIX) * h + MIX * block
        return h @ p["w_out"] + p["b_out"]

    def mean_loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(logits(p), y).mean()

    step = jax.value_and_grad(mean_loss)
    optimizer = optax.adamw(3e-4, weight_decay=1e-4)
    trained, state, losses, norms = params, optimizer.init(params), [], []
    for _ in range(STEPS):
        loss, grads = step(trained)
        losses.append(loss)
        norms.append(optax.global_norm(grads))
        update, state = optimizer.update(grads, state, trained)
        trained = optax.apply_updates(trained, update)

    loss, grads = step(params)
    tensors = {"x": x, "y": y, "logits": logits(params), "losses": np.float32(losses), "grad_norms": np.float32(norms)}
    tensors["loss"] = np.float32([loss])
    tensors["grad_norm"] = np.float32([optax.global_norm(grads)])
    for group, values in (("param", params), ("grad", grads), ("after", trained)):
        tensors |= {f"{group}.{name}": value for name, value in values.items()}
    save(path, tensors, hidden=str(HIDDEN), layers=str(REPEATS), mix=str(MIX), batch=str(BATCH), steps=str(STEPS),
         optimizer="optax.adamw(3e-4, b1=.9, b2=.999, eps=1e-8, weight_decay=1e-4)")


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    ops(out / "ops.safetensors")
    optimizers(out / "optimizers.safetensors")
    shared_mlp(out / "shared_mlp.safetensors", arguments[1])


if __name__ == "__main__":
    main(sys.argv[1:])
