"""A hostile member of a swarm: it introduces itself to every peer, answers their pings, and otherwise does only what a test tells
it to do. Also the listeners to which a test lures peers."""

import contextlib
import itertools
import socket
import threading
import time

import client
import messages

CELL_FLOATS = 8160  # kDefaultCellFloats of training/mixing/mixer.h


class Member:
    """`peers` are the addresses of real peers. A thread for each of them answers pings until close()."""

    _places = itertools.count()

    def __init__(self, swarm, peers, *words, phase=messages.JOINING, name=None, listens=None):
        self.swarm, self.who = swarm, swarm.identity(*words)
        self.name = name or "mallory-" + "-".join(map(str, words))
        place = next(self._places)
        # By default where nobody listens. No two members may have the same address.
        self.listens = listens or f"127.77.{place // 250}.{place % 250 + 1}:9"
        host, port = client.parse_address(self.listens)
        self.record = self.who.sign_member(messages.make(
            "Member", name=self.name, host=host, port=port, incarnation=int(time.time()) - 1577836800, phase=phase, samples=0, steps=0))
        self.known, self.manifest, self.links, self._threads = {}, None, {}, []
        for peer in peers:
            self._introduce(peer)

    def _introduce(self, peer):
        link = client.connect(self.swarm, peer, self.who, listens=self.listens, name=self.name)
        self.links[peer] = link
        link.send(messages.make("Join", member=self.record))
        welcome = link.expect("Welcome")
        self.manifest = welcome.manifest
        self._learn(welcome.members)
        thread = threading.Thread(target=self._answer, args=(link,), daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _learn(self, members):
        for member in members or []:
            self.known[member.id] = member

    def _answer(self, link):
        """Until the link ends."""
        with contextlib.suppress(OSError, ValueError):
            link.socket.settimeout(None)
            while True:
                message = link.receive()
                if messages.is_a(message, "Ping"):
                    link.send(self._ack_of(message))
                if isinstance(getattr(message, "members", None), list):
                    self._learn(message.members)

    def _ack_of(self, ping):
        ack = messages.make("Ack", sequence=ping.sequence, members=[self.record])
        if ping.requester:
            ack.signature = self.who.answer(ping.requester, ping.requested)
        return ack

    def send(self, message, to=None):
        """To one peer, or to all."""
        for peer in [to] if to else self.links:
            self.links[peer].send(message)

    def send_bytes(self, data, to=None):
        for peer in [to] if to else self.links:
            self.links[peer].send_bytes(data)

    def named(self, name):
        """What the member of this name says about itself."""
        return next(member for member in self.known.values() if member.name in (name, name.encode()))

    def bulk(self, peer):
        """A connection for exchanges and copies."""
        return client.connect(self.swarm, peer, self.who, purpose=messages.PURPOSE_BULK, listens=self.listens, name=self.name)

    def offer(self, exchange):
        return messages.make("ExchangeOffer", exchange=exchange, fingerprint=self.manifest.fingerprint, arenaFloats=self.manifest.arenaFloats,
                             cellFloats=CELL_FLOATS, round=0)

    def copy_request(self, chunk_floats):
        return messages.make("StateRequest", fingerprint=self.manifest.fingerprint, chunkFloats=chunk_floats, firstChunk=0)

    def close(self):
        for link in self.links.values():
            link.close()
        for thread in self._threads:
            thread.join(timeout=client.PATIENCE)


def fake(swarm, *words, host="127.0.0.1", port=9, name=None, **fields):
    """A signed record of a member that does not exist."""
    return swarm.identity("fake", *words).sign_member(messages.make(
        "Member", name=name or "fake-" + "-".join(map(str, words)), host=host, port=port, incarnation=1, phase=messages.TRAINING, **fields))


class Listener:
    """Accepts connections at HOST:PORT, or at a port of its own, and counts them. `serve(socket)` is called for each in a thread;
    without it they stay open and silent. At most `most` are open."""

    def __init__(self, serve=None, most=4096, at="127.0.0.1:0"):
        self._server = socket.create_server(client.parse_address(at), backlog=1024)
        self.address = "{}:{}".format(*self._server.getsockname())
        self.accepted, self._serve, self._most, self._open = 0, serve, most, []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while len(self._open) < self._most:
                plain, _ = self._server.accept()
                self.accepted += 1
                self._open.append(plain)
                if self._serve:
                    threading.Thread(target=self._handle, args=(plain,), daemon=True).start()

    def _handle(self, plain):
        with contextlib.suppress(OSError, ValueError), plain:
            self._serve(plain)
        self._open.remove(plain)

    def close(self):
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for plain in list(self._open):
            plain.close()
