"""The memory that a trainer shares with its peer: words, the table of tensors, arena and mailboxes."""
import mmap
import os
import struct
import sys
from collections import namedtuple

from .errors import Error

MAJOR, MINOR = 1, 2
HEAD = 4096  # bytes with all words

# Words of 8 bytes, as indices. The peer writes these:
ALLOWED, RING_AT, REPLY, ERA, WAITS, RATE_FACTOR, SWARM_SAMPLES, EXCHANGES = range(1024 // 8, 1088 // 8)
# and these of 4 bytes:
MEMBERS, SHARE_INDEX, SHARE_OF = range(1088 // 4, 1100 // 4)
# and, of 8 bytes:
STATE_ASKED, STATE_ERA = range(1104 // 8, 1120 // 8)
# The trainer writes these, of 8 bytes:
(STEPS, SAMPLES, LOSS, ACCURACY, ACCURACY_STEPS, LEARNING_RATE, POST, POST_STEPS, POST_SAMPLES,
 POST_ERA, STATE_GIVEN) = range(2048 // 8, 2136 // 8)

Entry = namedtuple("Entry", "offset floats type role shape name")  # of the table; offset in floats


class Words:
    """The words of `memory`: `whole` and `real` have one for each 8 bytes, `half` one for each 4."""

    def __init__(self, memory):
        head = memoryview(memory)[:HEAD]
        self.whole, self.real, self.half = head.cast("Q"), head.cast("d"), head.cast("I")

    def clear(self):
        """The trainer's words before its first step."""
        for word in (STEPS, SAMPLES, ACCURACY_STEPS, POST, POST_STEPS, POST_SAMPLES, POST_ERA, STATE_GIVEN):
            self.whole[word] = 0
        for word in (LOSS, ACCURACY, LEARNING_RATE):
            self.real[word] = float("nan")

    def copy(self):
        """The words as they are now, in memory of one's own."""
        return Words(bytearray(self.whole.tobytes()))


class Region:
    """Maps `length` bytes of the file `descriptor`, which it closes. Raises Error if this is no region."""

    def __init__(self, descriptor, length):
        if sys.byteorder != "little":
            raise Error("trainers need a little-endian processor")
        try:
            if length < HEAD or os.fstat(descriptor).st_size < length:
                raise Error(f"the peer's region has fewer bytes than it says ({length})")
            self.memory = mmap.mmap(descriptor, length)
        finally:
            os.close(descriptor)
        magic, major, minor, mode = struct.unpack_from("<8sHHI", self.memory, 0)
        if magic != b"STARLING":
            raise Error("the peer's region does not begin with STARLING")
        if major != MAJOR:
            raise Error(f"the peer has version {major}.{minor} of the contract with trainers; this client has "
                        f"{MAJOR}.{MINOR}, and accepts every {MAJOR}.x")
        self.view = mode == 1
        self.floats, = struct.unpack_from("<Q", self.memory, 32)
        self.arena, self.post, self.reply = struct.unpack_from("<3Q", self.memory, 64)  # in bytes
        for begin in (self.arena,) if self.view else (self.arena, self.post, self.reply):
            if begin < HEAD or begin % 64 or begin + 4 * self.floats > length:
                raise Error("the peer's region has an array outside of it")
        self.given, self.received, self.state_words = struct.unpack_from("<3Q", self.memory, 88)  # in bytes, words
        for begin in (self.given, self.received) if self.state_words else ():
            if begin < HEAD or begin % 64 or begin + 4 * self.state_words > length:
                raise Error("the peer's region has a state outside of it")
        self.words = Words(self.memory)

    def table(self):
        """The entries of the arena by name."""
        count, = struct.unpack_from("<I", self.memory, 40)
        return {entry.name: entry for entry in self._entries(0, count, self.floats)}

    def states(self):
        """The entries of the trainer's state, in order; their offsets and floats count words of 4 bytes."""
        count, = struct.unpack_from("<I", self.memory, 40)
        return self._entries(count, None, self.state_words)

    def _entries(self, first, last, room):
        begin, length = struct.unpack_from("<2Q", self.memory, 48)
        entries = []
        for line in self.memory[begin:begin + length].decode().split("\n")[first:last]:
            if line:
                offset, floats, kind, role, shape, name = line.split(" ")
                entries.append(Entry(int(offset), int(floats), kind, role, shape, name))
                if entries[-1].offset + entries[-1].floats > room:
                    raise Error(f"the peer's table has tensor {name} outside of its memory")
        return entries
