"""Attacks with exchanges and copies, and lies to joiners. Each is a function of a stage.Run; the docstring is its name."""

import array
import contextlib
import ctypes
import os
import resource

import client
import frames
import messages
from member import Listener
from peers import Peer, until
from suite import require

GIB = 1 << 30
# The loss of a peer under attack, relative to its loss before: with one liar, and with many ids, which `clipped` does not contain.
LOSS_MAX = 1.5
_IN_OPEN = 0x20  # of inotify


def silent_offers(run):
    """12: accepted offers and silence do not use up a peer's answers"""
    members = [run.member("waiter", n) for n in range(8)]
    crowd = [(peer, member) for member in members for peer in run.peers] * 2
    number, links = 0, {}
    try:
        while run.goes_on(0.02):
            for place, (peer, member) in enumerate(crowd):
                number += 1
                with contextlib.suppress(OSError):
                    link = links.pop(place, None) or member.bulk(peer.address)
                    link.send(member.offer(number))
                    links[place] = link
    finally:
        for link in links.values():
            link.close()
    run.note(f"{number} silent offers")


def held_offers(run):
    """12: sixteen accepted offers and silence heal within seconds"""
    crowd = [run.member("holder", n) for n in range(8)]
    with contextlib.ExitStack() as open_ones:
        for peer in run.peers:
            for member in crowd * 2:
                bulk = member.bulk(peer.address)
                open_ones.callback(bulk.close)
                bulk.send(member.offer(1))
        run.wait()


def unread_copies(run):
    """12: copies that nobody reads do not keep a joiner waiting"""
    crowd = [run.member("hoarder", n) for n in range(8)]
    with contextlib.ExitStack() as open_ones:
        for peer in run.peers:
            for member in crowd:
                bulk = member.bulk(peer.address)
                open_ones.callback(bulk.close)
                bulk.socket.settimeout(0.2)
                for floats in (1, 1024):
                    bulk.send(member.copy_request(floats))
        run.wait()


def tiny_chunks_are_refused(run):
    """12: a copy in chunks of one float is refused"""
    member = run.member("counter")
    run.begun.set()
    for floats in (1, 64, 1023):
        with contextlib.closing(member.bulk(run.peers[0].address)) as bulk:
            bulk.send(member.copy_request(floats))
            with contextlib.suppress(client.Refused):
                bulk.expect("StateHead")
                raise AssertionError(f"a copy in chunks of {floats} floats is given")
    run.wait()


def parameters_of(member, peer):
    """The encoded values of the peer's replica."""
    with contextlib.closing(member.bulk(peer.address)) as bulk:
        bulk.send(member.copy_request(8192))
        chunks = bulk.expect("StateHead").chunks
        return b"".join(bulk.receive()[1] for _ in range(chunks))


def _flipped(values):
    floats = array.array("f", values)
    return array.array("f", (-value for value in floats)).tobytes()


class Exchanger:
    """Exchanges these values, as fast as a peer answers."""

    def __init__(self, member, peer, values, weight=0.0):
        self.member, self.values, self.weight, self.mixed, self.rejected = member, values, weight, 0, 0
        self.bulk, self.number = member.bulk(peer.address), 0

    def exchange(self):
        self.number += 1
        floats = len(self.values) // 4
        self.bulk.send(self.member.offer(self.number))
        self.bulk.send_bytes(frames.chunk(self.number, 0, floats, frames.OFFER, self.values, weight=self.weight))
        answer = self.bulk.receive()
        if isinstance(answer, tuple):
            self.mixed += answer[0][5] > 0
        else:
            self.rejected += 1

    def close(self):
        self.bulk.close()


def flipped_signs(run):
    """15: one member with flipped signs is mixed at most twice as often as the peer exchanges"""
    first = run.peers[0]
    before = first.status()
    liar = run.member("flipper", peers=[first])
    flipper = run.closing(Exchanger(liar, first, _flipped(parameters_of(liar, first))))
    while run.goes_on(0.001):
        flipper.exchange()
    _check_mixed(run, before, flipper.mixed, flipper.rejected, 2)


def flipped_signs_of_many(run):
    """15: fresh ids together are mixed at most half as often as the peer exchanges"""
    first = run.peers[0]
    before = first.status()
    values, mixed, rejected, ids = None, 0, 0, 0
    while run.goes_on():
        ids += 1
        liar = run.member("many", ids, peers=[first])
        values = values or _flipped(parameters_of(liar, first))
        with contextlib.closing(liar), contextlib.closing(Exchanger(liar, first, values)) as flipper:
            for _ in range(4):
                flipper.exchange()
            mixed, rejected = mixed + flipper.mixed, rejected + flipper.rejected
    _check_mixed(run, before, mixed, rejected, 0.5, f", {ids} ids")


def _check_mixed(run, before, mixed, rejected, pace, more=""):
    """`pace`: the most that is mixed for each own exchange, beside bursts."""
    after = run.peers[0].status()
    own = after["exchanges"]["begun"] - before["exchanges"]["begun"]
    run.note(f"{mixed} mixed and {rejected} rejected beside {own} own exchanges{more}, loss {before['loss']:.3f} -> {after['loss']:.3f}")
    require(mixed <= pace * own + 4 + 8 and after["loss"] < LOSS_MAX * before["loss"], f"{run.notes[-1]}")


