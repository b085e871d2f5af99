"""A swarm of real peers under attack, and what an attack does to it: an Observer measures all the time, and Stage.withstand() runs an
attack beside a joiner and compares."""

import contextlib
import itertools
import os
import statistics
import threading
import time

import client
from member import Member
from peers import EVERY, PACE, RUN, Peer, get, until
from suite import HANG, Beats, require

# What an attack may do (SECURITY.md), in seconds of Beats. Rates are medians over windows of a second. An attack that misses a limit
# goes on and is measured again: TRIES times in all, and longer on a busy machine.
RATE_MIN = 0.90  # of the exchanges per second before
JOIN_MAX = 2.0  # seconds from the start of the process until it trains; more if an undisturbed one needs more than half of it
GROWTH_MAX = 10e6  # bytes of resident memory
LIVEZ_MAX = 0.100  # seconds, the median; every request is answered within LIVEZ_LATEST
LIVEZ_LATEST = 2.0
LOG_MAX = 10e3  # bytes per second
TRIES = 3
BUSY = 0.8  # the speed of Beats below which the machine is busy
BASELINE = 1.5  # seconds without an attack before each, at the usual rate
_INTERVAL = 0.1  # seconds between observations
_WINDOW = 1.0
_WAITS = 3  # of an exchange for a processor: at the initiator, the responder, and the initiator again


class Observation:
    """Of one moment: of each peer, or the sum or the worst over all peers. Only `thorough` ones ask for the members."""

    def __init__(self, peers, thorough, clock):
        self.when, self.beat = time.monotonic(), clock.passed()
        self.livez, self.exchanges, self.dead = 0.0, 0, set()
        self.resident = {peer.name: peer.resident() for peer in peers}
        self.log = {peer.name: os.path.getsize(peer.log_path) for peer in peers}
        names = {peer.name for peer in peers}
        for peer in peers:
            begun = clock.passed()
            require(get(peer.http, "/livez")[0] == 200, f"{peer.name} is not alive")
            self.livez = max(self.livez, clock.passed() - begun)
            self.exchanges += peer.status()["exchanges"]["completed"]
            if thorough:
                self.dead |= {f"{m['name']} is {m['state']} at {peer.name}" for m in peer.members()
                              if m["name"] in names and m["state"] in ("failed", "left")}


class Observer:
    """Observes in a thread."""

    def __init__(self, peers, clock):
        self._peers, self._clock, self.seen, self.error = peers, clock, [], None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self):
        try:
            while not self._end.wait(_INTERVAL):
                self.seen.append(Observation(self._peers, len(self.seen) % 5 == 0, self._clock))
        except Exception as error:  # reported by between()
            self.error = error

    def between(self, begin, end):
        require(self.error is None, f"a peer cannot be observed: {self.error}")
        return [one for one in self.seen if begin <= one.when <= end]

    def reach(self, when):
        """Waits until this time has been observed."""
        until(lambda: self.error or (self.seen and self.seen[-1].when >= when), "nothing is observed")

    def latest(self, seconds):
        return self.between(time.monotonic() - seconds, time.monotonic())

    def close(self):
        self._end.set()
        self._thread.join(timeout=HANG)


class Rate:
    """The median of the exchanges per second over windows of a second; and per what an exchange takes, which is longer where processes
    wait for a processor, by the lag of Beats."""

    def __init__(self, observations):
        rates, first = [], 0
        for last in observations:
            while last.when - observations[first].when > 1.5 * _WINDOW:
                first += 1
            begin = observations[first]
            elapsed, beats = last.when - begin.when, (last.beat - begin.beat) / Beats.BEAT
            if elapsed >= 0.8 * _WINDOW and beats > 0:
                rate = (last.exchanges - begin.exchanges) / elapsed
                lag = max(0.0, elapsed / beats - Beats.BEAT)
                rates.append((rate, rate * (EVERY + _WAITS * lag)))
        self.per_second, self.per_time = (statistics.median(column) for column in zip(*rates)) if rates else (0.0, 0.0)

    def of(self, other):
        """The ratio to another rate: the larger one, which a load that comes or goes does not lower."""
        return max(self.per_second / other.per_second, self.per_time / other.per_time) if other.per_second else 0.0


