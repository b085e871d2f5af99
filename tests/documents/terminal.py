"""A reader of a document: runs its commands as printed, in a temporary folder, and compares what they print with the
blocks that follow them. Peers run in the background, as in a terminal of their own."""

import os
import re
import shutil
import signal
import subprocess
import time

from suite import HANG, require, until

MARK = "DOCUMENTS_TEST"  # in the environment of every process of a reader


class Machine:
    """Where a reader's commands run: a home folder, and for commands in another network namespace a prefix. The
    variables of `environment` are set once the machine has had a peer."""

    def __init__(self, folder, prefix=(), replace=(), **environment):
        self.folder, self.prefix, self.replace, self.environment = folder, list(prefix), replace, environment
        self.peer = None
        os.makedirs(folder, exist_ok=True)

    def printed(self, text):
        """The text with this machine's addresses."""
        for old, new in self.replace:
            text = text.replace(old, new)
        return text


class Peer:
    """A process in the background, and its log."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def output(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def end(self, number=None):
        """Waits for its end with exit code 0, after a signal with this number."""
        if number is not None:
            os.killpg(self.process.pid, number)
        try:
            code = self.process.wait(HANG)
        except subprocess.TimeoutExpired:
            code = None
        require(code == 0, f"a peer ended with {code}:\n{self.output()}")


def plain(line):
    """A line without its figures and units, which differ from run to run."""
    line = re.sub(r"\d+(?:\.\d+)*(?:e[-+]?\d+)?", "#", " ".join(line.split()))
    return re.sub(r"# [kMG]B\b", "# B", re.sub(r"# (?:ms|us|s|min|h)\b", "# s", line))


def first_missing(expected, output, in_order=True):
    """The first line of `expected` that is not in the output; None if all are. "..." stands for anything."""
    lines = [plain(line) for line in output.replace("\r", "\n").split("\n")]
    rest = iter(lines)
    for line in expected.split("\n"):
        pattern = ".*".join(re.escape(part) for part in plain(line).split("..."))
        if not any(re.search(pattern, found) for found in (rest if in_order else lines)):
            return line
    return None


def commands(text):
    """The commands of a block, one for each line; a backslash continues a line."""
    return [line for line in text.replace("\\\n", " ").split("\n") if line.strip()]


class Reader:
    def __init__(self, program, folder, machines, obstacle):
        """`machines` by name; `obstacle(text)` says why a block cannot run here, or is None."""
        self.folder, self.machines, self.obstacle = folder, machines, obstacle
        self.left_out, self.mark = False, f"{os.getpid()}.{time.monotonic_ns()}"
        self.shown = {}  # by machine: what its last command printed, as a function; the peer that goes on printing
        self.last = ""  # the machine of the last command
        self.saved = None  # the file that was saved last
        tools = os.path.join(folder, "tools")
        os.makedirs(tools, exist_ok=True)
        os.symlink(program, f"{tools}/starling")
        self.environment = {"PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", MARK: self.mark}

    def follow(self, blocks):
        for block in blocks:
            if block.kind == "sh":
                self.run(block)
            elif block.kind == "text":
                self.compare(block)
            elif block.kind in ("toml", "python"):
                self.save(block)

    def save(self, block):
        """A reader saves the block as the paragraph before it says, or appends it to the last file."""
        name = re.search(r"[Ss]ave \w+(?: \w+)* as `([\w.]+)`", block.lead)
        if name:
            self.saved = os.path.join(self.machines[""].folder, name.group(1))
        known = name or (self.saved and "Append these lines" in block.lead)
        require(known, f"{block.place}: no file is named for this block")
        with open(self.saved, "w" if name else "a", encoding="utf-8") as file:
            file.write(block.text)

    def run(self, block):
        machine, why = self.machines[block.machine], self.obstacle(block.text)
        self.left_out, self.last = why is not None, block.machine
        if why:
            print(f"   left out: {block.place}: {why}", flush=True)
            return
        text = machine.printed(block.text)
        if text.startswith("starling peer"):
            for command in commands(text):
                self.start(machine, command, block.machine)
            return
        done = subprocess.run([*machine.prefix, "bash", "-ec", text], cwd=machine.folder, env=self.variables(machine),
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=600, check=False)
        require(done.returncode == 0, f"{block.place}: exit code {done.returncode}:\n{text}{done.stdout}")
        self.shown[block.machine] = lambda: done.stdout, None
        for name in re.findall(r"(?:--out|--csv) ([\w./-]+\.\w+)", text):
            require(os.path.getsize(os.path.join(machine.folder, name)) > 0, f"{block.place}: {name} is empty")
        if text.startswith("starling leave"):
            machine.peer.end()
            self.shown[block.machine] = machine.peer.output, None

    def start(self, machine, command, name=""):
        """Starts a peer in the background, and returns once it trains."""
        log = os.path.join(self.folder, f"peer-{time.monotonic_ns()}.log")
        with open(log, "wb") as out:
            process = subprocess.Popen([*machine.prefix, "bash", "-ec", f"exec {command}"], cwd=machine.folder,
                                       env=self.variables(machine), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True)
        peer = machine.peer = Peer(process, log)
        self.shown[name] = peer.output, peer
        self.wait_for("training begins", peer.output, command, peer)
        return peer

    def variables(self, machine):
        return {**self.environment, "HOME": machine.folder, **(machine.environment if machine.peer else {})}

    def compare(self, block):
        if self.left_out:
            return
        machine = block.machine or self.last
        output, peer = self.shown[machine]
        self.wait_for(self.machines[machine].printed(block.text).rstrip("\n"), output, block.place, peer)

    def wait_for(self, expected, output, place, peer=None):
        """What a peer prints may come later, and in another order."""
        def printed():
            running = peer is not None and peer.process.poll() is None
            missing = first_missing(expected, output(), in_order=peer is None)
            require(missing is None or running, f"{place}: not printed: {missing}\nbut:\n{output()}")
            return missing is None
        until(printed, lambda: f"{place}: not printed: {expected}\nbut:\n{output()}")

    def close(self):
        """Ends what still runs. Returns its command lines."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/cmdline", "rb") as line:
                    words = line.read().replace(b"\0", b" ").decode(errors="replace").strip()
                    if f"{MARK}={self.mark}".encode() in environment.read() and words:
                        found.append(words)
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue  # it has ended, or belongs to another user
        shutil.rmtree(self.folder, ignore_errors=True)
        return found
