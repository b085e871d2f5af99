#!/usr/bin/env python3
"""Reads a full checkpoint, using only the description of the safetensors format, and compares it with the arguments.

    read_checkpoint.py FILE WORKERS STEPS SAMPLES PARAMETERS_SUM VELOCITY_SUM POSITION

Uses only the standard library, no code of Starling or safetensors.
"""
import json
import struct
import sys
import zlib


def fail(why):
    sys.exit(f"{sys.argv[1]}: {why}")


def read(path):
    """The metadata, and each tensor as (shape, values)."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    if raw[8:9] != b"{":
        fail("the header does not begin with {")
    header = json.loads(raw[8 : 8 + length].decode("utf-8"))
    data = raw[8 + length :]
    metadata = header.pop("__metadata__", {})
    tensors, covered = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != covered:
            fail(f"a hole or an overlap before {name}")
        covered = end
        letter = {"F32": "f", "I32": "i"}.get(entry["dtype"]) or fail(f"{name} is {entry['dtype']}")
        count = 1
        for extent in entry["shape"]:
            count *= extent
        if end - begin != 4 * count:
            fail(f"{name} has {end - begin} bytes for {count} values")
        tensors[name] = (entry["shape"], struct.unpack(f"<{count}{letter}", data[begin:end]))
    if covered != len(data):
        fail("there is more data than tensors")
    if any(not isinstance(value, str) for value in metadata.values()):
        fail("the metadata does not map strings to strings")
    if format(zlib.crc32(data), "08x") != metadata["crc32"]:
        fail("the data has another CRC-32")
    return metadata, tensors


def total(tensors):
    """The sum in double precision, in the order of the values."""
    result = 0.0
    for _, values in tensors:
        for value in values:
            result += value
    return result


def main():
    path, workers, steps, samples = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    metadata, tensors = read(path)
    if metadata["checkpoint"] != "1" or metadata["steps"] != steps or int(metadata["workers"]) != workers:
        fail("another format, number of steps or of workers")
    model = {name: tensor for name, tensor in tensors.items() if not name.startswith(("optimizer.", "sampler."))}
    if abs(total(model.values()) - float(sys.argv[5])) > 1e-9:
        fail(f"the parameters' sum is {total(model.values())}")
    for worker in range(workers):
        shape, order = tensors[f"sampler.{worker}.order"]
        if shape != [samples] or sorted(order) != list(range(samples)):
            fail(f"the order of worker {worker} is none")
        if len(metadata[f"sampler.{worker}.random"].split()) != 5:
            fail("the chance is not five words")
        kinds = {name.split(".")[2] for name in tensors if name.startswith(f"optimizer.{worker}.")}
        if kinds not in ({"velocity"}, {"mean", "square"}, {"velocity", "last"}):
            fail(f"the optimizer remembers {kinds}")
        for kind in kinds:
            prefix = f"optimizer.{worker}.{kind}."
            own = {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            for name, (own_shape, _) in own.items():
                if own_shape != model[name][0]:
                    fail(f"{prefix}{name} is not as large as the parameter")
            if worker + 1 == workers and kind in ("velocity", "mean"):
                if abs(total(own.values()) - float(sys.argv[6])) > 1e-9:
                    fail(f"the sum of {prefix} is {total(own.values())}")
    if metadata["sampler.0.position"] != sys.argv[7]:
        fail("another position")


main()
