#!/usr/bin/env python3
"""Reads a TensorBoard event file, using only the published formats (TFRecord, Protocol Buffers' encoding, event.proto,
summary.proto), and prints its content. Exits at a wrong checksum."""

import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmask(masked):
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        head = data[at:at + 8]
        length, = struct.unpack("<Q", head)
        check, = struct.unpack("<I", data[at + 8:at + 12])
        assert unmask(check) == crc32c(head), "the length's checksum is wrong"
        body = data[at + 12:at + 12 + length]
        check, = struct.unpack("<I", data[at + 12 + length:at + 16 + length])
        assert len(body) == length and unmask(check) == crc32c(body), "a record's checksum is wrong"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        else:
            raise AssertionError(f"wire type {kind} is not expected")
        yield tag >> 3, value


for number, record in enumerate(records(open(sys.argv[1], "rb").read())):
    event = list(fields(record))
    time = struct.unpack("<d", dict(event)[1])[0]
    step = dict(event).get(2, 0)
    if number == 0:
        print("version", dict(event)[3].decode())
        continue
    scalars = [dict(fields(value)) for field, summary in event if field == 5 for key, value in fields(summary) if key == 1]
    for scalar in scalars:
        value = struct.unpack("<f", scalar[2])[0]
        print(time, step, scalar[1].decode(), f"{value:.7g}")
    if not scalars:
        print(time, step)
