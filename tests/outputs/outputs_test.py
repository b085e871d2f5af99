#!/usr/bin/python3
"""Peers whose output goes wrong, and peers that are signaled twice: outputs_test.py PROGRAM [--count N] [--seed N]

PROGRAM is build/release/starling. Each of N combinations (default 8) joins a swarm as a peer whose log goes to a file, a
pipe, a device or a terminal that is read, stopped, full or closed, trains, and is ended by signals that come alone, twice
or to its whole group. It must leave in order within 5 s, with its model. Then N commands of a table run with twice the
memory that `doctor` calls a peer's need: none may end by a signal. The seed follows from the commit. The last line is
"N passed, N failed".
"""
import fcntl
import http.client
import json
import os
import pty
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import HANG, Beats, require, seed_of_commit, until  # noqa: E402

END_LIMIT = 5  # seconds of Beats, from the first signal to the end of the process
SMALL_PIPE = 4096
FLAGS = ["--model", "softmax", "--data", "glyphs", "--pace", "5ms", "--listen", "127.0.0.1:0"]
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
# Signals, seconds between two of them, and whether the process or its group receives them.
SIGNALS = {"TERM": ([TERM], 0, False), "INT": ([INT], 0, False), "TERM twice": ([TERM, TERM], 0.003, False),
           "INT twice": ([INT, INT], 0.003, False), "INT to the process and its group": ([INT, INT], 0, True),
           "TERM to the process and its group": ([TERM, TERM], 0, True), "INT and TERM": ([INT, TERM], 0.05, False),
           "TERM and INT": ([TERM, INT], 0.2, False), "HUP and TERM": ([HUP, TERM], 0.01, False)}


def number(flag, default):
    return int(sys.argv[sys.argv.index(flag) + 1]) if flag in sys.argv else default


