"""Real peers, and what can be seen of them from outside."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess

from suite import HANG, require, until

os.environ.setdefault("STARLING_EXPORT", "none")  # peers leave no models

EVERY = 0.05  # seconds between the exchanges of a peer
RUN = ["--model", "softmax", "--data", "glyphs", "--epochs", "1000", "--every", f"{1000 * EVERY:.0f}ms"]  # of the first peer; a joiner gets them from it
PACE = ["--pace", "20ms"]
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def get(address, path, timeout=HANG, headers=None, method="GET", body=None):
    """The status, the headers and the body of the answer."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Peer:
    """A process `starling peer`, at ports of its own choice if it has no `host` to advertise. `before` is a command that starts it, such
    as unshare."""

    def __init__(self, program, folder, name, *flags, before=(), host=None, limit=None):
        self.name, self.log_path = name, f"{folder}/{name}.log"
        self._at = len(self.log())  # an earlier process of this name may have written to it
        port = free_port() if host else 0
        command = [*before, program, "peer", "--name", name, "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0", *flags]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command + (["--advertise", f"{host}:{port}"] if host else []), stdout=log, stderr=log,
                                            preexec_fn=limit)
        self._address = self._http = None

    def log(self):
        with contextlib.suppress(FileNotFoundError), open(self.log_path, "rb") as file:
            return file.read()
        return b""

    def told(self, pattern):
        """What the group of the pattern matches in the log, as soon as it is there."""
        def look():
            text = self.log()[self._at:].decode(errors="replace")
            found = re.search(pattern, text)
            require(found or self.process.poll() is None, f"{self.name} ended with {self.process.returncode}: {text[-2000:]}")
            return found and (found[1] if found.re.groups else found[0])
        return until(look, lambda: f"{self.name} does not say '{pattern}': {self.log()[-2000:]}")

    @property
    def address(self):
        self._address = self._address or self.told(r"listens at (\S+:\d+),")
        return self._address

    @property
    def http(self):
        self._http = self._http or self.told(r"HTTP at (127\.0\.0\.1:\d+)")
        return self._http

    def trains(self):
        """Waits until it trains."""
        self.told("training begins")

    def json(self, path):
        status, _, body = get(self.http, f"/api/v1/{path}")
        require(status == 200, f"{self.name}: {path}: {status} {body[:200]}")
        return json.loads(body)

    def status(self):
        return self.json("status")

    def members(self):
        return self.json("members")["members"]

    def member(self, name):
        """What it knows about the member of this name, or None."""
        return next((member for member in self.members() if member["name"] == name), None)

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES

    def signal(self, number):
        self.process.send_signal(number)

    def leave(self):
        """Ends it in order."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=HANG)
        self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
