#!/usr/bin/env python3
"""A linear model y = w x + b, trained as a peer of a swarm, with JAX: linear_jax.py SOCKET [STEPS]"""
import sys

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit(print("skipped: jax is not installed"))
import starling

INPUTS, BATCH, RATE = 8, 32, 0.1


def loss_of(params, x):
    """On points of the line that is to be learned: weights 1, 2, 3, ... and bias -1."""
    y = x @ jnp.arange(1.0, INPUTS + 1) - 1
    return jnp.mean((x @ params["weight"] + params["bias"] - y) ** 2)


@jax.jit
def make_step(params, key):
    """Stochastic gradient descent: the new parameters and the loss."""
    loss, gradient = jax.value_and_grad(loss_of)(params, jax.random.uniform(key, (BATCH, INPUTS), minval=-1))
    return jax.tree_util.tree_map(lambda x, g: x - RATE * g, params, gradient), loss


params = {"weight": jnp.zeros(INPUTS), "bias": jnp.zeros(())}
peer = starling.attach(params, socket=sys.argv[1] if len(sys.argv) > 1 else None, model_name="linear", batch=BATCH)
params = peer.params
with peer:
    for step in range(int(sys.argv[2]) if len(sys.argv) > 2 else 500):
        params, loss = make_step(params, jax.random.PRNGKey(step))
        params = peer.exchange(params, samples=BATCH, loss=loss)
params = peer.params  # of the swarm at its end
print(f"loss {float(loss):.6f}, {peer.progress.exchanges} exchanges,", params["weight"].round(3))
