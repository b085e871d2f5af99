"""Tensors of the trainer as float32 in shared memory: a slot per tensor, a class per library.

A slot copies one tensor x to and from pieces: arrays of x's shape over shared memory. For a tensor of another type
than float32, a float32 master m and the values x' that x had when m was taken are kept: m + (x - x') is what is
copied, so that rounding x to its type changes nothing in the arena.

A frozen tensor is kept: what the trainer writes into it stays, and the arena follows it, for those that join. They
take its values once. A value that cannot travel, such as the -inf of a mask, travels as MARK: "keep your own". For
modules of PyTorch the state (state.py) has the exact values of a member, too.
"""
import array
import math
import operator
import sys

from .errors import Error

KINDS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


LARGEST = 2.0**60  # of the values that a swarm exchanges
MARK = 2.0**-120  # for a value beyond LARGEST or NaN; a mixture of two marks is still one


def is_mark(value):
    """Of a number or, element by element, of an array."""
    return (abs(value) <= MARK) & (abs(value) > MARK / 16)


def product(shape):
    floats = 1
    for extent in shape:
        floats *= extent
    return floats


class Slot:
    """A tensor with a name. `values` is the library's object and may be replaced by another one of the same shape.
    Derived: piece, write, largest, adopt, _current, _put."""

    def __init__(self, name, values, kind, shape, role):
        self.name, self.values, self.kind, self.role = name, values, kind, role
        self.shape, self.floats = tuple(shape), product(shape)
        self.frozen = role == "frozen"  # until the trainer unfreezes it
        self.declared = role
        self.viewed = self.adopted = False
        self.master = self.base = None
        if len(name.encode()) > 200 or not name or any(c.isspace() or not c.isprintable() for c in name):
            raise Error(f"the name of tensor {name!r} must have 1 to 200 bytes without spaces")

    def declaration(self):
        shape = ",".join(map(str, self.shape)) or "-"
        return f"tensor {self.name} {self.kind} {self.declared} {shape}"

    def piece(self, memory, at):
        """The slot's floats in `memory`, from byte `at`, as an array of the library and of this shape."""
        raise NotImplementedError

    def write(self, piece):
        """piece = x; if frozen, with marks"""
        raise NotImplementedError

    def largest(self):
        """The largest magnitude in x; NaN if x has one."""
        raise NotImplementedError

    def adopt(self, piece):
        """x = piece, of a frozen tensor: but for marks, and values that are equal as float32"""
        raise NotImplementedError

    def begin(self, piece):
        """x = piece, where the replica is another one than before. A frozen tensor takes only the first, and one that
        heals it of NaN."""
        if not self.frozen:
            self.take(piece)
        elif not self.adopted or math.isnan(self.largest()):
            self.adopt(piece)
        self.adopted = True

    def check(self):
        """Raises Error for values with which no swarm can begin."""
        largest = self.largest()
        if math.isnan(largest):
            raise Error(f"{self.name} has NaN (not a number); a swarm averages numbers")
        if largest > LARGEST and not self.frozen:
            raise Error(f"{self.name} has values up to {largest:.3g}; a swarm averages values up to 2^60, which is "
                        f"{LARGEST:.3g}")

    def take(self, piece):
        """x = piece"""
        self._put(piece)

    def add(self, reply, snapshot):
        """x += reply - snapshot"""
        self._put(self._current() + (reply - snapshot))

    def view(self, piece):
        """x becomes the piece itself."""
        self.viewed = True
        self._view(piece)

    def _view(self, piece):
        self.values = piece

    def keep_own(self):
        """x becomes a copy of itself, in memory of its own."""
        self.values = self.values.copy()

    def check_view(self):
        if self.kind != "f32" and not self.frozen:
            raise Error(f"{self.name} is {self.kind}: in view mode every tensor that is not frozen must be float32 in "
                        'the memory of the host; use mode="copy"')


