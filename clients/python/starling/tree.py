"""The trainer's parameters as a tree of arrays: dictionaries, lists and tuples, whose keys make the names."""
import array
from collections.abc import Mapping

from .errors import Error
from .slots import KINDS, JaxSlot, NumpySlot, PlainSlot, is_instance, is_jax, is_numbers


def _make_slot(name, value, role):
    """The slot of a leaf of the trainer's parameters, or None if it stays local: integers, and what has no elements.
    Raises Error if it is no array."""
    if is_instance(value, "torch", "Tensor"):
        from .torch_slots import TorchSlot, kind_of
        return TorchSlot(name, value, role) if kind_of(name, value) and value.numel() else None
    if is_instance(value, "numpy", "ndarray") or is_jax(value):
        if value.dtype.name not in KINDS or value.size == 0:
            return _local(name, value.dtype.kind)
        return (JaxSlot if is_jax(value) else NumpySlot)(name, value, role)
    if isinstance(value, (array.array, memoryview)) or is_numbers(value):
        code = getattr(value, "typecode", getattr(value, "format", "d"))
        return PlainSlot(name, value, role) if code in "fd" and all(getattr(value, "shape", (len(value),))) else None
    raise Error(f"{name} is of type {type(value).__name__}, not an array of numbers")


def _local(name, kind):
    if kind == "c":
        raise Error(f"{name} has complex numbers; a swarm averages real ones")


class Tensors:
    """The tensors of a trainer. `tied` are pairs (other name, name). Derived classes keep the slots' values current."""

    def __init__(self, slots, tied=()):
        # Trained tensors precede the others in the arena; their order is otherwise the trainer's.
        self.slots, self.tied = slots, list(tied)
        self.params = None
        self.state = None  # a State, or None
        self.resumed = False  # from a file of save(), which has its state

    def declaration(self):
        return [*(slot.declaration() for slot in self.slots), *(f"tied {other} {name}" for other, name in self.tied),
                *(self.state.declaration() if self.state else ())]

    def refresh(self):
        """Before values are read or written."""

    def store(self):
        """After values were written."""

    def keep_own(self):
        """Views become arrays in memory of their own."""
        for slot in self.slots:
            if slot.viewed:
                slot.keep_own()
                slot.viewed = False


class Tree(Tensors):
    """Parameters in nested dictionaries, lists and tuples, or one array. `roles`: of names that are not trained,
    for example {"mean": "running"}. Arrays that is_local(name, array) holds for are no part of it."""

    def __init__(self, params, roles=None, is_local=None):
        self.params = params
        self._sorts = any(is_jax(leaf) for _, leaf in self._leaves())  # as jax orders dictionaries
        roles = dict(roles or {})
        slots, tied, seen = [], [], {}
        for name, leaf in self._leaves():
            if is_local and is_local(name, leaf):
                continue
            slot = _make_slot(name, leaf, roles.get(name, "trained"))
            if slot and id(leaf) in seen and not is_jax(leaf):
                tied.append((name, seen[id(leaf)]))
            elif slot:
                seen[id(leaf)] = name
                slots.append(slot)
        super().__init__(slots, tied)
        self.params = params
        self._by_name = {slot.name: slot for slot in slots}
        self._by_name.update((other, self._by_name[name]) for other, name in tied)

    def state_dict(self):
        """The arrays that are exchanged, by their names, for a checkpoint."""
        self.refresh()
        return {slot.name: array.array("f" if slot.kind == "f32" else "d", slot._flat()) if isinstance(slot, PlainSlot)
                else slot.values for slot in self.slots}

    def load_state_dict(self, state):
        names = {slot.name for slot in self.slots}
        if names != set(state):
            raise ValueError(f"the arrays differ: {', '.join(sorted(names ^ set(state))[:5])}")
        for slot in self.slots:
            value = state[slot.name]
            if tuple(getattr(value, "shape", (len(value),) if hasattr(value, "__len__") else ())) not in (
                    slot.shape, (slot.floats,)):
                raise ValueError(f"the shape of {slot.name} differs")
            if isinstance(slot.values, list):
                slot.values[:] = value
            elif isinstance(slot, PlainSlot):
                slot._flat()[:] = value
            elif hasattr(slot.values, "copy_"):  # of PyTorch
                slot.values.data.copy_(value)
            else:
                slot._set(value)
        self.store()

    def bind(self, params):
        """The arrays that the trainer has now."""
        self.params = params

    def refresh(self):
        # A tree may keep its identity and have other arrays: `params["w"] = params["w"] - step`.
        for name, leaf in self._leaves():
            slot = self._by_name.get(name)
            if slot is not None:
                if getattr(leaf, "shape", slot.shape) != slot.shape:
                    raise ValueError(f"the shape of {name} was {slot.shape} and is {leaf.shape}")
                slot.values = leaf

    def store(self):
        self.params = self._rebuild(self.params, "")

    def _leaves(self):
        return list(self._walk(self.params, ""))

    def _walk(self, node, name):
        if isinstance(node, Mapping):
            keys = sorted(node) if getattr(self, "_sorts", False) else node
            for key in keys:
                yield from self._walk(node[key], _join(name, key))
        elif isinstance(node, (list, tuple)) and not is_numbers(node):
            for index, child in enumerate(node):
                yield from self._walk(child, _join(name, index))
        elif node is not None:
            yield name or "parameters", node

    def _rebuild(self, node, name):
        """The same tree with the slots' values; nodes that have not changed are the same objects."""
        if isinstance(node, Mapping):
            new = {key: self._rebuild(child, _join(name, key)) for key, child in node.items()}
            return node if all(new[key] is node[key] for key in new) else type(node)(new)
        if isinstance(node, (list, tuple)) and not is_numbers(node):
            new = [self._rebuild(child, _join(name, index)) for index, child in enumerate(node)]
            if all(a is b for a, b in zip(new, node)):
                return node
            return type(node)(*new) if hasattr(node, "_fields") else type(node)(new)
        slot = self._by_name.get(name or "parameters")
        return node if slot is None else slot.values


def _join(name, key):
    return f"{name}.{key}" if name else str(key)
