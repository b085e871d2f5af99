"""Peers in machines, watched over HTTP from their own namespaces."""
import json
import os
import subprocess
import time

import network
import suite

os.environ.setdefault("STARLING_EXPORT", "none")  # peers leave no models


class Peer:
    def __init__(self, program, machine, folder, *flags):
        self.program, self.machine, self.name = program, machine, machine.name
        self.log = os.path.join(folder, machine.name + ".log")
        command = [*machine.prefix(), program, "peer", "--name", machine.name, "--http", "127.0.0.1:8080", "--out", folder, *flags]
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=network.die_with_parent)

    def ask(self, command):
        """The answer of `starling COMMAND --json`, or None."""
        done = subprocess.run([*self.machine.prefix(), self.program, command, "--at", "127.0.0.1:8080", "--json"], capture_output=True, text=True,
                              timeout=suite.HANG, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self):
        return self.ask("status") or {}

    def members(self):
        """By name."""
        listed = self.ask("members") or []
        return {m["name"]: m for m in (listed["members"] if isinstance(listed, dict) else listed)}

    def metrics(self):
        """By name with labels."""
        fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
        done = subprocess.run([*self.machine.prefix(), "/usr/bin/python3", "-c", fetch], capture_output=True, text=True, timeout=suite.HANG, check=False)
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines() if line and line[0] != "#"}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.kill()

    def tail(self):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-12:])


def wait_for(what, condition):
    """Asks again and again until the condition holds. Returns the seconds that it took."""
    begun = time.monotonic()
    suite.until(condition, f"it does not come true that {what}", 0.1)
    return time.monotonic() - begun
