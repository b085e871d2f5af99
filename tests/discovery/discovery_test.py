#!/usr/bin/env python3
"""Peers that discover each other on a local network: tests/discovery/discovery_test.py PROGRAM

Real peers with --discover on machines with an Avahi daemon (lan.py), and strangers who announce what they like. Ends
with a line "N passed, N failed"; "0 passed, 0 failed" where the system permits no network namespaces.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # leave no files in the source tree

import lan
import network
import suite
from peers import Peer, wait_for

RUN = ["--model", "softmax", "--data", "glyphs", "--epochs", "10000", "--pace", "20ms", "--every", "200ms"]
BROWSE_S = 20  # after which avahi-browse is asked again
LEAVING_S = 3  # of a peer
FORGED_ID = "id=00000000000000aa"
SILENT_SERVER = """
import socket, time
server = socket.create_server(("0.0.0.0", 7300), backlog=64)
print("listens", flush=True)
kept = []
while True:
    kept.append(server.accept())
    print("accepted", flush=True)
"""


class Scene:
    """A network with peers."""

    def __init__(self, program):
        self.program, self.folder = program, tempfile.mkdtemp(prefix="starling-discovery-")
        self.lan, self.peers = lan.Lan(self.folder), {}

    def start(self, name, *flags, listen="0.0.0.0:7100"):
        """A peer on the machine of this name, which has an Avahi daemon."""
        machine = self.lan.machines.get(name) or self.lan.machine(name)
        peer = Peer(self.program, machine, self.folder, "--listen", listen, "--discover", *RUN, *flags)
        self.peers[name] = peer
        return peer

    def key(self, name):
        path = os.path.join(self.folder, name)
        subprocess.run([self.program, "key", "new", path], check=True, capture_output=True)
        return path

    def rotate(self, path):
        """The next step of a change of the key."""
        subprocess.run([self.program, "key", "rotate", path], check=True, capture_output=True)

    def close(self):
        for peer in self.peers.values():
            peer.end()
        self.lan.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def logs(self):
        """Without the lines about the progress."""
        text = ""
        for name, peer in self.peers.items():
            lines = text_of(peer).splitlines(True)
            text += f"-- {name}\n" + "".join(line for line in lines if " info training: " not in line)
        return text


def text_of(peer):
    with open(peer.log, errors="replace") as log:
        return log.read()


def says(peer, text):
    """Waits until the peer's log has this text."""
    def there():
        if peer.process.poll() is not None and text not in text_of(peer):
            raise AssertionError(f"{peer.name} ended without '{text}'")
        return text in text_of(peer)
    return wait_for(f"{peer.name} says '{text}'", there)


def live(peer):
    return peer.status().get("members_live")


def is_shown(scene, on, name):
    """Whether Avahi on this machine shows a service of this name, with its data."""
    command = [*scene.lan.machines[on].prefix(), "avahi-browse", "--terminate", "--resolve", "--parsable",
               "_starling._tcp"]
    def browse():  # about a second, but endless if a service is withdrawn while it is resolved
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(command, capture_output=True, text=True, timeout=BROWSE_S, check=False)
    shown = suite.until(browse, f"avahi-browse on {on} does not end").stdout
    return [line for line in shown.splitlines() if line.startswith("=") and line.split(";")[3] == name]


def begins(scene, name, *flags, **more):
    """A peer that begins a run and is announced."""
    peer = scene.start(name, *flags, **more)
    says(peer, "no peer of swarm")
    says(peer, "training begins")
    wait_for(f"{name} is announced", lambda: is_shown(scene, name, name))
    return peer


def finds(scene, name, *flags, **more):
    """A peer that finds its swarm, and the seconds that it took. On a busy machine an announcement may arrive after the time in
    which a peer searches; then it is started again."""
    def found():
        peer = scene.start(name, *flags, **more)
        took = wait_for(f"{name} has searched", lambda: "discovered swarm" in text_of(peer) or "a new run begins" in text_of(peer))
        if "discovered swarm" in text_of(peer):
            return peer, took
        peer.end()
        os.remove(peer.log)
        return None
    return suite.until(found, f"{name} does not find its swarm")


