"""Peers that train pytrees of JAX, such as the models of Equinox, the states of Flax NNX, and the parameters of Flax.

    with starling.jax.gossip(params, listen="127.0.0.1:7100") as peer:
        for x, y in batches:
            params, state, loss = make_step(params, state, x, y)
            params = peer.exchange(params, samples=len(x), loss=loss)
"""
import starling

try:
    import jax
except ModuleNotFoundError as missing:
    if missing.name != "jax":
        raise
    raise ImportError("starling.jax needs the package jax; install it with: pip install jax") from None


def _name(path):
    """Of a leaf: its keys, attributes and indices, joined by dots."""
    return ".".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)


def _arrays(tree):
    """The arrays of floating-point numbers by their names."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path) or "parameters": leaf for path, leaf in leaves
            if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)}


def _with(tree, arrays):
    """The same tree with these arrays."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: arrays.get(_name(path) or "parameters", leaf), tree)


class Peer:
    """What gossip() returns: a starling.Peer for a tree."""

    def __init__(self, tree, peer):
        self._tree, self._peer = tree, peer

    def exchange(self, tree, samples=None, loss=None):
        """After a step that made `tree`: reports it, and returns the tree to continue with. Other leaves stay."""
        self._tree = tree
        return _with(tree, self._peer.exchange(_arrays(tree), samples, loss))

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


def gossip(tree, **arguments):
    """A peer for the arrays of floating-point numbers in a pytree. arguments: those of starling.gossip(). Training begins
    with `params` of what it returns. Raises starling.Error if the peer cannot begin."""
    arrays = _arrays(tree)
    if not arrays:
        raise starling.Error("the tree has no jax.Array of floating-point numbers")
    return Peer(tree, starling.gossip(arrays, **arguments))
