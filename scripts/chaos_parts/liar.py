#!/usr/bin/python3
"""A hostile member of a swarm under scripts/chaos: it joins like any other, and tells lies until it is told to end.

  liar.py --name NAME --listen HOST:PORT --peers HOST:PORT,... --seed N --interval S

It has its own identity and signs only with it. Between the lies it answers pings and refutes what is said about it, so
it stays a member, and it dials every peer again whose link has ended. Its last line has the numbers of lies. Needs what
tests/hostile needs: python3-cryptography, python3-flatbuffers, python3-xxhash and flatbuffers-compiler."""

import argparse
import array
import collections
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/hostile"))
import client  # noqa: E402
import frames  # noqa: E402
import lies  # noqa: E402
import messages  # noqa: E402
from identity import changed  # noqa: E402
from lies import gossip  # noqa: E402
from member import Listener, Member, fake  # noqa: E402

client.PATIENCE = 5  # seconds; some peers are stopped
REDIAL_S = 0.5
HELD_S = 20  # a silent exchange
# An error of a connection that has ended, or of a message that has come in part.
ENDED = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError)


class Liar(Member):
    """A member with a listener, which keeps a control link to every peer that runs."""

    def __init__(self, options):
        super().__init__(client.Swarm(), [], options.name, options.seed, phase=messages.TRAINING,
                         name=options.name, listens=options.listen)
        self.rng, self.interval = random.Random(options.seed), options.interval
        self.counts = collections.Counter()
        self.ending = threading.Event()
        self.peers = options.peers.split(",")
        self.lock = threading.Lock()  # of self.record
        self.listener = Listener(self._serve, at=options.listen)
        for peer in self.peers:
            threading.Thread(target=self._keep, args=(peer,), daemon=True).start()

    # ---- staying a member ----

    def _keep(self, peer):
        """One control link after the other."""
        while not self.ending.wait(REDIAL_S):
            with contextlib.suppress(*ENDED):
                thread = self._introduce(peer)
                self.counts["joined"] += 1
                thread.join()
            if link := self.links.pop(peer, None):
                link.close()

    def _learn(self, members):
        super()._learn(members)
        for member in members or []:
            with self.lock:
                if member.id != self.who.id or member.liveness == messages.ALIVE:
                    continue
                if member.incarnation >= self.record.incarnation:
                    self.record = self.who.sign_member(changed(self.record, incarnation=member.incarnation + 1))
                    self.counts["refuted"] += 1

    def _serve(self, plain):
        with contextlib.suppress(*ENDED):
            link, hello = client.admit(self.swarm, plain, self.who, self.listens, self.name)
            if hello.purpose == messages.PURPOSE_CONTROL:
                self._answer(link)
            else:
                self._exchange(link)

    # ---- exchanges that others begin ----

    def _exchange(self, link):
        while True:
            message = link.receive()
            if messages.is_a(message, "ExchangeOffer"):
                way = self.rng.choice(("silence", "refusal", "noise", "noise", "flipped", "zeros"))
                self.counts[f"exchange: {way}"] += 1
                if way == "refusal":
                    link.send(messages.make("ExchangeRefusal", exchange=message.exchange, round=0,
                                            reason=self.rng.randrange(12)))
                elif way == "silence":
                    self.ending.wait(HELD_S)
                    return
            elif isinstance(message, tuple):
                (exchange, offset, floats, _, payload, _), values = message
                if payload == frames.F32:
                    reply = self._garbage(way, values)
                    link.send_bytes(frames.chunk(exchange, offset, floats, frames.REPLY, reply, weight=0.5))

    def _garbage(self, way, values):
        theirs = array.array("f", values)
        if way == "flipped":
            return array.array("f", (-value for value in theirs)).tobytes()
        if way == "zeros":
            return bytes(len(values))
        scale = self.rng.choice((0.01, 0.1, 1, 100))
        noise = [self.rng.gauss(0, scale) for _ in range(257)]  # repeated: it need not be good noise
        return array.array("f", (value + noise[i % 257] for i, value in enumerate(theirs))).tobytes()

    # ---- lies ----

    def lie(self):
        """One lie of a random kind, to one peer or to all."""
        name = self.rng.choice(sorted(name for name in dir(self) if name.startswith("lie_")))
        others = [member for member in list(self.known.values()) if member.id != self.who.id]
        links = list(self.links.values())
        if not others or not links:
            return
        told = links if self.rng.random() < 0.5 else [self.rng.choice(links)]
        said = getattr(self, name)(others)
        for message in said:
            if messages.is_a(message, "Gossip"):
                message.replyWanted = self.rng.random() < 0.5
        for link in told:
            with contextlib.suppress(*ENDED):
                for message in said:
                    link.send(message)
        self.counts[name[4:]] += 1

    def _some(self, others):
        return self.rng.sample(others, self.rng.randint(1, len(others)))

    def _later(self, others):
        """Some of their records, in this or a later incarnation."""
        return [changed(member, incarnation=self.rng.choice((member.incarnation, member.incarnation + 1, lies.HIGHEST)))
                for member in self._some(others)]

    def lie_left(self, others):
        return lies.left(self._later(others))

    def lie_failed(self, others):
        state = self.rng.choice((messages.SUSPECT, messages.FAILED))
        accuser = self.rng.choice(others).id if self.rng.random() < 0.5 else self.who.id
        return lies.accused(self._some(others), state, accuser)

    def lie_moved(self, others):
        home = self.rng.choice(others)
        return gossip(changed(member, host=home.host, port=home.port) for member in self._later(others))

    def lie_finished(self, others):
        return gossip(changed(member, phase=messages.FINISHED) for member in self._later(others))

    def lie_samples(self, others):
        return lies.rich(self._some(others) + [self.record])

    def lie_vitals(self, others):
        return lies.figures(self._some(others))

    def lie_strangers(self, others):
        home = self.rng.choice(others)
        port = self.rng.choice((9, home.port))
        return gossip(fake(self.swarm, self.rng.getrandbits(48), host=self._host_of(home), port=port)
                      for _ in range(self.rng.randint(1, 100)))

    def lie_topology(self, others):
        revision = self.rng.choice((1, 2**32, 2**53 - 1, 2**53))
        forged = self.who.rewire(revision, self.rng.choice(("ring", "star", "line")))
        if revision == 1:  # a possible one, in the name of another member
            forged.author = self.rng.choice(others).id
        return [forged]

    def lie_answers(self, others):
        return [messages.make("Ack", sequence=self.rng.randrange(1, 2000), members=[], onBehalf=member.id,
                              signature=self.who.answer(1, 1)) for member in self._some(others)]

    def lie_conflict(self, others):
        return [messages.make("Refusal", reason=11, text="two members advertise one address")]

    def lie_requests(self, others):
        return [lies.ping_request(n, member.id, member.host, self.rng.choice((9, member.port)))
                for n, member in enumerate(self._some(others))]

    def lie_offers(self, others):
        """An offer in silence, or with garbage for the first cell."""
        peer, number = self.rng.choice(list(self.links)), self.rng.getrandbits(40)
        threading.Thread(target=self._offer, args=(peer, number), daemon=True).start()
        return []

    def _offer(self, peer, number):
        with contextlib.suppress(*ENDED), contextlib.closing(self.bulk(peer)) as bulk:
            bulk.send(self.offer(number))
            floats = min(8160, self.manifest.arenaFloats)
            if self.rng.random() < 0.5:
                noise = self._garbage("noise", bytes(4 * floats))
                bulk.send_bytes(frames.chunk(number, 0, floats, frames.OFFER, noise))
            self.ending.wait(self.rng.uniform(0, HELD_S))

    @staticmethod
    def _host_of(member):
        return member.host.decode() if isinstance(member.host, bytes) else member.host

    def run(self):
        while not self.ending.wait(self.rng.expovariate(1 / self.interval)):
            for _ in range(self.rng.choice((1, 1, 1, 20))):
                self.lie()
        print("lies: " + ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items())), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for flag in ("--name", "--listen", "--peers"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--interval", type=float, default=0.2, help="mean seconds between lies")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        messages.load(folder)
    liar = Liar(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: liar.ending.set())
    print(f"{options.name} has the id {liar.who.id:016x}", flush=True)
    liar.run()
    os._exit(0)  # without waiting for threads that receive


if __name__ == "__main__":
    main()
