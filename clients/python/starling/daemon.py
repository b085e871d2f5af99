"""A peer of one's own: the process `starling peer --trainer SOCKET`, started, restarted and ended by its trainer."""
import collections
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from .errors import Error, log

BACKOFF, BACKOFF_MAX = 0.2, 5  # seconds between two starts
LINES = 20  # of the log that are remembered
BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program", "bin", "starling")


def find_program(program=None):
    """The path of the program `starling`: the given one, $STARLING_PROGRAM, the one that is installed with this package
    (scripts/package), or the one on PATH. Raises Error if there is none."""
    found = (program or os.environ.get("STARLING_PROGRAM") or (BUNDLED if os.path.exists(BUNDLED) else None)
             or shutil.which("starling"))
    if not found:
        raise Error("no program `starling` on PATH; install it, or give its path with program= or $STARLING_PROGRAM")
    return found


def flags_of(settings):
    """Keywords as flags: every="8 steps" is --every '8 steps'; True is a flag without a value, a list repeats it."""
    flags = []
    for key, value in settings.items():
        flag = "--" + key.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                flags.append(flag)
            elif one is not None and one is not False:
                flags += [flag, str(one)]
    return flags


def listen_for(join):
    """Where a peer listens if the user does not say it: on a loopback address at a free port if its swarm is there,
    else nowhere."""
    first = join if isinstance(join, str) else join[0]
    host = first.rpartition(":")[0]
    return "127.0.0.1:0" if host == "localhost" or host.startswith("127.") or host == "[::1]" else "none"


class Daemon:
    """Starts the peer. `log`: a file to which its log is appended; without it the log goes to stderr. Its folder,
    of this user only, has the socket and the state with which a restarted peer rejoins. If this process is killed, the
    peer leaves and removes it."""

    def __init__(self, program, settings, log=None):
        self.program = find_program(program)
        self.folder = tempfile.mkdtemp(prefix="starling-")
        self.socket = os.path.join(self.folder, "trainer")
        settings = {"state": os.path.join(self.folder, "state"), "parent": os.getpid(), "parent_folder": self.folder,
                    "export": "none", **settings}
        self._command = [self.program, "peer", "--trainer", self.socket, *flags_of(settings)]
        # One that is started again finds its own checkpoints, which no other peer may replace.
        keeps = settings.get("checkpoints") is not None and settings.get("resume") is None
        self._again = ["--resume", str(settings["checkpoints"])] if keeps else []
        self._reported = None  # the error of a restarted peer that was logged
        self._log, self._lines, self._reader = log, collections.deque(maxlen=LINES), None
        self._backoff, self._next = BACKOFF, 0
        self._owner, self.process = os.getpid(), None
        try:
            self.start()
        except BaseException as error:
            self.stop(0)
            if isinstance(error, OSError):
                what = f"open the log {log}" if log and error.filename == log else f"start {self.program}"
                raise Error(f"cannot {what}: {error.strerror}") from None
            raise

    def start(self, *more):
        # A session of its own: Ctrl-C reaches the trainer, which then says `bye`. SIGPIPE stays ignored: a peer whose
        # trainer was killed answers others for a while, and its log has no reader.
        log = open(self._log, "ab", buffering=0) if self._log else None
        try:
            self.process = subprocess.Popen([*self._command, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, start_new_session=True, restore_signals=False)
            reader = threading.Thread(target=self._read, args=(self.process.stdout, log), daemon=True,
                                      name="starling-log")
            reader.start()
        except BaseException:
            if log:
                log.close()
            raise
        self._reader = reader

    def _read(self, pipe, log):
        with pipe:
            for line in pipe:
                text = line.decode(errors="replace")
                self._lines.append(text.rstrip())
                if log:
                    log.write(line)
                else:
                    sys.stderr.write(text)
        if log:
            log.close()

    def running(self):
        return self.process.poll() is None

    def last_error(self):
        """The last line of the log that is an error, else the last one."""
        self._reader.join(1)
        lines = [line for line in self._lines if line]
        errors = [line for line in lines if "error" in line]
        return (errors or lines or [f"{self.program} ended with code {self.process.returncode}"])[-1]

    def last_line(self):
        """The last line of the log so far; None if there is none."""
        return next((line for line in reversed(list(self._lines)) if line), None)

    def restart_if_ended(self):
        """Does not wait. Starts are at least 0.2 s apart, then twice as long each time, up to 5 s."""
        now = time.monotonic()
        if self.running() or now < self._next:
            return
        if self._backoff > BACKOFF:  # it has not begun since the last start
            error = self.last_error()
            what = error.partition("error: ")[2] or error  # without the time
            if what != self._reported:
                self._reported = what
                log.warning("starling: the peer cannot begin again: %s", error)
        self._next, self._backoff = now + self._backoff, min(2 * self._backoff, BACKOFF_MAX)
        try:
            self.start(*self._again)
        except OSError:
            pass  # tried again later

    def attached(self):
        self._backoff = BACKOFF

    def stop(self, seconds):
        """Waits this long for the peer's end, then ends it."""
        if os.getpid() != self._owner:
            return
        for end in (None, self.process.terminate, self.process.kill) if self.process else ():
            try:
                if end:
                    end()
                self.process.wait(5 if end else seconds)
                break
            except subprocess.TimeoutExpired:
                continue
        if self._reader:
            self._reader.join(1)
        shutil.rmtree(self.folder, ignore_errors=True)