# ---- lies to a joiner ----

class Host:
    """Welcomes joiners with a manifest that a test has changed."""

    def __init__(self, swarm, manifest):
        self.swarm, self.who, self.manifest, self.welcomed = swarm, swarm.identity("host"), manifest, 0
        self.listener = Listener(self._serve)
        host, port = client.parse_address(self.listener.address)
        self.record = self.who.sign_member(messages.make("Member", name="host", host=host, port=port, incarnation=1, phase=messages.TRAINING))

    def _serve(self, plain):
        connection, _ = client.admit(self.swarm, plain, self.who, self.listener.address, "host")
        while True:
            message = connection.receive()
            if messages.is_a(message, "Join"):
                connection.send(messages.make("Welcome", manifest=self.manifest, elapsedNanoseconds=10**9, members=[self.record], retiredSamples=0))
                self.welcomed += 1
            elif messages.is_a(message, "Ping"):
                connection.send(messages.make("Ack", sequence=message.sequence, members=[self.record]))
            elif messages.is_a(message, "StateRequest"):
                self._give_zeros(connection, message.chunkFloats)

    def _give_zeros(self, connection, chunk_floats):
        floats = self.manifest.arenaFloats
        starts = range(0, floats, chunk_floats)
        connection.send(messages.make("StateHead", arenaFloats=floats, chunks=len(starts)))
        for start in starts:
            size = min(chunk_floats, floats - start)
            connection.send_bytes(frames.chunk(0, start, size, frames.STATE, bytes(4 * size)))

    def close(self):
        self.listener.close()


class Opened:
    """Whether a file has been opened (inotify)."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.watch = libc.inotify_init1(os.O_NONBLOCK)
        require(self.watch >= 0 and libc.inotify_add_watch(self.watch, path.encode(), _IN_OPEN) >= 0, "inotify does not work")

    def __bool__(self):
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self.watch, 4096))
        return False

    def close(self):
        os.close(self.watch)


def _lure(run, manifest, name, limit=None):
    """Starts a joiner at a Host with this manifest. Returns its exit code and log once it has ended or trains."""
    host = run.closing(Host(run.swarm, manifest))
    joiner = Peer(run.stage.program, run.stage.folder, f"{name}-{run.stage.attempts}", "--join", host.listener.address, limit=limit)
    try:
        until(lambda: host.welcomed or joiner.process.poll() is not None, lambda: f"the joiner is not welcomed: {joiner.log()}")
        until(lambda: joiner.process.poll() is not None or b"training begins" in joiner.log(), lambda: f"the joiner hangs: {joiner.log()}")
        return joiner.process.poll(), joiner.log().decode(errors="replace")
    finally:
        joiner.end()


def _settings(manifest, **changes):
    """The settings of a manifest, of which some have other values."""
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    kept = [setting for setting in manifest.settings if setting.key.decode() not in changes]
    return kept + [messages.make("Setting", key=key, value=value) for key, value in changes.items()]


def paths_in_manifests(run):
    """8: a joiner reads no file that a manifest names by its path"""
    run.begun.set()
    secret = f"{run.stage.folder}/secret.csv"
    with open(secret, "w") as file:
        file.write("".join(",".join(str((row * column) % 17) for column in range(784)) + f",{row % 10}\n" for row in range(100)))
    manifest = run.member("observer").manifest
    for n, path in enumerate([secret, os.path.relpath(secret, "/work"), f"../{os.path.basename(run.stage.folder)}/secret.csv"]):
        opened = run.closing(Opened(secret))
        lie = messages.make("Manifest", model=manifest.model, data=path, fingerprint=manifest.fingerprint, arenaFloats=manifest.arenaFloats,
                            seed=1, settings=_settings(manifest, data__source=path))
        code, log = _lure(run, lie, f"lured-{n}")
        require(not opened, f"the joiner opens {path}: {log}")
        require("training begins" not in log and code in (1, 2), f"the joiner ends with {code}: {log}")


def huge_manifests(run):
    """16: a manifest that asks for more memory than there is ends the joiner with a sentence"""
    run.begun.set()
    manifest = run.member("architect").manifest
    wide = '[{ type = "linear", features = 650000 }, "relu", "linear"]'
    lies = {"wide": messages.make("Manifest", model="wide", data="glyphs", fingerprint=77, arenaFloats=650000 * 795, seed=1,
                                  settings=_settings(manifest, model__name="wide", model__layers=wide)),
            "batch": messages.make("Manifest", model=manifest.model, data="glyphs", fingerprint=manifest.fingerprint,
                                   arenaFloats=manifest.arenaFloats, seed=1, settings=_settings(manifest, training__batch_size="4000000"))}
    for name, lie in lies.items():
        code, log = _lure(run, lie, f"overloaded-{name}", limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (7 * GIB // 2,) * 2))
        require(code in (1, 2) and "starling peer: " in log, f"the joiner ends with {code}: {log[-800:]}")
        run.note(log.strip().splitlines()[-1][:160])
