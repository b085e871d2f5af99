"""Peers that train pytrees of JAX, such as the models of Equinox, the states of Flax NNX, and the parameters of Flax.

    with starling.jax.gossip(params, state, listen="127.0.0.1:7100") as peer:
        params, state = peer.both
        for x, y in batches:
            params, state, loss = make_step(params, state, x, y)
            params, state = peer.exchange(params, len(x), loss, state)
"""
import math

import starling

from .state import Cell, State

try:
    import jax
    import numpy
except ModuleNotFoundError as missing:
    if missing.name != "jax":
        raise
    raise ImportError("starling.jax needs the package jax; install it with: pip install jax") from None


def _name(path):
    """Of a leaf: its keys, attributes and indices, joined by dots."""
    return ".".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)


def is_float(leaf):
    return jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)


def _arrays(tree):
    """The arrays of floating-point numbers by their names."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path) or "parameters": leaf for path, leaf in leaves
            if isinstance(leaf, jax.Array) and is_float(leaf)}


def _with(tree, arrays):
    """The same tree with these arrays."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: arrays.get(_name(path) or "parameters", leaf), tree)


class TreeState(State):
    """The arrays of numbers in a pytree, such as the state of an optimizer of optax."""

    def __init__(self, tree):
        self.tree = tree
        super().__init__([Cell(name, "f32" if leaf.dtype.itemsize <= 4 and is_float(leaf) else "f64", leaf.shape)
                          for name, leaf in self._leaves()])

    def _leaves(self):
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.tree)
        return [(f"state/{_name(path)}", leaf) for path, leaf in leaves if isinstance(leaf, jax.Array) and leaf.size
                and (is_float(leaf) or jax.numpy.issubdtype(leaf.dtype, jax.numpy.integer))]

    def _piece(self, memory, at, cell):
        kind = numpy.float32 if cell.kind == "f32" else numpy.float64
        return numpy.frombuffer(memory, kind, math.prod(cell.shape), at).reshape(cell.shape)

    def _write(self, pieces):
        for (_, leaf), piece in zip(self._leaves(), pieces):
            piece[...] = numpy.asarray(leaf).astype(piece.dtype)

    def _read(self, pieces):
        new = {}
        for (name, leaf), piece in zip(self._leaves(), pieces):
            if not numpy.isfinite(piece).all():
                return name
            new[name] = jax.device_put(jax.numpy.asarray(numpy.array(piece), leaf.dtype), leaf.sharding)
        self.tree = jax.tree_util.tree_map_with_path(lambda path, leaf: new.get(f"state/{_name(path)}", leaf),
                                                     self.tree)
        return None


class Peer:
    """What gossip() returns: a starling.Peer for a tree. `state`: the state that was given last, or the one of a member
    that came with its parameters; None without one."""

    def __init__(self, tree, peer, state):
        self._tree, self._peer, self._state = tree, peer, state

    @property
    def state(self):
        return self._state and self._state.tree

    def exchange(self, tree, samples=None, loss=None, state=None):
        """After a step that made `tree` and the optimizer's `state`: reports it, and returns the tree to continue with,
        or (tree, state) if the state is given. Other leaves stay."""
        self._tree = tree
        if self._state and state is not None:
            self._state.tree = state
        tree = _with(tree, self._peer.exchange(_arrays(tree), samples, loss))
        return tree if state is None else (tree, self.state if self._state else state)

    @property
    def both(self):
        """(params, state)"""
        return self.params, self.state

    @property
    def params(self):
        """The tree with the current arrays: first those of the swarm, and after the end the last ones."""
        return _with(self._tree, self._peer.params)

    def __getattr__(self, name):
        return getattr(self._peer, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._peer.__exit__(*error)


def gossip(tree, state=None, **arguments):
    """A peer for the arrays of floating-point numbers in a pytree. state: of the optimizer, which a newcomer copies.
    arguments: as of starling.gossip(). Training begins with `params` and `state` of what it returns. Raises
    starling.Error if the peer cannot begin."""
    arrays = _arrays(tree)
    if not arrays:
        raise starling.Error("the tree has no jax.Array of floating-point numbers")
    kept = None if state is None else TreeState(state)
    return Peer(tree, starling.gossip(arrays, state=kept, **arguments), kept)
