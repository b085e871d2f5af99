#!/usr/bin/env python3
"""A stand-in for `starling peer --trainer SOCKET`: an independent definition of docs/TRAINERS.md.

The clients are tested with it. A test sets its words and says when it replies. As a program, `daemon.py peer --trainer
SOCKET`, it is a peer that is the only one of its run: it answers every post, asks for one after every fourth step, and
ends after `bye`.
"""
import array
import fcntl
import json
import os
import socket
import struct
import sys
import threading

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from suite import HANG  # noqa: E402

ALLOWED, RING_AT, REPLY, ERA, WAITS, RATE, SWARM_SAMPLES, EXCHANGES = range(1024, 1088, 8)
MEMBERS, SHARE_INDEX, SHARE_OF = 1088, 1092, 1096
STEPS, SAMPLES, LOSS, ACCURACY, ACCURACY_STEPS, LEARNING_RATE, POST, POST_STEPS, POST_SAMPLES, POST_ERA = range(
    2048, 2128, 8)
STATE_ASKED, STATE_ERA, STATE_GIVEN = 1104, 1112, 2128
SIZES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}  # bytes
REALS, HALVES = (RATE, LOSS, ACCURACY, LEARNING_RATE), (MEMBERS, SHARE_INDEX, SHARE_OF)
EVER = 2**63


