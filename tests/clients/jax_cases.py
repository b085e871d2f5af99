"""starling.jax with Optax, Flax and Equinox."""
import threading

import equinox
import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import optax
import starling
import starling.jax
from suite import require

STEPS, BATCH = 12, 8


def batch(step):
    x = jax.random.normal(jax.random.PRNGKey(step), (BATCH, 4))
    return x, x[:, :2] * x[:, 2:]


def linen(kind=jnp.float32):
    model = flax.linen.Sequential([flax.linen.Dense(8, param_dtype=kind), flax.linen.tanh,
                                   flax.linen.Dense(2, param_dtype=kind)])
    return model.init(jax.random.PRNGKey(0), batch(0)[0]), model.apply


def nnx():
    class Net(flax.nnx.Module):
        def __init__(self, rngs):
            self.first, self.second = flax.nnx.Linear(4, 8, rngs=rngs), flax.nnx.Linear(8, 2, rngs=rngs)

        def __call__(self, x):
            return self.second(jnp.tanh(self.first(x)))
    graph, state = flax.nnx.split(Net(flax.nnx.Rngs(0)))
    return state, lambda state, x: flax.nnx.merge(graph, state)(x)


def eqx():
    model = equinox.nn.MLP(4, 2, 8, 1, activation=jnp.tanh, key=jax.random.PRNGKey(0))
    return model, lambda model, x: jax.vmap(model)(x)


def train(tree, apply, peer=None):
    optimizer = optax.adam(0.01)
    arrays, rest = equinox.partition(tree, equinox.is_inexact_array)
    state = optimizer.init(arrays)

    @jax.jit
    def step(arrays, state, x, y):
        loss, gradients = jax.value_and_grad(lambda a: jnp.mean((apply(equinox.combine(a, rest), x) - y) ** 2))(arrays)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(arrays, updates), state, loss
    for number in range(STEPS):
        arrays, state, loss = step(arrays, state, *batch(number))
        if peer:
            tree = peer.exchange(equinox.combine(arrays, rest), samples=BATCH, loss=loss)
            arrays, rest = equinox.partition(tree, equinox.is_inexact_array)
    return equinox.combine(arrays, rest)


def near(a, b, bound=1e-5):
    a, b = (jax.tree_util.tree_leaves(equinox.filter(tree, equinox.is_inexact_array)) for tree in (a, b))
    require(len(a) == len(b) and len(a) >= 4, f"{len(a)} and {len(b)} arrays")
    require(all(jnp.allclose(x, y, bound, bound) for x, y in zip(a, b)), "the values differ")


def as_without_a_peer(place, make, bound=1e-5):
    tree, apply = make()
    plain = train(tree, apply)
    with starling.jax.gossip(tree, **place.arguments()) as peer:
        last = train(peer.params, apply, peer)
        require(jax.tree_util.tree_structure(last) == jax.tree_util.tree_structure(tree), "another structure")
    near(plain, last, bound)
    near(plain, peer.params, bound)
    place.counted(STEPS * BATCH, STEPS)


def parameters_of_flax_linen_are_exchanged(place):
    as_without_a_peer(place, linen)


def states_of_flax_nnx_are_exchanged(place):
    as_without_a_peer(place, nnx)


def models_of_equinox_are_exchanged(place):
    as_without_a_peer(place, eqx)
    require(any("weight" in name for name in place.tensors), f"{place.tensors}")


def bfloat16_of_jax_is_exchanged(place):
    as_without_a_peer(place, lambda: linen(jnp.bfloat16), 2.0**-7)


def a_joiner_of_jax_has_the_parameters_of_the_swarm(place):
    first, apply = linen()
    second = jax.tree_util.tree_map(jnp.zeros_like, first)
    with starling.jax.gossip(first, **place.arguments()):
        address = place.log().split("listens at ")[1].split(",")[0]
        with starling.jax.gossip(second, join=address, program=place.program, log=place.path("second.log")) as peer:
            near(peer.params, first, 0)


def a_joiner_of_jax_has_the_state_of_the_optimizer(place):
    optimizer, joined, steps = optax.adam(0.01), [], 0
    first, _ = linen()
    gradients = jax.tree_util.tree_map(jnp.ones_like, first)
    with starling.jax.gossip(first, optimizer.init(first), **place.arguments()) as peer:
        address = place.log().split("listens at ")[1].split(",")[0]

        def join():
            second = jax.tree_util.tree_map(jnp.zeros_like, first)
            with starling.jax.gossip(second, optimizer.init(second), join=address, program=place.program,
                                     log=place.path("second.log")) as other:
                joined.append(other.state)
        thread = threading.Thread(target=join, daemon=True)
        thread.start()
        params, state = peer.both
        while thread.is_alive():
            updates, state = optimizer.update(gradients, state)
            params, state = peer.exchange(optax.apply_updates(params, updates), BATCH, 1.0, state)
            steps += 1
    count = int(joined[0][0].count)
    require(0 < count <= steps, f"{count} of {steps} steps")
    for leaf in jax.tree_util.tree_leaves(joined[0][0].mu):
        require(jnp.allclose(leaf, 1 - 0.9**count, 1e-5), f"after {count} steps: {leaf}")


def trees_without_arrays_are_refused(place):
    try:
        starling.jax.gossip({"a": 1}, **place.arguments())
    except starling.Error as error:
        require("no jax.Array" in str(error), str(error))
    else:
        raise AssertionError("accepted")


CASES = [parameters_of_flax_linen_are_exchanged, states_of_flax_nnx_are_exchanged, models_of_equinox_are_exchanged,
         bfloat16_of_jax_is_exchanged, a_joiner_of_jax_has_the_parameters_of_the_swarm,
         a_joiner_of_jax_has_the_state_of_the_optimizer, trees_without_arrays_are_refused]
