"""What a newcomer needs beside the parameters to train on as the others do: the moments of the optimizer, its counts of
steps, and what else the trainer names. The trainer gives it when its peer asks, for one that joins; nobody averages it.
The contract is docs/TRAINERS.md, "State".
"""
import math
from collections import namedtuple

from .errors import Error, log

KINDS = ("f32", "f64", "f16", "bf16")
LARGEST_NAME = 200  # bytes


class Cell(namedtuple("Cell", "name kind shape")):
    """One array of the state, with a type of KINDS."""

    def declaration(self):
        return f"state {self.name} {self.kind} {','.join(map(str, self.shape)) or '-'}"


class State:
    """The cells, and their places in the memory that is shared with the peer. Derived: _piece, _write, _read."""

    def __init__(self, cells):
        for cell in cells:
            if len(cell.name.encode()) > LARGEST_NAME or " " in cell.name or not cell.name.isprintable():
                raise Error(f"the name of state {cell.name!r} must have 1 to {LARGEST_NAME} bytes without spaces")
        self.cells = list(cells)
        self.received = False  # a member's state has been taken, and nobody has reset this
        self._given = self._incoming = None

    def declaration(self):
        return [cell.declaration() for cell in self.cells]

    def bind(self, region):
        """Finds the cells in a new region. Without them, because the peer is older or has too little memory, newcomers
        get the parameters alone."""
        places = region.states()
        self._given = self._incoming = None
        if self.cells and [(cell.name, cell.kind) for cell in self.cells] == [(it.name, it.type) for it in places]:
            def pieces(begin):
                return [self._piece(region.memory, begin + 4 * place.offset, cell)
                        for cell, place in zip(self.cells, places)]
            self._given, self._incoming = pieces(region.given), pieces(region.received)

    def give(self):
        """Writes the present values for the peer."""
        if self._given:
            self._write(self._given)

    def take(self):
        """Takes what the peer has received from a member. What is not finite is refused as a whole, with a warning."""
        if self._incoming:
            self.load(self._incoming)

    def load(self, pieces):
        wrong = self._read(pieces)
        self.received = wrong is None
        if wrong:
            log.warning("starling: the optimizer begins anew: %s of the member that was copied is not finite", wrong)

    def _piece(self, memory, at, cell):
        """The cell's values in `memory`, from byte `at`, as an array of the library."""
        raise NotImplementedError

    def _write(self, pieces):
        """pieces = the present values; NaN for those that do not exist"""
        raise NotImplementedError

    def _read(self, pieces):
        """The present values = pieces. If one is neither finite nor NaN as a whole: nothing, and returns its name."""
        raise NotImplementedError


def number_kind(value):
    """Whether a leaf of a state_dict() travels: numbers, but no integer that a double cannot hold."""
    return isinstance(value, (bool, int, float)) and not (isinstance(value, int) and abs(value) > 2**53)


def restored(value, number):
    """`number` as the type of `value`."""
    return type(value)(round(number) if isinstance(value, int) and math.isfinite(number) else number)
