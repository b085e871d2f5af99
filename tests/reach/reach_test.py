#!/usr/bin/env python3
"""Peers behind routers: tests/reach/reach_test.py PROGRAM [--measure]

Real peers in network namespaces (network.py): two public ones that relay, and four behind two routers that masquerade,
in networks with IPv4, IPv6 or both. Private peers must train with all others, two of them through a relay; another
relay must take over when one is killed; and a peer whose address changes must be dialed at the new one. Ends with a
line "N passed, N failed"; "0 passed, 0 failed" where the system permits no such namespaces. --measure: compares the
accuracy of 2 public and 4 private peers with that of 6 public ones instead.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # leave no files in the source tree

import network
import suite
from peers import Peer, wait_for

DETECTION_S = 12  # a member that is gone: a round of probes, the suspicion, and a reconnection
RELAY = "200Mbit/s"


class Swarm:
    """Two public peers and four private ones, behind two routers."""

    def __init__(self, program, v4, v6, epochs, relays=2, publics=2, key=True):
        self.program, self.folder = program, tempfile.mkdtemp(prefix="starling-reach-")
        self.net, self.peers, self.key, self.machines = network.Internet(), {}, [], {}
        self.shape = v4, v6, relays, publics
        if key:
            path = os.path.join(self.folder, "key")
            subprocess.run([program, "key", "new", path], check=True, capture_output=True)
            self.key = ["--key", path]
        self.run = ["--model", "lenet", "--data", "glyphs", "--epochs", str(epochs), "--seed", "7"]

    def begin(self):
        v4, v6, relays, publics = self.shape
        self.machines = {f"pub{k}": self.net.public(f"pub{k}", k, v4, v6) for k in range(1, publics + 1)}
        for k, machine in enumerate(self.machines.values()):
            self.start_public(machine, relay=k < relays)
        self.routers = [] if publics > 2 else [self.net.router(f"home{k}", 100 + k, v4, v6) for k in (1, 2)]
        for k in range(4 if self.routers else 0):
            # In a mixed network one machine of each home has IPv4 only, and the other one IPv6 only.
            has_v4, has_v6 = (k % 2 == 0, k % 2 == 1) if v4 and v6 else (v4, v6)
            name = f"priv{k + 1}"
            self.machines[name] = self.net.private(name, self.routers[k // 2], 11 + k % 2, has_v4, has_v6)
            # One of each kind does not listen; the other finds out that nobody can dial it.
            listen = "none" if k in (0, 3) else "0.0.0.0:7100" if has_v4 else "[::]:7100"
            joins = [a for a in self.machines["pub1"].addresses if ("[" in a) == (not has_v4)]
            self.start(self.machines[name], "--listen", listen, "--join", joins[0] + ":7100")

    def start(self, machine, *flags):
        peer = Peer(self.program, machine, self.folder, *self.key, *flags)
        self.peers[machine.name] = peer
        return peer

    def start_public(self, machine, relay):
        flags = [flag for address in machine.addresses for flag in ("--advertise", address + ":7100")]
        if relay:
            flags += ["--relay", RELAY]
        first = not self.peers
        flags += self.run if first else ["--join", self.machines["pub1"].addresses[0] + ":7100"]
        anywhere = "[::]:7100" if any("[" in a for a in machine.addresses) else "0.0.0.0:7100"
        self.start(machine, "--listen", anywhere, *flags)
        wait_for(f"{machine.name} answers", lambda: self.peers[machine.name].status())

    def all_agree(self, count):
        """Everyone knows that this many members live, and none that is alive was given up."""
        statuses = [peer.status() for peer in self.peers.values() if peer.process.poll() is None]
        return all(s.get("members_live") == count and s.get("phase") == "training" for s in statuses)

    def private_pairs(self):
        """Pairs of private peers that have exchanged, by what members publish about their last partner."""
        members = self.peers["pub1"].members()
        ids = {m["id"]: name for name, m in members.items()}
        partners = {(name, ids.get(m.get("partner"), "")) for name, m in members.items()}
        return {(a, b) for a, b in partners if a.startswith("priv") and b.startswith("priv")}

    def relayed(self):
        return {name: peer.status()["relay"] for name, peer in self.peers.items() if name.startswith("pub") and peer.process.poll() is None}

    def close(self):
        for peer in self.peers.values():
            peer.end()
        self.net.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def logs(self):
        return "\n".join(f"-- {name}\n{peer.tail()}" for name, peer in self.peers.items())


def check_reach(swarm):
    """Six peers become members and train; private ones have no address and exchange through a relay."""
    wait_for("six members train", lambda: swarm.all_agree(6))
    wait_for("private peers state no address",
             lambda: all(not m["address"] for name, m in swarm.peers["pub1"].members().items() if name.startswith("priv")))
    wait_for("two private peers exchange", swarm.private_pairs)
    wait_for("each private peer completes exchanges",
             lambda: all(p.status()["exchanges"]["completed"] > 0 for n, p in swarm.peers.items() if n.startswith("priv")))
    assert sum(r["bytes"] for r in swarm.relayed().values()) > 0


def check_takeover(swarm):
    """One relay is killed while private peers use it: the other one takes over within the time to detect the failure."""
    before = swarm.relayed()
    busiest = max(before, key=lambda name: before[name]["bytes"])
    other = next(name for name in before if name != busiest)
    circuits = before[other]["circuits"]
    with suite.Beats() as beats:
        swarm.peers[busiest].kill()
        took = beats.until(lambda: swarm.relayed()[other]["circuits"] > circuits, "the other relay takes over", DETECTION_S)
    wait_for("the others agree", lambda: swarm.all_agree(5))
    return f"{took:.1f} s"


def check_no_relay(swarm):
    """Where nobody relays, private peers exchange with public ones and never with one another."""
    wait_for("six members train", lambda: swarm.all_agree(6))
    private = [p for name, p in swarm.peers.items() if name.startswith("priv")]
    wait_for("each private peer completes exchanges", lambda: all(p.status()["exchanges"]["completed"] > 20 for p in private))
    assert not swarm.private_pairs()
    assert all(p.status()["exchanges"]["aborted"] <= p.status()["exchanges"]["completed"] / 5 for p in private)


def check_move(swarm):
    """A public peer that found out its address gets another one, without a restart."""
    mover = swarm.net.public("mover", 50, v6=False)
    peer = swarm.start(mover, "--listen", "0.0.0.0:7100", "--join", swarm.machines["pub1"].addresses[0] + ":7100")
    address = lambda: swarm.peers["pub1"].members().get("mover", {}).get("address")
    wait_for("the mover states its address", lambda: address() == "203.0.113.50:7100")
    mover.do("ip", "addr", "del", "203.0.113.50/24", "dev", "wan")
    mover.address("wan", "203.0.113.60/24")
    took = wait_for("the mover states its new address", lambda: address() == "203.0.113.60:7100")
    done = peer.status()["exchanges"]["completed"]
    wait_for("it exchanges again", lambda: peer.status()["exchanges"]["completed"] > done)
    wait_for("it is alive for all", lambda: all(p.members()["mover"]["state"] == "alive" for p in swarm.peers.values()))
    return f"{took:.1f} s"


def accuracies(swarm):
    for peer in swarm.peers.values():
        assert peer.process.wait(timeout=900) == 0, peer.tail()
    found = []
    for peer in swarm.peers.values():
        with open(peer.log, errors="replace") as log:
            found += [line for line in log if "accuracy" in line][-1:]
    return found


CASES = [
    ("IPv4 and IPv6 mixed: reach", {"v4": True, "v6": True, "epochs": 10000}, [check_reach, check_takeover]),
    ("IPv4: nobody relays", {"v4": True, "v6": False, "epochs": 10000, "relays": 0}, [check_no_relay, check_move]),
    ("IPv6 only, without a key: reach", {"v4": False, "v6": True, "epochs": 10000, "key": False}, [check_reach]),
]


def test(program):
    passed = failed = 0
    for name, shape, checks in CASES:
        swarm = None
        for check in checks:
            begun = time.monotonic()
            try:
                if swarm is None:
                    swarm = Swarm(program, **shape)
                    swarm.begin()
                figure = check(swarm)
                passed += 1
                print(f"passed: {name}, {check.__name__}{': ' + figure if figure else ''} ({time.monotonic() - begun:.0f} s)", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED: {name}, {check.__name__}\n{traceback.format_exc()}\n{swarm.logs() if swarm else ''}", flush=True)
                break
        if swarm:
            swarm.close()
    print(f"{passed} passed, {failed} failed")
    return failed


def measure(program, epochs):
    for name, shape in [("6 public", {"v4": True, "v6": False, "publics": 6}), ("2 public, 4 private, IPv4", {"v4": True, "v6": False}),
                        ("2 public, 4 private, IPv6", {"v4": False, "v6": True}), ("2 public, 4 private, mixed", {"v4": True, "v6": True})]:
        swarm = Swarm(program, epochs=epochs, **shape)
        swarm.begin()
        print(f"{name}:\n{''.join(accuracies(swarm))}", flush=True)
        swarm.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    obstacle = network.enter()
    if obstacle:
        print(f"left out: {obstacle}\n0 passed, 0 failed")
        return 0
    program = os.path.abspath(arguments.program)
    if arguments.measure:
        measure(program, arguments.epochs)
        return 0
    return 1 if test(program) else 0


if __name__ == "__main__":
    sys.exit(main())
