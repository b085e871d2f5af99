"""Frames of the protocol (wire/frame.h): a header of 24 bytes, then a control message or a chunk."""

import struct

import xxhash

VERSION = 2
CONTROL, CHUNK = 0, 1
OFFER, REPLY, STATE = 0, 1, 2  # kinds of chunks
F32 = 0  # a payload
HEADER_BYTES, CHUNK_HEAD_BYTES = 24, 40
_START = struct.Struct("<4sBBHII")
_HEAD = struct.Struct("<QQIBBHfIQ")


def _hash(data, seed=0):
    return xxhash.xxh3_64_intdigest(data, seed)


def _start(kind, size, version=VERSION):
    return _START.pack(b"STRL", version, kind, 0, size, 0)


def control(body, version=VERSION):
    start = _start(CONTROL, len(body), version)
    return start + struct.pack("<Q", _hash(body, _hash(start))) + body


def chunk(exchange, offset, floats, kind, values, payload=F32, weight=0.0, sequence=0):
    """`values` are the encoded bytes, `floats` their number in the arena."""
    head = _HEAD.pack(exchange, offset, floats, kind, payload, 0, weight, 0, sequence)
    start = _start(CHUNK, CHUNK_HEAD_BYTES + len(values))
    return start + struct.pack("<Q", _hash(values, _hash(head, _hash(start)))) + head + values


def parse_header(header):
    """The kind of the frame and the size of its body."""
    magic, version, kind, _, size, _ = _START.unpack(header[:_START.size])
    if magic != b"STRL" or version != VERSION:
        raise ConnectionError(f"not a frame of version {VERSION}: {header!r}")
    return kind, size


def parse_chunk(body):
    """(exchange, offset, floats, kind, payload, weight) and the encoded values."""
    exchange, offset, floats, kind, payload, _, weight, _, _ = _HEAD.unpack(body[:CHUNK_HEAD_BYTES])
    return (exchange, offset, floats, kind, payload, weight), body[CHUNK_HEAD_BYTES:]