class Figures:
    """What an attack did."""

    def __init__(self, before, during, joiner, tolerated):
        before_it, under_it = Rate(before), Rate(during)
        self.before, self.during, self.ratio, self.joiner = before_it.per_second, under_it.per_second, under_it.of(before_it), joiner
        start = before[-1]
        self.growth = max(one.resident[name] - start.resident[name] for one in during for name in start.resident)
        self.livez = statistics.median(one.livez for one in during)
        self.livez_latest = max(one.livez for one in during)
        self.busy = during[-1].beat - during[0].beat < BUSY * (during[-1].when - during[0].when)
        self.log = max(during[-1].log[name] - start.log[name] for name in start.log) / (during[-1].when - start.when)
        self.dead = {what for one in during for what in one.dead if what.split()[0] not in tolerated}

    def __str__(self):
        return (f"{self.before:.0f} -> {self.during:.0f} exchanges/s ({self.ratio:.2f}), joiner {self.joiner:.1f} s, {self.growth / 1e6:+.1f} MB, "
                f"livez {self.livez * 1e3:.0f} ms (latest {self.livez_latest * 1e3:.0f}), log {self.log / 1e3:.1f} kB/s")

    def slow(self, join_max):
        """What a busy machine can cause, too."""
        return [what for is_so, what in (
            (self.ratio < RATE_MIN, f"exchanges at {self.ratio:.2f} of their rate"), (self.joiner > join_max, f"a joiner needs {self.joiner:.1f} s"),
            (self.livez > LIVEZ_MAX, f"/livez needs {self.livez * 1e3:.0f} ms"),
            (self.livez_latest > LIVEZ_LATEST, f"/livez needed {self.livez_latest:.1f} s once")) if is_so]

    def include(self, whole):
        """Takes what counts for the whole attack from its figures."""
        self.growth, self.log, self.dead = whole.growth, whole.log, whole.dead

    def wrong(self):
        return sorted(self.dead) + [what for is_so, what in (
            (self.growth > GROWTH_MAX, f"memory grows by {self.growth / 1e6:.1f} MB"),
            (self.log > LOG_MAX, f"the log grows by {self.log / 1e3:.1f} kB/s")) if is_so]


class Run:
    """One attack under way, as the function that attacks sees it."""

    def __init__(self, stage):
        self.stage, self.swarm, self.peers = stage, stage.swarm, stage.peers
        self.notes, self.tolerated, self.begun, self._over = [], set(), threading.Event(), threading.Event()
        self._closing = contextlib.ExitStack()

    def tolerate(self, name):
        """This member may be taken for dead for a moment."""
        self.tolerated.add(name)

    def goes_on(self, pause=0.0):
        """Whether the attack continues, after a pause. The first call says that it has begun."""
        self.begun.set()
        return not self._over.wait(pause)

    def wait(self):
        self.begun.set()
        self._over.wait()

    def note(self, text):
        self.notes.append(text)

    def closing(self, it):
        """`it` is closed when the attack is over."""
        self._closing.callback(it.close)
        return it

    def member(self, *words, peers=None, **more):
        """A hostile member, known to all peers or to those given."""
        return self.closing(Member(self.swarm, [peer.address for peer in (peers or self.peers)], *words, **more))

    def over(self):
        self._over.set()

    def close(self):
        self._closing.close()


class _Work:
    """An attack in a thread."""

    def __init__(self, stage, attack):
        self.run, self.error, self._attack = Run(stage), None, attack
        self._thread = threading.Thread(target=self._do, daemon=True)
        self._thread.start()

    def _do(self):
        try:
            self._attack(self.run)
        except Exception as error:  # raised again by Stage.withstand()
            self.error = error
        finally:
            self.run.close()

    def end(self):
        self.run.over()
        self._thread.join(timeout=HANG)
        if self._thread.is_alive():
            self.error = AssertionError(f"{self._attack.__name__} does not end")


