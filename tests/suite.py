"""The base of Python test programs. Runs named cases; a failing case does not end the others. The last line is
"N passed, N failed", which scripts/test adds to its counts. Uses only the standard library."""

import os
import sys
import tempfile
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def require(condition, what):
    if not condition:
        raise AssertionError(what)


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
        except Exception as error:  # any error fails only this case
            self.failed += 1
            print(f"   FAILED: {name}: {error}")
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()

    def close(self):
        pass


def memory():
    """A folder of a file system in memory, None if there is none. For tests that limit durations: a file system on a busy
    disk can keep a process that creates a file waiting for seconds."""
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
