#!/usr/bin/env python3
"""Softmax regression on a table, the network of `starling peer --model softmax --data FILE.csv`, with JAX:
linear_jax.py SOCKET FILE.csv [STEPS]. The last column is the class, from 0 on.
"""
import os
import sys

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit(print("skipped: jax is not installed"))
import numpy as np
import starling

BATCH, RATE = 32, 0.05


def logits(params, x):
    return x @ params["fc1.weight"].T + params["fc1.bias"]


def loss_of(params, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1).mean()


@jax.jit
def make_step(params, key):
    """Stochastic gradient descent: the new parameters and the loss."""
    chosen = jax.random.randint(key, (BATCH,), 0, len(rows))
    loss, gradient = jax.value_and_grad(loss_of)(params, rows[chosen], classes[chosen])
    return jax.tree_util.tree_map(lambda x, g: x - RATE * g, params, gradient), loss


table = np.loadtxt(sys.argv[2], delimiter=",", skiprows=1, dtype=np.float32)
rows, classes = jnp.array(table[:, :-1]), jnp.array(table[:, -1].astype(int))
rows = (rows - rows.mean(0)) / rows.std(0)
count = int(classes.max()) + 1
params = {"fc1.weight": jnp.zeros((count, rows.shape[1])), "fc1.bias": jnp.zeros(count)}
key = jax.random.PRNGKey(os.getpid())
with starling.attach(params, socket=sys.argv[1], model_name="softmax", data="table", epoch=len(rows),
                     batch=BATCH) as peer:
    params = peer.params
    for step in range(int(sys.argv[3]) if len(sys.argv) > 3 else 10**9):
        params, loss = make_step(params, jax.random.fold_in(key, step))
        params = peer.exchange(params, samples=BATCH, loss=loss)
        if peer.progress.done:
            break
params = peer.params  # of the swarm at its end
print(f"loss {float(loss):.4f}, accuracy {float((logits(params, rows).argmax(1) == classes).mean()):.4f}")