class Sink:
    """Where a peer's log goes. `descriptor` is for the peer, `helpers` are the processes that read it."""

    def __init__(self, path):
        self.path, self.helpers, self.kept, self.descriptor = path, [], [], None

    def piped(self, *reader, stopped=False):
        read, self.descriptor = os.pipe()
        fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
        helper = subprocess.Popen(reader, stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
        os.close(read)
        if stopped:
            helper.send_signal(signal.SIGSTOP)
        self.helpers.append(helper)

    def file(self):
        self.descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tee(self):
        self.piped("tee", self.path)

    def a_reader_that_ends(self):
        self.piped("head", "-n", "1")

    def a_stopped_reader(self):
        self.piped("cat", stopped=True)

    def a_full_pipe(self):
        read, self.descriptor = os.pipe()
        fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
        os.write(self.descriptor, b"x" * SMALL_PIPE)
        self.kept.append(read)

    def a_full_device(self):
        self.descriptor = os.open("/dev/full", os.O_WRONLY)

    def nothing(self):
        self.descriptor = None  # closed

    def a_terminal_that_nobody_reads(self):
        master, self.descriptor = pty.openpty()
        self.kept.append(master)

    def a_terminal_that_closes(self):
        self.a_terminal_that_nobody_reads()

    def text(self):
        """The end of what has arrived in the file."""
        if not os.path.exists(self.path):
            return "no log"
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()[-1000:]

    def hang_up(self):
        for descriptor in self.kept:
            os.close(descriptor)
        self.kept = []

    def close(self):
        self.hang_up()
        for helper in self.helpers:
            helper.kill()
            helper.wait()


SINKS = [Sink.file, Sink.tee, Sink.a_reader_that_ends, Sink.a_stopped_reader, Sink.a_full_pipe, Sink.a_full_device,
         Sink.nothing, Sink.a_terminal_that_nobody_reads, Sink.a_terminal_that_closes]


def is_complete_model(path):
    """Whether the file is a safetensors file of the length that its header states."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return len(data) == 8 + length + max(ends)


class Witness:
    """A peer that founds the swarm and says what it sees of the others."""

    def __init__(self, program, folder):
        self.log = os.path.join(folder, "witness.log")
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen([program, "peer", *FLAGS, "--name", "witness", "--http", "127.0.0.1:0",
                                             "--export", "none"], stderr=file, stdin=subprocess.DEVNULL)
        self.address = self.word_after("listens at ")
        self.http = self.word_after("HTTP at ")

    def word_after(self, words):
        def found():
            with open(self.log, encoding="utf-8") as file:
                text = file.read()
            return text.split(words, 1)[1].split()[0].rstrip(",") if words in text else None
        return until(found, f"the witness says no '{words}'")

    def ask(self, path):
        host, _, port = self.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=HANG)
        connection.request("GET", "/api/v1/" + path)
        return json.loads(connection.getresponse().read())

    def member(self, name):
        rows = [row for row in self.ask("members")["members"] if row["name"] == name]
        return rows[0] if rows else {"condition": "unknown", "steps": 0}

    def close(self):
        self.process.kill()
        self.process.wait()


def commands(folder):
    """About a hundred commands. Some need more memory than there is."""
    table, text, model = (os.path.join(folder, name) for name in ("table.csv", "text.txt", "model.safetensors"))
    with open(table, "w", encoding="utf-8") as file:
        file.write("a,b,label\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(400)))
    with open(text, "w", encoding="utf-8") as file:
        file.write("to be or not to be that is the question. " * 400)
    with open(os.path.join(folder, "large.txt"), "w", encoding="utf-8") as file:  # its tokens need 128 MB
        file.write("to be or not to be that is the question. " * 1_600_000)
    large = os.path.join(folder, "large.txt")
    lines = [f"data info {large}", f"tokenizer train {large} --size 300 --out {folder}/large-tokens.json",
             f"simulate --peers 2 --data {large} --model gpt-tiny --steps 1 --out {folder}/large",
             "version", "help", "doctor", "completion bash", "rule list", "rule show noloco", "data list", "model list",
             "topology list", "data info glyphs", f"data info {table}", f"data info {text}", "hunt --seeds 1..5",
             "hunt --faults all --seeds 1..3", f"tokenizer train {text} --size 300 --out {folder}/tokens.json",
             "topology compare ring complete --peers 64", f"evaluate {model} --data glyphs", f"predict {model} --data glyphs",
             f"export {model} --out {folder}/model.onnx --format onnx", f"generate {folder}/gpt.safetensors"]
    for name in "softmax mlp lenet resnet8 resnet18 gpt-tiny gpt-char gpt2 llama-tiny".split():
        lines += [f"model show {name}", f"model show {name} --batch-size 512", f"plan {name} --devices 2"]
    for topology in "ring complete exponential torus random-regular:k=4".split():
        lines += [f"topology show {topology} --peers {peers}" for peers in (64, 1024)]
    alone, quick = "peer --listen none --export none --steps 3", "--steps 3 --out"
    for name in "softmax mlp lenet resnet8".split():
        lines += [f"{alone} --data glyphs --model {name} {more}" for more in ("", "--workers 4", "--batch-size 4096")]
        lines += [f"simulate --peers 4 --data glyphs --model {name} {quick} {folder}/s-{name}",
                  f"swarm --peers 2 --data glyphs --model {name} {quick} {folder}/p-{name}"]
    for name in "gpt-tiny gpt-char gpt2 llama-tiny".split():
        lines += [f"{alone} --data {text} --model {name}",
                  f"simulate --peers 2 --data {text} --model {name} {quick} {folder}/s-{name}"]
    for rule in "noloco d-psgd choco push-sum clipped parameter-server ssp all-reduce diloco".split():
        lines += [f"{kind} --peers 2 --data glyphs --model softmax --rule {rule} {quick} {folder}/{kind}-{rule}"
                  for kind in ("simulate", "swarm")]
    return lines


class Outputs(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.random = random.Random(number("--seed", seed_of_commit()))
        self.witness = Witness(program, folder)

    def close(self):
        self.witness.close()

    def run(self):
        ways = [(sink, signals) for sink in SINKS for signals in SIGNALS]
        self.random.shuffle(ways)
        for k in range(number("--count", 8)):
            sink, signals = ways[k % len(ways)]
            self.case(f"{k}: {sink.__name__.replace('_', ' ')}, {signals}",
                      lambda k=k, sink=sink, signals=signals: self.combination(k, sink, signals))

        examined = subprocess.run([self.program, "doctor"], text=True, capture_output=True).stdout
        megabytes = float(re.search(r"lenet on glyphs needs ([\d.]+) MB", examined).group(1))
        lines = commands(self.folder)
        for model, data in ("softmax", "glyphs"), ("gpt-tiny", "text.txt"):
            subprocess.run([self.program, "simulate", "--peers", "1", "--model", model, "--data", data, "--steps", "1", "--looks",
                            "0", "--out", model], cwd=self.folder, check=True, capture_output=True)
            name = "model.safetensors" if data == "glyphs" else "gpt.safetensors"
            os.replace(os.path.join(self.folder, model, "model.safetensors"), os.path.join(self.folder, name))
        for line in self.random.sample(lines, min(len(lines), number("--count", 8))):
            self.case(f"with {2 * megabytes:.0f} MB: {line.replace(self.folder, '.')}",
                      lambda line=line: self.with_memory(line, int(2e6 * megabytes)))

    def with_memory(self, line, limit):
        def begin():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        done = subprocess.run([self.program, *line.split()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=HANG, preexec_fn=begin, text=True, errors="replace",
                              cwd=self.folder)
        require(done.returncode in (0, 1, 2), f"exit code {done.returncode}: {done.stdout[-300:]}")
        for words in "terminate called", "std::", "bad_alloc":
            require(words not in done.stdout, done.stdout[-300:])
        require(done.returncode == 0 or done.stdout.strip(), "it failed without a word")

    def combination(self, k, kind, signals):
        sink = Sink(os.path.join(self.folder, f"{k}.log"))
        kind(sink)
        try:
            self.leaves(f"v{k}", sink, kind is Sink.a_terminal_that_closes, *SIGNALS[signals])
        finally:
            sink.close()

    def leaves(self, name, sink, closes, signals, pause, to_group):
        model = os.path.join(self.folder, name + ".safetensors")
        process = self.start(name, model, sink)
        try:
            steps = self.random.randint(5, 100)
            until(lambda: self.witness.member(name)["steps"] >= steps or process.poll() is not None, "it does not train")
            require(process.poll() is None, f"it ended with code {process.returncode} before any signal")
            with Beats() as beats:
                if closes:
                    sink.hang_up()
                for number, one in enumerate(signals):
                    (os.killpg if to_group and number else os.kill)(process.pid, one)
                    time.sleep(pause)
                beats.until(lambda: process.poll() is not None, "the peer's end", END_LIMIT)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        require(process.returncode == 0, f"exit code {process.returncode}: {sink.text()}")
        require(is_complete_model(model), "the model is incomplete")
        until(lambda: self.witness.member(name)["condition"] == "left",
              lambda: f"others see it as {self.witness.member(name)['condition']}")

    def start(self, name, model, sink):
        """In a session of its own. A terminal becomes its controlling one, so that the terminal's end is a hangup."""
        words = [self.program, "peer", *FLAGS, "--name", name, "--join", self.witness.address, "--export", model,
                 "--log-level", self.random.choice(["info", "debug", "trace"]), "--log-format",
                 self.random.choice(["text", "json"])]
        if sink.descriptor is None:
            words = ["sh", "-c", 'exec "$0" "$@" 2>&-', *words]
        terminal = sink.descriptor is not None and os.isatty(sink.descriptor)
        if terminal:
            words = ["setsid", "--ctty", *words]
        process = subprocess.Popen(words, stdin=sink.descriptor if terminal else subprocess.DEVNULL, stderr=sink.descriptor,
                                   stdout=subprocess.DEVNULL, start_new_session=not terminal)
        if sink.descriptor is not None:
            os.close(sink.descriptor)
        return process


if __name__ == "__main__":
    # In memory: a busy disk may take longer for a model than the peer's three seconds.
    sys.exit(suite.main(Outputs, suite.memory()))
