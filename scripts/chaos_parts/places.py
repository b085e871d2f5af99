"""Where peers run, and how they are cut off.

Namespaces: the script restarts itself in its own network namespace with three bridges. Every peer has another namespace
with two cables: one to the other peers, which can be cut, and one for queries, which stays. The namespaces disappear
with their processes, so no cleanup is needed. Loopback: no cuts.
"""
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys

import suite

INSIDE = "STARLING_CHAOS_INSIDE"  # set in the restarted script
WAYS_IN = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])


def die_with_parent():
    """Called between fork and exec: kills the process when the script ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


class Loopback:
    cuts = False
    name = "loopback, without cuts"

    def __init__(self, count):
        # Below the ephemeral port range, so that a restarted peer can reuse its port.
        rng = random.Random(os.getpid())
        self.ports = []
        while len(self.ports) < 2 * count:
            port = rng.randrange(15000, 32000)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            if port not in self.ports:
                self.ports.append(port)

    def address(self, i):
        return f"127.0.0.1:{self.ports[2 * i]}"

    def http(self, i):
        return f"127.0.0.1:{self.ports[2 * i + 1]}"

    def prefix(self, i):
        return []

    def close(self):
        pass


class Namespaces:
    cuts = True
    name = "network namespaces"

    def __init__(self, count):
        self.holders = []
        run("ip", "link", "set", "lo", "up")
        for bridge in ("main", "island", "questions"):
            run("ip", "link", "add", bridge, "type", "bridge")
            run("ip", "link", "set", bridge, "up")
        run("ip", "addr", "add", "10.78.255.254/16", "dev", "questions")
        for i in range(count):
            self.add(i)

    def add(self, i):
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=die_with_parent,
                                  start_new_session=True)
        self.holders.append(holder)
        own = os.readlink("/proc/self/ns/net")
        suite.until(lambda: holder.poll() is not None or os.readlink(f"/proc/{holder.pid}/ns/net") != own, "no namespace", 0.01)
        if holder.poll() is not None:
            raise OSError("cannot create a network namespace for a peer")
        inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        run(*inside, "ip", "link", "set", "lo", "up")
        for port, bridge, device, address in ((f"d{i}", "main", "eth0", self.host(77, i)),
                                              (f"q{i}", "questions", "eth1", self.host(78, i))):
            run("ip", "link", "add", port, "type", "veth", "peer", "name", device, "netns", str(holder.pid))
            run("ip", "link", "set", port, "master", bridge, "up")
            run(*inside, "ip", "addr", "add", f"{address}/16", "dev", device)
            run(*inside, "ip", "link", "set", device, "up")

    @staticmethod
    def host(net, i):
        return f"10.{net}.{i // 250}.{i % 250 + 1}"

    def address(self, i):
        return f"{self.host(77, i)}:7100"

    def http(self, i):
        return f"{self.host(78, i)}:7180"

    def prefix(self, i):
        return ["nsenter", f"--net=/proc/{self.holders[i].pid}/ns/net"]

    def cut(self, i, how):
        """how: `silent` (packets are lost), `cable` (the link is down), or `island` (peers that are cut off in this
        way still reach each other)."""
        if how == "silent":
            run("ip", "link", "set", f"d{i}", "nomaster")
        elif how == "cable":
            run("ip", "link", "set", f"d{i}", "down")
        else:
            run("ip", "link", "set", f"d{i}", "master", "island")

    def heal(self, i):
        run("ip", "link", "set", f"d{i}", "master", "main", "up")

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()


def enter_namespace():
    """Restarts the script in a network namespace; returns if none is available."""
    for way in WAYS_IN:
        can = ["sh", "-c", "ip link add probe type bridge && ip link del probe && unshare --net true"]
        try:
            if subprocess.run(way + can, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                continue
        except FileNotFoundError:
            return
        sys.stdout.flush()
        os.execvpe(way[0], way + [sys.executable] + sys.argv, {**os.environ, INSIDE: "1"})
