"""The base of Python test programs. Runs named cases; a failing case does not end the others. The last line is
"N passed, N failed", which scripts/test adds to its counts. Also how tests wait: for events, and the only bound in wall
time is one that a hang alone reaches. Uses only the standard library."""

import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HANG = 180  # seconds: the limit of every wait; only a hang takes so long


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def until(look, what, pause=0.02):
    """Polls `look` until it returns a true value, and returns it. `what` is what failed, or a function that says it."""
    end = time.monotonic() + HANG
    while not (value := look()):
        require(time.monotonic() < end, what() if callable(what) else what)
        time.sleep(pause)
    return value


def seed_of_commit():
    """A fresh seed with each commit."""
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], text=True, capture_output=True).stdout
    return int(commit[:8] or "1", 16)


def processes_with(text):
    """The numbers of the processes whose commands contain this text."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                    if text in file.read():
                        found.append(name)
        except OSError:
            pass  # it has ended
    return found


class Beats:
    """A clock for what the product promises about real time; a busy machine slows it down as it slows the product. Its
    process sleeps for 4 ms and computes for 1 ms of processor time, again and again: such a beat takes as much longer as a
    process has to wait for a processor."""

    BEAT = 0.005  # seconds
    PROGRAM = """
import mmap, os, struct, sys, time
memory, beats, parent = mmap.mmap(int(sys.argv[1]), 8), 0, os.getppid()
while os.getppid() == parent:
    time.sleep(0.004)
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    beats += 1
    struct.pack_into("<Q", memory, 0, beats)
"""

    def __init__(self):
        file = os.memfd_create("beats")
        os.ftruncate(file, 8)
        self._count = mmap.mmap(file, 8)
        self._process = subprocess.Popen([sys.executable, "-S", "-c", self.PROGRAM, str(file)], pass_fds=[file])
        os.close(file)
        until(self.passed, "no clock", 0.001)
        self._begun = time.monotonic()

    def passed(self):
        """Seconds since the construction, about the wall time if the machine is idle."""
        return self.BEAT * struct.unpack("<Q", self._count)[0]

    def speed(self):
        """Its seconds per second of wall time so far."""
        return min(1.0, self.passed() / max(time.monotonic() - self._begun, self.BEAT))

    def until(self, look, what, seconds):
        """suite.until() with a limit in seconds of this clock from now on. Returns those that it took."""
        begun, end = self.passed(), time.monotonic() + HANG
        while not look():
            late = self.passed() - begun > seconds or time.monotonic() > end
            require(not late, f"not within {seconds} s: {what() if callable(what) else what}")
            time.sleep(0.02)
        return self.passed() - begun

    def close(self):
        self._process.kill()
        self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Skipped(Exception):
    """Why a case cannot run here."""


class Suite:
    """A base class: the derived `run()` calls `case()`. `folder` is a temporary folder of this run. If `pictures` is not None,
    the suite saves its screenshots there."""

    def __init__(self, folder):
        self.folder = folder
        self.pictures = sys.argv[sys.argv.index("--pictures") + 1] if "--pictures" in sys.argv else None
        self.passed = self.failed = 0

    def case(self, name, work):
        try:
            work()
            self.passed += 1
            print(f"   passed: {name}")
        except Skipped as reason:
            print(f"   skipped: {name}: {reason}")
        except Exception as error:  # any error fails only this case
            self.failed += 1
            print(f"   FAILED: {name}: {error}")
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()

    def close(self):
        pass


def memory():
    """A folder of a file system in memory, None if there is none. For tests of durations: a file system on a busy disk can
    keep a process that creates a file waiting for seconds, which Beats does not show."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main(kind, where=None):
    """Runs `kind(SUBJECT, folder)`, where SUBJECT is the first argument; exits with its result. The folder is a new one in the
    folder `where`, by default that of temporary files."""
    if len(sys.argv) < 2:
        sys.exit(f"{sys.argv[0]}: missing argument: see the head of this file for usage")
    with tempfile.TemporaryDirectory(prefix="starling-test-", dir=where, ignore_cleanup_errors=True) as folder:
        suite = kind(os.path.abspath(sys.argv[1]), folder)
        try:
            suite.run()
        finally:
            suite.close()
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 0 if suite.failed == 0 else 1