class NumpySlot(Slot):
    """x is a numpy.ndarray, changed in place."""

    def __init__(self, name, values, role):
        super().__init__(name, values, KINDS[values.dtype.name], values.shape, role)
        import numpy
        self.numpy = numpy

    def piece(self, memory, at):
        return self.numpy.frombuffer(memory, self.numpy.float32, self.floats, at).reshape(self.shape)

    def write(self, piece):
        if not self.frozen:
            piece[...] = self._current()
            return
        with self.numpy.errstate(over="ignore"):
            x = self._get().astype("float32")
        piece[...] = self.numpy.where(abs(x) <= LARGEST, x, self.numpy.float32(MARK))

    def largest(self):
        return float(abs(self._get().astype("float64")).max())

    def adopt(self, piece):
        x = self._get()
        with self.numpy.errstate(over="ignore"):
            own = is_mark(piece) | (piece == x.astype("float32"))
        self._set(self.numpy.where(own, x, piece.astype(x.dtype)))

    def _current(self):
        values = self._get()
        if self.kind == "f32":
            return values
        if self.master is None:
            self.master = values.astype("float32")
        else:
            wide = "float64" if self.kind == "f64" else "float32"
            self.master += (values.astype(wide) - self.base.astype(wide)).astype("float32")
        self.base = values.copy()
        return self.master

    def _put(self, new):
        if self.kind == "f32":
            return self._set(new)
        self.master = self.numpy.array(new, "float32")
        self._set(self.master.astype(self._get().dtype))
        self.base = self._get().copy()

    def _get(self):
        return self.values

    def _set(self, new):
        self.values[...] = new


class JaxSlot(NumpySlot):
    """x is a jax.Array, which cannot change: `values` is replaced, on the same device."""

    def _get(self):
        return self.numpy.asarray(self.values)

    def _set(self, new):
        import jax
        own = self.numpy.array(new, self._get().dtype)
        self.values = jax.device_put(own, self.values.sharding)

    def check_view(self):
        if not self.frozen:
            raise Error(f'{self.name} is a jax.Array, which cannot change, so it cannot be a view; use mode="copy"')


class PlainSlot(Slot):
    """x is an array.array or memoryview (of any shape) of floats or doubles, or a list of numbers; pieces are
    memoryviews."""

    def __init__(self, name, values, role):
        code = values.typecode if isinstance(values, array.array) else getattr(values, "format", "d")
        super().__init__(name, values, {"f": "f32", "d": "f64"}[code], getattr(values, "shape", (len(values),)), role)

    def _flat(self):
        values = self.values
        return values if len(self.shape) == 1 else values.cast("B").cast(values.format)

    def _shaped(self, flat):
        return flat if len(self.shape) == 1 else memoryview(flat).cast("B").cast("f", self.shape)

    def piece(self, memory, at):
        return memoryview(memory)[at:at + 4 * self.floats].cast("f")

    def write(self, piece):
        if self.frozen:
            piece[:] = array.array("f", (x if abs(x) <= LARGEST else MARK for x in self._flat()))
        else:
            piece[:] = self._current()

    def largest(self):
        flat = self._flat()
        return math.nan if any(x != x for x in flat) else float(max(map(abs, flat)))

    def adopt(self, piece):
        flat = self._flat()
        for i, (old, new) in enumerate(zip(array.array("f", (max(-LARGEST, min(LARGEST, x)) for x in flat)), piece)):
            if not is_mark(new) and old != new:
                flat[i] = new

    def _current(self):
        """An array of float32."""
        values = self._flat()
        if self.kind == "f32":
            return array.array("f", values)
        if self.master is None:
            self.master = array.array("f", values)
        else:
            changes = map(operator.sub, values, self.base)
            self.master = array.array("f", map(operator.add, self.master, changes))
        self.base = array.array("d", values)
        return self.master

    def add(self, reply, snapshot):
        changes = map(operator.sub, reply, snapshot)
        self._put(array.array("f", map(operator.add, self._current(), changes)))

    def _put(self, new):
        if self.kind == "f32":
            self._flat()[:] = array.array("f", new)
            return
        self.master, self.base = array.array("f", new), array.array("d", new)
        self._flat()[:] = list(new) if isinstance(self.values, list) else self.base

    def _view(self, piece):
        self.values = self._shaped(piece)

    def keep_own(self):
        self.values = self._shaped(array.array("f", self._flat()))


def is_instance(value, module, name):
    """Whether value is a MODULE.NAME, without importing a library that is not in use."""
    library = sys.modules.get(module)
    kind = getattr(library, name, None)
    return kind is not None and isinstance(value, kind)


def is_jax(value):
    return is_instance(value, "jax", "Array")


def is_numbers(value):
    return isinstance(value, list) and bool(value) and all(isinstance(x, (int, float)) for x in value)
