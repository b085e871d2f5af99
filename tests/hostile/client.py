"""Connections of a hostile client: the handshake of both ends, messages and chunks (transport/trust/handshake.h). Loopback only."""

import base64
import contextlib
import os
import socket

import frames
import identity
import messages
import tls

PATIENCE = 20  # seconds for any one read or write


class Swarm:
    """A swarm as its members know it. `key_file` is the file of --key, or None."""

    def __init__(self, name="starling", key_file=None):
        self.name, self.key = name, None
        if key_file:
            with open(key_file) as file:
                self.key = tls.Key(base64.b64decode(file.readline()), name)

    def identity(self, *words):
        """The same one for the same words."""
        return identity.seeded(self.name, *words)


def parse_address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def dial(address, source=None):
    """A TCP connection to HOST:PORT of this machine, from any address of 127/8."""
    plain = socket.create_connection(parse_address(address), timeout=PATIENCE, source_address=(source, 0) if source else None)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


class Refused(ConnectionError):
    """The remote answered with a Refusal."""

    def __init__(self, refusal):
        super().__init__(f"refused ({refusal.reason}): {refusal.text}")
        self.reason = refusal.reason


class Connection:
    """Frames over one socket."""

    def __init__(self, plain, binding=b""):
        self.socket, self.binding, self._arrived = plain, binding, b""

    def send(self, message):
        self.send_bytes(frames.control(messages.encode(message)))

    def send_bytes(self, data):
        self.socket.sendall(data)

    def _take(self, size):
        while len(self._arrived) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("closed by the peer")
            self._arrived += more
        taken, self._arrived = self._arrived[:size], self._arrived[size:]
        return taken

    def receive(self):
        """The next message; a chunk is returned as frames.parse_chunk() does."""
        kind, size = frames.parse_header(self._take(frames.HEADER_BYTES))
        body = self._take(size)
        return frames.parse_chunk(body) if kind == frames.CHUNK else messages.decode(body)

    def expect(self, name):
        """Skips messages until the one with this name comes."""
        while True:
            message = self.receive()
            if messages.is_a(message, "Refusal"):
                raise Refused(message)
            if messages.is_a(message, name):
                return message

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # a thread that receives returns
        self.socket.close()


def hello_of(swarm, who, listens, name, purpose):
    host, port = parse_address(listens)
    return messages.make("Hello", swarm=swarm.name, id=who.id, name=name, host=host, port=port, purpose=purpose, key=who.public_key(),
                         nonce=messages.raw("Nonce", os.urandom(16)), proof=messages.raw("Signature", bytes(64)))


def encrypted(swarm, plain):
    """The Connection over a socket that was dialed."""
    if not swarm.key:
        return Connection(plain)
    try:
        secure = tls.TlsSocket(plain, swarm.key)
    except BaseException:
        plain.close()
        raise
    return Connection(secure, secure.binding())


def connect(swarm, address, who, purpose=messages.PURPOSE_CONTROL, listens="127.0.0.1:9", name="mallory", change=None, source=None):
    """Dials a peer and does the handshake as `who`, which listens at `listens`. `change(hello)` can falsify the Hello before it is
    sent."""
    connection = encrypted(swarm, dial(address, source))
    try:
        mine = hello_of(swarm, who, listens, name, purpose)
        if change:
            change(mine)
        connection.send(mine)
        theirs = connection.expect("Hello")
        statement = identity.handshake_statement(identity.DIALER, mine, theirs, connection.binding)
        connection.send(messages.make("Proof", signature=who.sign(statement)))
    except BaseException:
        connection.close()
        raise
    return connection


def admit(swarm, plain, who, listens, name, purpose=None):
    """The accepter's side, without a key: returns the connection and the dialer's Hello. Admits only this purpose, if any."""
    plain.settimeout(PATIENCE)
    connection = Connection(plain)
    theirs = connection.expect("Hello")
    if purpose not in (None, theirs.purpose):
        raise ConnectionError("another purpose")
    mine = hello_of(swarm, who, listens, name, theirs.purpose)
    mine.proof = who.sign(identity.handshake_statement(identity.ACCEPTER, theirs, mine, b""))
    connection.send(mine)
    connection.expect("Proof")
    return connection, theirs
