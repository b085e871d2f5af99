#!/usr/bin/env python3
"""A convolutional network that tells drawn shapes apart, with JAX, Flax and Optax: cnn_flax.py [--steps N]

The lines with "# starling" are all that a peer needs: without them this is the plain program.
"""
import argparse
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import starling.jax  # starling

SIDE, BATCH, CLASSES = 16, 64, 3


@jax.jit
def shapes(key):
    """A batch of images of one disk, square or cross each, of any place, in noise; and the classes."""
    kinds, places, noise = jax.random.split(key, 3)
    classes = jax.random.randint(kinds, (BATCH,), 0, CLASSES)
    center = jax.random.uniform(places, (2, BATCH, 1, 1), minval=5, maxval=11)
    x, y = jnp.arange(SIDE)[None, None] - center[0], jnp.arange(SIDE)[None, :, None] - center[1]
    near, far = jnp.minimum(abs(x), abs(y)), jnp.maximum(abs(x), abs(y))
    drawn = jnp.stack([x**2 + y**2 < 20, far < 4, (far < 4) & (near < 1.5)])[classes, jnp.arange(BATCH)]
    return (drawn + 0.5 * jax.random.normal(noise, drawn.shape))[..., None], classes


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        for channels in 16, 32:
            x = nn.avg_pool(nn.relu(nn.Conv(channels, (3, 3))(x)), (2, 2), (2, 2))
        return nn.Dense(CLASSES)(nn.relu(nn.Dense(64)(x.reshape(len(x), -1))))


def loss_of(params, images, classes):
    return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, images), classes).mean()


@jax.jit
def make_step(params, state, images, classes):
    loss, gradients = jax.value_and_grad(loss_of)(params, images, classes)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300)
arguments = parser.parse_args()
model, optimizer = CNN(), optax.adamw(1e-3)
params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, SIDE, SIDE, 1)))
state = optimizer.init(params)
params, state = (peer := starling.jax.gossip(params, state, model_name="cnn", data="shapes")).both  # starling
key = jax.random.PRNGKey(os.getpid())
for step in range(1, arguments.steps + 1):
    images, classes = shapes(jax.random.fold_in(key, step))
    params, state, loss = make_step(params, state, images, classes)
    params, state = peer.exchange(params, BATCH, loss, state)  # starling
    if step % 100 == 0:
        print(f"step {step}: loss {float(loss):.3f}", flush=True)
right = [(model.apply(params, x).argmax(1) == y).mean() for x, y in map(shapes, jax.random.split(jax.random.PRNGKey(1), 10))]
print(f"accuracy {float(sum(right)) / len(right):.1%}")