def joins_what_it_finds(scene):
    """The second peer finds the first one and joins it, over IPv4, IPv6 or both; its own settings are ignored."""
    first = begins(scene, "north", listen="[::]:7100")
    says(first, "no peer of swarm 'starling' answers on this network; a new run begins")
    second, took = finds(scene, "south", "--learning-rate", "0.5")
    [line] = [line for line in text_of(second).splitlines() if "discovered swarm" in line]
    assert "203.0.113.1:7100" in line and "[2001:db8::1]:7100" in line and "fe80" not in line, line
    says(second, "the run that was discovered has its own settings; ignored: training.learning_rate = 0.5")
    wait_for("both train together", lambda: live(first) == 2 and live(second) == 2)
    wait_for("they exchange", lambda: second.status()["exchanges"]["completed"] > 0)
    # It is announced, too, and a peer that does not listen finds both and is not announced.
    wait_for("the second one is announced", lambda: is_shown(scene, "north", "south"))
    third, _ = finds(scene, "west", listen="none")
    wait_for("three train", lambda: live(third) == 3)
    assert not is_shown(scene, "north", "west")
    # One that leaves is not announced any more.
    second.process.terminate()
    assert second.process.wait(suite.HANG) == 0
    wait_for("the announcement is withdrawn", lambda: not is_shown(scene, "north", "south"))
    return f"found within {took:.1f} s"


def names_may_be_taken(scene):
    """Three peers of one name in three swarms, two of them on one machine, are announced under three names."""
    begins(scene, "north", "--swarm", "birds")
    for machine, port, swarm, name in (("north", "7101", "fish", r"north\032\0352"), ("south", "7100", "bees", r"north\032\0353")):
        there = scene.lan.machines.get(machine) or scene.lan.machine(machine)
        there.services.append(lan.Service(there, os.path.join(scene.folder, port + ".log"), scene.program, "peer",
                                          "--name", "north", "--listen", "0.0.0.0:" + port, "--discover",
                                          "--swarm", swarm, *RUN))
        wait_for(f"it is announced as {name}", lambda name=name: is_shown(scene, "north", name))


def restarts_find_the_swarm(scene):
    """A peer with --state joins the peers that it finds, and otherwise searches for those that it remembers."""
    first = begins(scene, "north", "--state", os.path.join(scene.folder, "north.state"))
    state = ("--state", os.path.join(scene.folder, "south.state"), "--cache-interval", "100ms")
    second = scene.start("south", *state)
    wait_for("both train together", lambda: live(first) == 2 and live(second) == 2)
    cache = os.path.join(scene.folder, "south.state", "peers.json")
    wait_for("it remembers the first one", lambda: os.path.exists(cache) and "203.0.113.1" in open(cache).read())
    second.kill()
    scene.lan.machines["north"].avahi.process.terminate()
    wait_for("the first one is not announced", lambda: not is_shown(scene, "south", "north"))
    second = scene.start("south", *state)
    says(second, "no peer of swarm 'starling' answers on this network\n")
    says(second, "searching for the swarm in ")
    wait_for("it is back", lambda: live(second) == 2)
    second.kill()
    scene.lan.start_avahi(scene.lan.machines["north"])
    wait_for("the first one is announced again", lambda: is_shown(scene, "south", "north"))
    def found_again():
        """Not by its memory, as on a machine too busy for the search."""
        peer = scene.start("south", *state)
        log = lambda: text_of(peer)[before:]
        wait_for("it has searched", lambda: "discovered swarm" in log() or "searching for the swarm in " in log())
        if "discovered swarm 'starling' at 203.0.113.1:7100" not in log():
            peer.kill()
            return None
        return peer
    before = len(text_of(second))
    second = suite.until(found_again, "it does not find the first one")
    wait_for("it is back again", lambda: live(second) == 2)


