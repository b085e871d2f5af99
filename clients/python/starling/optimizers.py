"""The state of PyTorch's optimizers, and of other objects with state_dict() such as schedulers, by the names of the
model's parameters: `weight/exp_avg`."""
import collections

import torch

from .errors import log
from .state import Cell, State, number_kind, restored

TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
KIND_OF = {kind: name for name, kind in TYPES.items()}
HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def first_state(optimizer, group, parameter):
    """The state that the optimizer makes for a parameter in its first step, from a step of a twin with a gradient of
    zeros. Raises what the optimizer raises."""
    twin = object.__new__(type(optimizer))
    twin.__dict__.update(vars(optimizer))
    twin.__dict__.pop("step", None)  # the wrappers of schedulers and of gossip() belong to the original
    twin.__dict__.update({name: type(vars(twin)[name])() for name in HOOKS if name in vars(twin)})
    one = torch.zeros_like(parameter, requires_grad=True)
    one.grad = torch.zeros_like(parameter)
    twin.state = collections.defaultdict(dict)
    twin.param_groups = [{**group, "params": [one]}]
    with torch.random.fork_rng(devices=[]):
        type(optimizer).step(twin)
    return twin.state[one]


class Moment:
    """What an optimizer keeps under `key` for a parameter: a tensor or a number, like `example`."""

    def __init__(self, optimizer, parameter, key, example):
        self.optimizer, self.parameter, self.key, self.example = optimizer, parameter, key, example

    def get(self):
        return self.optimizer.state.get(self.parameter, {}).get(self.key)

    def put(self, value):
        own = self.optimizer.state[self.parameter]
        if not isinstance(self.example, torch.Tensor):
            own[self.key] = restored(self.example, float(value))
        elif isinstance(own.get(self.key), torch.Tensor):
            own[self.key].copy_(value)
        else:
            own[self.key] = torch.empty_like(self.example).copy_(value)

    def drop(self):
        self.optimizer.state.pop(self.parameter, None)


class Kept:
    """The exact values of a frozen tensor, which the arena has as float32."""

    def __init__(self, slot):
        self.slot, self.example = slot, slot.values

    def get(self):
        return self.slot.values if self.slot.frozen else None

    def put(self, value):
        if self.slot.frozen:
            self.slot.values.data.copy_(value)

    def drop(self):
        """The member trains it, and the parameters have its values."""


class Record:
    """What state_dict() of an object returns. Read once and loaded once for all of its leaves."""

    def __init__(self, owner):
        self.owner, self.content, self.changed = owner, None, False
        self.read()

    def read(self):
        self.content, self.changed = self.owner.state_dict(), False

    def load(self):
        if self.changed:
            self.owner.load_state_dict(self.content)


class Leaf:
    """A number or tensor in a Record, at `path`."""

    def __init__(self, record, path, example):
        self.record, self.path, self.example = record, path, example

    def get(self):
        node = self.record.content
        for key in self.path:
            node = node[key]
        return node

    def put(self, value):
        new = value.clone().to(self.example) if isinstance(self.example, torch.Tensor) else restored(
            self.example, float(value))
        self.record.content = self._with(self.record.content, self.path, new)
        self.record.changed = True

    def _with(self, node, path, new):
        if not path:
            return new
        if isinstance(node, dict):
            return type(node)({**node, path[0]: self._with(node[path[0]], path[1:], new)})
        changed = list(node)
        changed[path[0]] = self._with(node[path[0]], path[1:], new)
        return type(node)(changed)

    def drop(self):
        """The object keeps what it has."""


def leaves(node, path=()):
    """(path, number or tensor) of what state_dict() returns."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, (list, tuple)) else ()
    for key, value in pairs:
        if isinstance(value, torch.Tensor) and not value.is_complex() and value.numel() or number_kind(value):
            yield (*path, key), value
        else:
            yield from leaves(value, (*path, key))


def moments(optimizer, names):
    """(name, Moment) for all parameters of the optimizer that have a name."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in names:
                found = optimizer.state.get(parameter) or first_state(optimizer, group, parameter)
                for key, value in sorted(found.items()):
                    if isinstance(value, torch.Tensor) or number_kind(value):
                        yield f"{names[id(parameter)]}/{key}", Moment(optimizer, parameter, key, value)
                    elif value is not None:
                        raise TypeError(f"{key} is of type {type(value).__name__}")


class TorchState(State):
    """Of the optimizer, of frozen tensors among `slots`, and of other objects, `more`, by their names."""

    def __init__(self, optimizer, slots, more):
        names = {id(slot.values): slot.name for slot in slots}
        found = [(f"{slot.name}/kept", Kept(slot)) for slot in slots if slot.frozen]
        if optimizer is not None:
            try:
                found += list(moments(optimizer, names))
            except Exception as error:  # of code that is not ours, in a step that nobody asked for
                log.warning("starling: members that join begin with an empty %s, because its state is not made of "
                            "tensors by parameter: %s", type(optimizer).__name__, str(error).split("\n")[0])
        self._records = [Record(owner) for owner in more.values()]
        for name, record in zip(more, self._records):
            found += [(".".join(map(str, (name, *path))).replace(" ", "_"), Leaf(record, path, value))
                      for path, value in leaves(record.content)]
        self._owners = [owner for _, owner in found]
        self._optimizer = optimizer
        super().__init__([self._cell(name, owner.example) for name, owner in found])

    @staticmethod
    def _cell(name, example):
        if isinstance(example, torch.Tensor):
            return Cell(name, KIND_OF.get(example.dtype, "f64"), tuple(example.shape))
        return Cell(name, "f64", ())

    def _piece(self, memory, at, cell):
        count = max(1, torch.Size(cell.shape).numel())
        return torch.frombuffer(memory, dtype=TYPES[cell.kind], count=count, offset=at)[
            :torch.Size(cell.shape).numel()].view(cell.shape)

    def values(self):
        """The present values, as tensors like the pieces."""
        pieces = [torch.empty(cell.shape, dtype=TYPES[cell.kind]) for cell in self.cells]
        self._write(pieces)
        return pieces

    def _write(self, pieces):
        for record in self._records:
            record.read()
        with torch.no_grad():
            for owner, piece in zip(self._owners, pieces):
                value = owner.get()
                if value is None:
                    piece.fill_(float("nan"))
                elif isinstance(value, torch.Tensor):
                    piece.copy_(value.detach())
                else:
                    piece.fill_(value)

    def _read(self, pieces):
        absent = set()
        for cell, owner, piece in zip(self.cells, self._owners, pieces):
            if bool(torch.isnan(piece).all()):
                absent.add(id(owner))
            elif not isinstance(owner, Kept) and not bool(torch.isfinite(piece).all()):
                return cell.name
        for record in self._records:
            record.read()
        with torch.no_grad():
            for owner in self._owners:
                if id(owner) in absent:
                    owner.drop()
            for owner, piece in zip(self._owners, pieces):
                if id(owner) not in absent:
                    owner.put(piece)
        for record in self._records:
            record.load()
            if self._optimizer is not None and hasattr(record.owner, "get_last_lr"):  # its rates are the optimizer's
                for group, rate in zip(self._optimizer.param_groups, record.owner.get_last_lr()):
                    group["lr"] = rate
        return None
