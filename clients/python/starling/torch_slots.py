"""Tensors of PyTorch as slots."""
import torch

from .errors import Changed, Error
from .slots import KINDS, LARGEST, MARK, Slot, is_mark

BLOCK = 30000  # floats: less than PyTorch divides among threads, which would disturb those of the trainer
COUNTED = "f64"  # the declared type of integers and truth values


def kind_of(name, tensor):
    """The type in a declaration, or None if the tensor stays local. Raises Error for types that no swarm averages."""
    if torch.nn.parameter.is_lazy(tensor):
        raise Error(f"{name} has no shape yet; make a forward pass before gossip()")
    if type(tensor).__name__ == "DTensor" or type(tensor.data).__name__ == "DTensor":
        raise Error(f"{name} is sharded over processes (FSDP or DTensor); a peer needs whole parameters: use DDP, or "
                    "one process per peer")
    if tensor.is_quantized:
        raise Error(f"{name} is quantized; a swarm averages floating-point numbers")
    if tensor.is_complex():
        raise Error(f"{name} has complex numbers; a swarm averages real ones")
    if not tensor.is_floating_point():
        return None
    if tensor.is_meta:
        raise Error(f"{name} is on the meta device and has no values; call to_empty() and initialize it first")
    if tensor.is_nested:
        raise Error(f"{name} is a nested tensor; a swarm averages tensors with one shape")
    if tensor.layout != torch.strided:
        raise Error(f"{name} has layout {tensor.layout}; a swarm averages dense tensors")
    if any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape)):
        raise Error(f"{name} is expanded: several of its elements share memory; make it one of its own with clone()")
    kind = KINDS.get(str(tensor.dtype).rpartition(".")[2])
    if kind is None:
        raise Error(f"{name} has type {tensor.dtype}; a swarm averages float32, float64, float16 and bfloat16")
    return kind


def blocks(*tensors):
    """The same parts of tensors of one shape: what fits a processor's cache, for those in the memory of the host."""
    if all(tensor.is_contiguous() for tensor in tensors) and tensors[0].device.type == "cpu":
        return zip(*(tensor.view(-1).split(BLOCK) for tensor in tensors))
    return [tensors]


class TorchSlot(Slot):
    """x is a tensor on any device, changed in place."""

    def __init__(self, name, values, role):
        super().__init__(name, values, kind_of(name, values) or COUNTED, values.shape, role)
        self.dtype = values.dtype
        if isinstance(values, torch.nn.Parameter) and self.kind == "f32":
            self.declared = "trained"  # frozen or not: whether a module fits depends on names, shapes and types
        self.arena = None  # in view mode: the memory of x

    def follow(self, found):
        """Makes `found`, the model's tensor with this name or None, x. Raises Changed if x was another kind of
        tensor. A new tensor keeps its values, which in view mode become those of the arena."""
        if found is None:
            raise Changed(f"{self.name} is no longer in the model; it was removed, or renamed by a parametrization or "
                          "pruning")
        try:
            kind = self.kind if found is self.values and found.dtype == self.dtype else (
                kind_of(self.name, found) or COUNTED)
        except Error as error:
            raise Changed(str(error)) from None
        if kind != self.kind or found.shape != self.shape:
            raise Changed(f"{self.name} was {self.kind} with shape {list(self.shape)} and is "
                          f"{found.dtype} with shape {list(found.shape)}")
        if self.arena is not None:
            if found.device.type != "cpu":
                raise Changed(f"{self.name} is on {found.device}, where it cannot be a view")
            if found.data_ptr() != self.arena.data_ptr():
                self.arena.copy_(found.data)
                found.data = self.arena
        self.values = found
        self.frozen = self.frozen and not found.requires_grad and found.grad is None

    def piece(self, memory, at):
        return torch.frombuffer(memory, dtype=torch.float32, count=self.floats, offset=at).view(self.shape)

    def write(self, piece):
        with torch.no_grad():
            piece.copy_(self._current() if not self.frozen else self._marked())

    def _marked(self):
        x = self.values.data.to(torch.float32)
        inexact = ~(x.abs() <= LARGEST) if self.values.is_floating_point() else x.to(self.dtype) != self.values
        return torch.where(inexact, torch.full_like(x, MARK), x)

    def largest(self):
        x = self.values.detach()
        return float((x if x.is_floating_point() else x.to(torch.float64)).abs().max())

    def adopt(self, piece):
        with torch.no_grad():
            x, new = self.values.data, piece.to(self.values.device)
            own = is_mark(new) | (new == x.to(torch.float32))
            x.copy_(torch.where(own, x, new.to(x.dtype)))

    def take(self, piece):
        with torch.no_grad():
            self._put(piece)

    def add(self, reply, snapshot):
        with torch.no_grad():
            for x, r, s in blocks(self._current(), reply, snapshot):
                x.add_((r - s).to(x.device))
            self._round()

    def _current(self):
        x = self.values.data
        if self.kind == "f32":
            return x
        if self.master is None or self.master.device != x.device:
            self.master = x.to(torch.float32, copy=True)
            self.base = x.clone()
        wide = torch.float64 if self.kind == "f64" else torch.float32
        for m, new, old in blocks(self.master, x, self.base):
            m.add_(new.to(wide) - old.to(wide))
            old.copy_(new)
        return self.master

    def _put(self, new):
        self._current().copy_(new)
        self._round()

    def _round(self):
        """x = m, and x' = x."""
        if self.kind != "f32":
            x = self.values.data
            x.copy_(self.master)
            self.base.copy_(x)

    def _view(self, piece):
        self.values.data = self.arena = piece

    def keep_own(self):
        self.values.data = self.values.data.clone()
        self.arena = None

    def check_view(self):
        if not self.frozen and (self.kind != "f32" or self.values.device.type != "cpu"):
            raise Error(f"{self.name} is {self.kind} on {self.values.device}: in view mode every tensor that is not "
                        'frozen must be float32 in the memory of the host; use mode="copy"')