def others_are_not_joined(scene):
    """A swarm of another name, and one with another key or without one, are not joined."""
    ours, theirs = scene.key("ours"), scene.key("theirs")
    scene.rotate(ours)  # the next key is accepted from now on
    begins(scene, "fish", "--swarm", "fish", "--key", ours)
    begins(scene, "theirs", "--swarm", "birds", "--key", theirs)
    begins(scene, "open", "--swarm", "birds")
    def ignores():
        """Started again if the announcements arrived after its search, as on a busy machine."""
        first = begins(scene, "first", "--swarm", "birds", "--key", ours, "--log-level", "debug")
        says(first, "announcements ignored: ")
        line = [line for line in text_of(first).splitlines() if "announcements ignored: " in line][-1]
        assert "0 malformed" in line, line
        if " 0 of other swarms" in line or " 0 with another key" in line:
            first.end()
            os.remove(first.log)
            return False
        return True
    suite.until(ignores, "announcements are not ignored")
    # One that already uses the next key accepts the tags of both.
    next_key = os.path.join(scene.folder, "next")
    shutil.copy(ours, next_key)
    scene.rotate(next_key)
    finds(scene, "second", "--swarm", "birds", "--key", next_key)
    assert [live(scene.peers[name]) for name in ("fish", "theirs", "open")] == [1, 1, 1]


def separate_runs_merge(scene):
    """Two peers that start at the same time begin a run each; then the runs merge."""
    for name in ("north", "south"):
        scene.lan.machine(name)
    key = scene.key("key")
    peers = [scene.start(name, "--key", key) for name in ("north", "south")]
    for peer in peers:
        says(peer, "a new run begins")
    took = wait_for("the runs merge", lambda: all(live(peer) == 2 for peer in peers))
    assert any("discovered " in text_of(peer) for peer in peers)
    wait_for("they exchange", lambda: all(peer.status()["exchanges"]["completed"] > 0 for peer in peers))
    return f"merged within {took:.1f} s"


def forgeries_do_no_harm(scene):
    """A stranger announces garbage, and a copy of the true announcement at addresses where no such peer answers."""
    key = scene.key("key")
    scene.lan.machine("north")
    stranger = scene.lan.machine("stranger")
    server = lan.Service(stranger, os.path.join(scene.folder, "server.log"), "/usr/bin/python3", "-c", SILENT_SERVER)
    stranger.services.append(server)
    wait_for("the silent server listens", lambda: server.says("listens"))
    announce = lambda name, port, *txt: scene.lan.announce(stranger, name, port, *txt)
    announce("garbage", 7100, "\x1b[2J", "v=1", "swarm=\x1b]0;x\x07", "id=" + "z" * 200, "tag=%n%n%n")
    announce("port 1", 1, "v=1", "swarm=starling", FORGED_ID, "tag=open")
    announce("port 65535", 65535, "v=1", "swarm=" + "a" * 240, FORGED_ID, "tag=open")
    announce("port 0", 0, "v=1", "swarm=starling", FORGED_ID, "tag=open")
    announce("empty", 7100)
    announce("many", 7100, *[f"x{k}=" + "y" * 20 for k in range(40)])
    # More than a packet takes; the daemon of the same machine passes it on.
    long = [f"x{k}=" + "y" * 245 for k in range(40)]
    scene.lan.announce(scene.lan.machines["north"], "long", 7100, *long)
    first = begins(scene, "north", "--key", key)
    tag = is_shown(scene, "north", "north")[0].split('"tag=')[1][:32]
    assert len(tag) == 32 and all(c in "0123456789abcdef" for c in tag), tag
    for port in (1, 7300):  # nothing listens; a server that never answers
        announce(f"copy {port}", port, "v=1", "swarm=starling", FORGED_ID, "tag=" + tag)
    wait_for("the first peer tries the silent server", lambda: server.says("accepted"))
    second, took = finds(scene, "south", "--key", key)
    [line] = [line for line in text_of(second).splitlines() if "discovered swarm" in line]
    assert "203.0.113.2" not in line, line
    wait_for("both train together", lambda: live(first) == 2 and live(second) == 2)
    # Where only forgeries are announced, a peer begins a run.
    scene.peers.pop("south").end()
    scene.peers.pop("north").end()
    wait_for("their announcements are gone", lambda: not is_shown(scene, "south", "north"))
    third = scene.start("west", "--key", key)
    waited = says(third, "no peer of swarm 'starling' answers on this network; a new run begins")
    says(third, "is announced at 203.0.113.2:1, but this one cannot connect to it: unreachable")
    says(third, "training begins")
    for peer in (first, second, third):
        assert "\x1b]0" not in text_of(peer) and "%n" not in text_of(peer) and "yyyy" not in text_of(peer)
    assert first.process.poll() is not None and third.process.poll() is None
    return f"found within {took:.1f} s, gave up after {waited:.1f} s"


