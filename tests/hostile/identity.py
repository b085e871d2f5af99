"""Identities: Ed25519 keys, ids and signed statements (transport/trust/identity.h, gossip/members/statements.h)."""

import copy
import hashlib
import struct

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import messages

MEMBER, REWIRE, ACCEPTER, DIALER, ANSWER = range(1, 6)  # first bytes of statements; 3 and 4 are those of the handshake


def _counted(data):
    return struct.pack("<I", len(data)) + data


def _text(value):
    value = value or b""
    return value if isinstance(value, bytes) else value.encode()


class Identity:
    """A key pair in a swarm. `seed` (32 bytes) makes it the same in every run."""

    def __init__(self, swarm, seed):
        self.swarm = swarm
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.key = self._key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self.id = int.from_bytes(hashlib.sha256(self.key).digest()[:8], "big") or 1

    def sign(self, statement):
        return messages.raw("Signature", self._key.sign(b"starling 2\0" + self.swarm.encode() + b"\0" + statement))

    def public_key(self):
        return messages.raw("PublicKey", self.key)

    def sign_member(self, member):
        """Fills in id, key and signature."""
        member.id, member.key = self.id, self.public_key()
        statement = struct.pack("<B", MEMBER) + self.key
        statement += struct.pack("<IBBH", member.incarnation, member.liveness == messages.LEFT, member.phase, member.port)
        for value in (member.host, member.name, member.http, member.device):
            statement += _counted(_text(value))
        also, homes = member.also or [], member.homes if member.homes is not None else []
        statement += struct.pack("<B", len(also)) + b"".join(struct.pack("<H", a.port) + _counted(_text(a.host)) for a in also)
        statement += struct.pack(f"<B{len(homes)}QQ", len(homes), *homes, member.relays)
        member.signature = self.sign(statement)
        return member

    def rewire(self, revision, topology):
        statement = struct.pack("<B", REWIRE) + self.key + struct.pack("<Q", revision) + _counted(topology.encode())
        return messages.make("Rewire", revision=revision, author=self.id, topology=topology, key=self.public_key(),
                             signature=self.sign(statement))

    def answer(self, requester, requested):
        return self.sign(struct.pack("<B", ANSWER) + self.key + struct.pack("<QQ", requester, requested))


def seeded(swarm, *words):
    """The identity that belongs to these words."""
    return Identity(swarm, hashlib.sha256(repr(words).encode()).digest())


def changed(member, **fields):
    """A copy of a member with other fields, and with the signature as it was."""
    other = copy.copy(member)
    for field, content in fields.items():
        setattr(other, field, content)
    return other


def _hello_bytes(hello):
    data = struct.pack("<Q", hello.id) + hello.key.bytes + hello.nonce.bytes + struct.pack("<BQH", hello.purpose, hello.call, hello.port)
    return data + b"".join(_counted(_text(value)) for value in (hello.host, hello.name, hello.swarm))


def handshake_statement(signer, dialer, accepter, binding):
    return struct.pack("<B", signer) + _counted(binding) + _hello_bytes(dialer) + _hello_bytes(accepter)