def up(value, unit):
    return -(-value // unit) * unit


class Tensor:
    def __init__(self, line):
        self.name, self.kind, self.role, shape = line.split(" ")
        self.shape = [] if shape == "-" else [int(extent) for extent in shape.split(",")]
        self.floats = 1
        for extent in self.shape:
            self.floats *= extent
        self.text = shape


class StateTensor(Tensor):
    """Of a line `state NAME TYPE SHAPE`; at: its first word of 4 bytes."""

    def __init__(self, line, at):
        name, kind, shape = line.split(" ")
        super().__init__(f"{name} {kind} state {shape}")
        self.at, self.words = at, -(-self.floats * SIZES[kind] // 4)


class Daemon:
    """Listens at `path` and serves one trainer after the other. `every`: steps between two rings; `ahead`: steps that
    are allowed after the latest reply (1: lock step). `answers`: replies to posts by itself. `initial`: the swarm's
    arena, if the peer does not begin the run, and `state` the bytes that came with it. `refuses`: a sentence. `region_major`, `region_minor`: its version."""

    def __init__(self, path, every=4, ahead=EVER, answers=True, initial=None, refuses=None, region_major=1,
                 region_minor=0, before_start=(), state=None):
        self.path, self.every, self.ahead, self.answers = path, every, ahead, answers
        self.arena = None if initial is None else array.array("f", initial)
        self.received = state
        self.refuses, self.version = refuses, (region_major, region_minor)
        self.before_start = list(before_start)  # lines that it sends before `start`
        self.changed = threading.Condition(threading.RLock())
        self.connection = self.memory = None
        self.declaration, self.tensors, self.tied, self.lines, self.states = {}, [], [], [], []
        self.starts = self.rings = self.ends = 0
        self.posts = []  # (snapshot, steps, samples, era) of each
        self.view, self.ready, self.halted, self.on_post = False, False, False, None
        self.last = None  # r', the arena of the last reply
        self.members = None  # what answers `members`; None: nothing does
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(path):
            os.unlink(path)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    # What tests call

    def get(self, at):
        kind = "<d" if at in REALS else "<I" if at in HALVES else "<Q"
        return struct.unpack_from(kind, self.memory, at)[0]

    def set(self, at, value):
        with self.changed:
            struct.pack_into("<d" if at in REALS else "<I" if at in HALVES else "<Q", self.memory, at, value)

    def say(self, line):
        with self.changed:
            self.connection.sendall(line.encode() + b"\n")

    def allow(self, steps):
        with self.changed:
            self.set(ALLOWED, steps)
            self.say("ring")

    def until(self, condition, what):
        """Waits for an event; AssertionError if it does not come."""
        with self.changed:
            if not self.changed.wait_for(condition, HANG):
                raise AssertionError(f"waited in vain until {what}")

    def floats(self, which):
        """The arena, post or reply mailbox."""
        at = {"arena": self.at_arena, "post": self.at_post, "reply": self.at_reply}[which]
        return memoryview(self.memory)[at:at + 4 * self.count].cast("f")

    def current(self):
        """A copy of what partners exchange with."""
        with self.changed:
            return array.array("f", self.floats("arena") if self.view else self.arena)

    def mix(self, change):
        """An exchange: arena[i] = change(arena[i], i) for all floats but the gaps."""
        with self.changed:
            target = self.floats("arena") if self.view else self.arena
            for tensor, offset in zip(self.tensors, self.offsets):
                for i in range(offset, offset + tensor.floats):
                    target[i] = change(target[i], i)
            self.set(EXCHANGES, self.get(EXCHANGES) + 1)

    def answer(self):
        """E += s - r', r = E, and the reply's number."""
        with self.changed:
            number, post = self.get(POST), self.floats("post")
            if self.get(POST_ERA) == self.get(ERA):
                for i in range(self.count):
                    self.arena[i] += post[i] - self.last[i]
            self._write_reply()
            self.set(REPLY, number)
            self._ask()

    def replace(self, values, era):
        """The replica was lost; another one has these values."""
        with self.changed:
            self.arena = array.array("f", values)
            if self.view:
                self.floats("arena")[:] = self.arena
            else:
                self._write_reply()
            self.set(ERA, era)

    def value(self, name, which="current"):
        """The floats of one tensor."""
        offset = self.offsets[[tensor.name for tensor in self.tensors].index(name)]
        source = self.current() if which == "current" else self.floats(which)
        return list(source[offset:offset + self._tensor(name).floats])

    def ask_state(self):
        """The state that the trainer gives when it is asked, as bytes."""
        with self.changed:
            asked = self.get(STATE_ASKED) + 1
            self.set(STATE_ASKED, asked)
            self.say("ring")
        return asked

    def given_state(self):
        return bytes(self.memory[self.at_given:self.at_given + 4 * self.state_words])

    def offer_state(self, state):
        """Before an era: what came from a member."""
        self.memory[self.at_received:self.at_received + len(state)] = state

    def state_value(self, name, state):
        """The numbers of one tensor in these bytes; f32 or f64."""
        tensor = next(one for one in self.states if one.name == name)
        kind = {"f32": "f", "f64": "d"}[tensor.kind]
        return list(memoryview(state)[4 * tensor.at:4 * (tensor.at + tensor.words)].cast(kind))

    def over(self, text="the run has ended"):
        with self.changed:
            if not self.view:
                self._write_reply()
            self.say(f"over {text}")

    def die(self):
        """As a killed process: the connection and the socket are gone."""
        with self.changed:
            self.halted = True
            if self.view and self.memory:
                self.arena = self.current()
            for end in (self.connection, self.listener):
                if end:
                    try:
                        end.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
        self.thread.join(HANG)
        if os.path.exists(self.path):
            os.unlink(self.path)

    # Its thread

    def _serve(self):
        while not self.halted:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                break
            with self.changed:
                self.connection, self.ready = connection, False
                self.declaration, self.tensors, self.tied, self.states = {}, [], [], []
            try:
                self._converse(connection)
            except OSError:
                pass
            with self.changed:
                connection.close()
                self.connection = None
                self.ends += 1
                self.changed.notify_all()
        self.listener.close()

    def _converse(self, connection):
        rest = b""
        while True:
            data = connection.recv(65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                with self.changed:
                    if not self._handle(line.decode()):
                        return
                    self.changed.notify_all()

    def _handle(self, line):
        word, _, text = line.partition(" ")
        self.lines.append(line)
        if word == "tensor":
            self.tensors.append(Tensor(text))
        elif word == "state":
            last = self.states[-1] if self.states else None
            self.states.append(StateTensor(text, up(last.at + last.words, 16) if last else 0))
        elif word == "tied":
            self.tied.append(tuple(text.split(" ")))
        elif word == "end":
            if self.declaration["starling-trainer"].split(".")[0] != "1":
                self.refuses = "the trainer has another version"
            if self.refuses:
                self.say(f"refused {self.refuses}")
                return False
            self._offer()
        elif word == "ready":
            self._begin()
        elif word == "ring":
            self._rung()
        elif word == "bye":
            self._farewell()
        elif word == "members":
            for member in self.members or ():
                self.say("member " + json.dumps(member))
            if self.members is not None:
                self.say(f"members {len(self.members)}")
        elif word == "events":
            pass  # tests say them
        else:
            self.declaration[word] = text
        return True

    def _offer(self):
        self.posts, self.view = [], self.declaration["mode"] == "view"
        self.tensors.sort(key=lambda tensor: tensor.role != "trained")
        self.offsets, self.count, table = [], 0, ""
        for tensor in self.tensors:
            self.offsets.append(self.count)
            table += f"{self.count} {tensor.floats} {tensor.kind} {tensor.role} {tensor.text} {tensor.name}\n"
            self.count += up(tensor.floats, 16)
        for state in self.states:
            table += f"{state.at} {state.words} {state.kind} state {state.text} {state.name}\n"
        self.at_arena = up(4096 + len(table.encode()), 64)
        self.at_post = 0 if self.view else self.at_arena + 4 * self.count
        self.at_reply = 0 if self.view else self.at_post + 4 * self.count
        length = self.at_arena + (1 if self.view else 3) * 4 * self.count
        self.state_words = up(self.states[-1].at + self.states[-1].words, 16) if self.states else 0
        self.at_given, self.at_received = (length, length + 4 * self.state_words) if self.states else (0, 0)
        length += 8 * self.state_words
        self._make_region(length)
        struct.pack_into("<8sHHIQQQI", self.memory, 0, b"STARLING", *self.version, self.view, length, 1, self.count,
                         len(self.tensors))
        struct.pack_into("<8Q", self.memory, 48, 4096, len(table.encode()), self.at_arena, self.at_post, self.at_reply,
                         self.at_given, self.at_received, self.state_words)
        self.memory[4096:4096 + len(table.encode())] = table.encode()
        self.set(MEMBERS, 1)
        self.set(SHARE_OF, 1)
        self.set(RATE, 1.0)
        self.set(RING_AT, EVER)
        descriptor, self.descriptor = self.descriptor, None
        socket.send_fds(self.connection, [f"region {length}\n".encode()], [descriptor])
        os.close(descriptor)

    def _make_region(self, length):
        import mmap
        self.descriptor = os.memfd_create("region", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, length)
        F_ADD_SEALS, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 2, 4
        fcntl.fcntl(self.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
        self.memory = mmap.mmap(self.descriptor, length)

    def _begin(self):
        self.ready = True
        if self.arena is None:
            self.arena = array.array("f", self.floats("arena" if self.view else "post"))
        if self.view:
            self.floats("arena")[:] = self.arena
        else:
            self._write_reply()
        if self.received is not None:
            self.offer_state(self.received)
            self.set(STATE_ERA, self.get(ERA) + 1)
        self._ask()
        for line in self.before_start:
            self.say(line)
        self.starts += 1
        self.say("start")

    def _write_reply(self):
        self.floats("reply")[:] = self.arena
        self.last = array.array("f", self.arena)

    def _ask(self):
        """The next ring and the steps allowed, counted from the latest post."""
        done = self.get(POST_STEPS) if not self.view else self.get(STEPS)
        self.set(RING_AT, done + self.every)
        self.set(ALLOWED, min(done + self.ahead, EVER))
        if self.starts:
            self.say("ring")

    def _rung(self):
        self.rings += 1
        if self.view:
            return self._ask()
        if self.get(POST) > len(self.posts):
            self.posts.append((array.array("f", self.floats("post")), self.get(POST_STEPS), self.get(POST_SAMPLES),
                               self.get(POST_ERA)))
        if self.on_post:
            self.on_post(self)
        if self.answers:
            self.answer()

    def _farewell(self):
        if self.view:
            self.arena = self.current()
        else:
            self.answer() if self.get(POST) > self.get(REPLY) else self._write_reply()
        self.say("over the trainer has left")

    def _tensor(self, name):
        return next(tensor for tensor in self.tensors if tensor.name == name)


def main(arguments):
    if "--fail" in arguments:
        print("2026-01-01 00:00:00.000 info: begins")
        sys.exit("2026-01-01 00:00:00.001 error: " + arguments[arguments.index("--fail") + 1])
    print("2026-01-01 00:00:00.000 info: waits for a trainer", flush=True)
    daemon = Daemon(arguments[arguments.index("--trainer") + 1])
    with daemon.changed:
        daemon.changed.wait_for(lambda: daemon.ends and "bye" in daemon.lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