def daemon_may_be_away(scene):
    """Without a daemon a peer says what to install. One that goes away is used again when it is back."""
    bare = scene.lan.machine("bare", avahi=False)
    command = [*bare.prefix(), scene.program, "peer", "--discover", "--listen", "0.0.0.0:7100", *RUN]
    for _ in ("no bus", "no daemon"):
        done = subprocess.run(command, capture_output=True, text=True, timeout=suite.HANG, check=False, cwd=scene.folder)
        assert done.returncode == 2, done
        [line] = [line for line in done.stderr.splitlines() if "starling peer:" in line]
        assert line.startswith("starling peer: --discover: no Avahi daemon answers on this machine ("), line
        assert line.endswith("; install and start avahi-daemon"), line
        if not bare.services:
            scene.lan.start_bus(bare)
    first = begins(scene, "north")
    machine = scene.lan.machines["north"]
    machine.avahi.end()
    says(first, "the Avahi daemon went away; until it is back, this peer is neither announced")
    done = first.status()["steps"]
    wait_for("it trains on", lambda: first.status()["steps"] > done)
    scene.lan.start_avahi(machine)
    says(first, "the Avahi daemon answers again")
    wait_for("it is announced again", lambda: is_shown(scene, "north", "north"))
    assert text_of(first).count("went away") == 1
    second, _ = finds(scene, "south")
    assert "discovered swarm 'starling' at 203.0.113." in text_of(second), text_of(second)
    # A peer that is still looking leaves at once.
    third = scene.start("west", "--swarm", "fish")
    says(third, "looking for peers of swarm 'fish' on this network")
    with suite.Beats() as beats:
        third.process.terminate()
        beats.until(lambda: third.process.poll() is not None, "it leaves", LEAVING_S)
    assert third.process.returncode == 0
    # A daemon that hangs does not hold the peer up.
    west = scene.lan.machines["west"]
    west.avahi.process.send_signal(signal.SIGSTOP)
    command = [*west.prefix(), scene.program, "peer", "--discover", "--listen", "0.0.0.0:7100", *RUN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=suite.HANG, check=False, cwd=scene.folder)
    assert done.returncode == 2 and "--discover: the Avahi daemon of this machine does not answer" in done.stderr, done
    command = [*machine.prefix(), scene.program, "doctor"]
    doctor = subprocess.run(command, capture_output=True, text=True, timeout=suite.HANG, check=False)
    assert "an Avahi daemon answers: peers find each other on this network" in doctor.stdout, doctor


CASES = [joins_what_it_finds, names_may_be_taken, restarts_find_the_swarm, others_are_not_joined, separate_runs_merge,
         forgeries_do_no_harm, daemon_may_be_away]


def test(program, only):
    passed = failed = 0
    for case in CASES:
        if only and case.__name__ not in only:
            continue
        begun = time.monotonic()
        scene = None
        try:
            scene = Scene(program)
            figure = case(scene)
            passed += 1
            took = time.monotonic() - begun
            print(f"passed: {case.__name__}{': ' + figure if figure else ''} ({took:.0f} s)", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED: {case.__name__}\n{traceback.format_exc()}\n{scene.logs() if scene else ''}", flush=True)
        if scene:
            scene.close()
    print(f"{passed} passed, {failed} failed")
    return failed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    obstacle = network.enter()
    for tool in ("dbus-daemon", "avahi-daemon", "avahi-publish", "avahi-browse"):
        if not obstacle and shutil.which(tool) is None:
            obstacle = f"{tool} is missing (scripts/deps --tests installs it)"
    if obstacle:
        print(f"left out: {obstacle}\n0 passed, 0 failed")
        return 0
    return 1 if test(os.path.abspath(sys.argv[1]), sys.argv[2:]) else 0


if __name__ == "__main__":
    sys.exit(main())