class Stage:
    """Three peers that train together, with or without a key. `host` is the name that they advertise."""

    def __init__(self, program, folder, key=None, thorough=False, flags=(), before=(), host=None):
        self.program, self.folder, self.thorough, self.seconds = program, folder, thorough, 8.0 if thorough else 2.0
        self.figures, self.notes = None, []
        self.swarm = client.Swarm(key_file=key)
        self.flags = [*(["--key", key] if key else []), *PACE]
        self.before, self.host, self.peers, self.attempts, self._joiners, self.clock = before, host, [], 0, 0, Beats()
        try:
            self.peers.append(self.start("p0", *RUN, *flags))
            self.peers += [self.start(name, "--join", self.peers[0].address) for name in ("p1", "p2")]
            for peer in self.peers:
                peer.trains()
            until(lambda: all(peer.status()["members_live"] == 3 for peer in self.peers), "three peers do not find one another")
            self.observer = Observer(self.peers, self.clock)
            self.observer.reach(time.monotonic() + BASELINE)
            self.usual, self.join_usual = Rate(self.observer.latest(BASELINE)), self.join_time()
        except BaseException:
            self.close()
            raise
        self.quiet = time.monotonic()

    def start(self, name, *flags, **more):
        """A further peer of the same kind."""
        return Peer(self.program, self.folder, name, *self.flags, *flags, before=self.before, host=self.host, **more)

    def join_time(self):
        """Seconds in which a new peer joins. It leaves at once."""
        self._joiners += 1
        begun = self.clock.passed()
        joiner = self.start(f"joiner-{self._joiners}", *(flag for peer in self.peers for flag in ("--join", peer.address)))
        try:
            joiner.trains()
            return self.clock.passed() - begun
        finally:
            joiner.leave()

    def withstand(self, attacks):
        """Runs every `attack(run)` in a thread of its own, all at once. self.figures and self.notes are of the last try."""
        join_max = max(JOIN_MAX, 2 * self.join_usual)
        self.attempts += 1
        figures = self._attempt(attacks, join_max)
        problems = figures.wrong() + figures.slow(join_max)
        require(not problems, "; ".join(problems) + f" ({figures})")

    def _attempt(self, attacks, join_max):
        self.figures, self.notes = None, []
        before = self._baseline()
        works = [_Work(self, attack) for attack in attacks]
        for work in works:
            until(lambda: work.run.begun.is_set() or work.error, "the attack does not begin")
        tolerated = lambda: set().union(*(work.run.tolerated for work in works))
        first = begun = time.monotonic()
        figures = joiner = None
        try:
            for tries in itertools.count(1):
                if any(work.error for work in works):
                    break
                if joiner is None or joiner > join_max:
                    joiner = self.join_time()
                self.observer.reach(begun + self.seconds)
                figures = Figures(before, self.observer.between(begun, time.monotonic()), joiner, tolerated())
                begun = time.monotonic()
                if not figures.slow(join_max) or begun > first + HANG or (tries >= TRIES and not figures.busy):
                    break
        finally:
            ended = time.monotonic()
            for work in works:
                work.end()
            self.quiet = time.monotonic() + 0.3
        for work in works:
            if work.error:
                raise work.error
            self.notes += work.run.notes
        self.check_nobody_ended()
        self.figures = figures
        figures.include(Figures(before, self.observer.between(first, ended), joiner, tolerated()))
        return figures

    def _baseline(self):
        """Observations at the usual rate, none of them of an earlier attack."""
        self.observer.reach(self.quiet + BASELINE)
        recovered = lambda: Rate(self.observer.latest(BASELINE)).of(self.usual) >= 0.8
        until(recovered, "the peers do not recover from the attack before")
        return self.observer.latest(BASELINE)

    def check_nobody_ended(self):
        for peer in self.peers:
            require(peer.process.poll() is None, f"{peer.name} ended with {peer.process.returncode}: {peer.log()[-1000:]}")

    def close(self):
        if hasattr(self, "observer"):
            self.observer.close()
        for peer in self.peers:
            peer.end()
        self.clock.close()
