"""Attacks with files and flags on the command line of one program. Each is a function of PROGRAM and a temporary folder; the
docstring is its name."""

import os
import stat
import struct
import subprocess

from suite import require

MEMORY = 600e6  # bytes


class Skipped(Exception):
    """The machine does not allow this test."""


def _run(program, *flags):
    """The exit code, what it printed, its seconds of processor time, and its largest resident memory in bytes."""
    child = subprocess.Popen([program, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if child.returncode is None:
            child.kill()
            child.wait()
        child.stdout.close()
    return child.returncode, said.decode(errors="replace"), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def device_nodes(program, folder):
    """17: an output file does not replace a device"""
    node = f"{folder}/full"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        raise Skipped("mknod needs root") from None
    code, said, _, _ = _run(program, "peer", "--listen", "127.0.0.1:0", "--data", "glyphs", "--model", "softmax", "--steps", "3", "--export", node)
    require(stat.S_ISCHR(os.lstat(node).st_mode), f"the device has become a file: {said}")
    require(code in (1, 2) and node in said, f"exit code {code}: {said}")


def deep_toml(program, folder):
    """18: TOML files of many dots or brackets are refused"""
    texts = {"dots": "a" + ".a" * 300000 + " = 1\n", "brackets": "a = " + "[" * 300000 + "\n", "braces": "a = " + "{ a = " * 100000 + "\n",
             "header": "[a" + ".a" * 300000 + "]\n"}
    for name, text in texts.items():
        path = f"{folder}/{name}.toml"
        with open(path, "w") as file:
            file.write(text)
        for flags in (["peer", "--config", path, "--print-config"], ["model", "show", path], ["simulate", path, "--out", f"{folder}/out"],
                      ["sweep", path, "--out", f"{folder}/out"]):
            code, said, seconds, _ = _run(program, *flags)
            require(code in (1, 2), f"{flags[0]} {name}: exit code {code}: {said[-300:]}")
            require(seconds < 5, f"{flags[0]} {name}: {seconds:.1f} s")


def deep_safetensors(program, folder):
    """18: a safetensors header of brackets costs neither time nor memory"""
    for bracket in (b"[", b'{"a":'):
        header = bracket * (15_000_000 // len(bracket))
        path = f"{folder}/deep.safetensors"
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
        code, said, seconds, memory = _run(program, "evaluate", "--checkpoint", path, "--data", "glyphs")
        require(code in (1, 2), f"exit code {code}: {said[-300:]}")
        require(seconds < 3 and memory < MEMORY, f"{seconds:.1f} s and {memory / 1e6:.0f} MB for a header of {bracket!r}")


ALL = [device_nodes, deep_toml, deep_safetensors]
