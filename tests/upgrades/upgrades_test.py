#!/usr/bin/env python3
"""Tests swarms of programs of several versions: peers that are replaced while they train, and peers that are too old.
upgrades_test.py PROGRAM [--other OTHER]; OTHER is the program of another version, by default a copy of PROGRAM in which the
version and one setting have other names. The last line is "N passed, N failed"."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import require, until  # noqa: E402

PEERS = 6
OTHER_VERSION = 4  # the exit code
# What a later version has instead of a setting of this one, and the flags with which it differs from its default.
SETTING, LATER = "training.final_rate", "training.final_ratz"
TRAINING = ["--model", "softmax", "--data", "glyphs", "--schedule", "cosine", "--epochs", "100000", "--pace", "2ms"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Peer:
    """A peer with a place of its own, which is started several times. `program` is what runs."""

    def __init__(self, folder, name):
        self.folder, self.name = f"{folder}/{name}", name
        os.makedirs(self.folder)
        self.port, self.process, self.lives = free_port(), None, 0
        self.address = f"127.0.0.1:{self.port}"

    def start(self, program, *flags):
        self.lives += 1
        self.program, self.log_path = program, f"{self.folder}/log-{self.lives}"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([program, "peer", "--name", self.name, "--listen", self.address, "--http", "127.0.0.1:0",
                                             "--state", f"{self.folder}/state", "--export", f"{self.folder}/model.safetensors", *flags],
                                            stdout=log, stderr=log, cwd=self.folder)

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def told(self, pattern):
        def look():
            found = re.search(pattern, self.log())
            require(found or self.process.poll() is None, f"{self.name} ended: {self.log()}")
            return found
        return until(look, lambda: f"{self.name} does not say {pattern}: {self.log()}")

    def get(self, path):
        connection = http.client.HTTPConnection(self.told(r"HTTP at (127\.0\.0\.1:\d+)")[1], timeout=suite.HANG)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def exchanged(self):
        exchanges = self.get("/api/v1/status")["exchanges"]
        return exchanges["completed"] + exchanges["answered"]

    # Waits until it has exchanged more often than so many times.
    def exchanges_beyond(self, count):
        def look():
            require(self.process.poll() is None, f"{self.name} ended: {self.log()}")
            return self.exchanged() > count
        until(look, lambda: f"{self.name} does not exchange: {self.log()}")

    def leave(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=suite.HANG)
        require(code == 0, f"{self.name} ended with {code}: {self.log()}")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Upgrades(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program, self.peers = program, []
        self.version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.later = f"{folder}/later"
        self.imitates_later_version()
        self.other = os.path.abspath(sys.argv[sys.argv.index("--other") + 1]) if "--other" in sys.argv else self.later

    def imitates_later_version(self):
        with open(self.program, "rb") as file:
            text = file.read()
        self.later_version = self.version[:2] + str(int(self.version[2]) + 1) + self.version[3:]
        for old, new in ((self.version, self.later_version), (SETTING, LATER)):
            require(len(old) == len(new) and old.encode() in text, f"the program does not contain {old}")
            text = text.replace(old.encode(), new.encode())
        with open(self.later, "wb") as file:
            file.write(text)
        os.chmod(self.later, 0o755)
        said = subprocess.run([self.later, "--version"], capture_output=True, text=True, check=True).stdout
        require(said == f"starling {self.later_version}\n", said)

    def peer(self, folder, name):
        self.peers.append(Peer(folder, name))
        return self.peers[-1]

    def close(self):
        for peer in self.peers:
            peer.kill()

    # What a log says that it would not say in a swarm of one version.
    def strange(self, text):
        return [line for line in text.split("\n") if re.search(r"refused a connection|malformed|bad version|cannot take part|damaged", line)]

    # A swarm of six trains; replaced(peers) is called meanwhile. Returns the accuracy of each peer's model at the end.
    def swarm(self, name, replaced):
        folder = f"{self.folder}/{name}"
        peers = [self.peer(folder, f"p{number}") for number in range(PEERS)]
        for peer in peers:
            peer.start(self.program, *(TRAINING if peer is peers[0] else ["--join", peers[0].address]))
            peer.told("training begins")
        for peer in peers:
            peer.exchanges_beyond(3)
        replaced(peers)
        for peer in peers:
            peer.exchanges_beyond(peer.exchanged() + 20)
        accuracies = []
        for peer in peers:
            peer.leave()
            said = subprocess.run([self.program, "evaluate", f"{peer.folder}/model.safetensors", "--data", "glyphs", "--json"],
                                  capture_output=True, text=True, timeout=suite.HANG)
            require(said.returncode == 0, said.stderr)
            accuracies.append(json.loads(said.stdout)["accuracy"])
            for life in range(1, peer.lives + 1):
                with open(f"{peer.folder}/log-{life}", encoding="utf-8") as log:
                    strange = self.strange(log.read())
                    require(not strange, f"life {life} of {peer.name}: {strange}")
        return accuracies

    def peers_are_replaced_one_by_one(self):
        def replace(peers):
            for program in (self.other, self.program):
                for peer in peers:
                    before = {other: other.exchanged() for other in peers if other is not peer}
                    peer.leave()
                    peer.start(program, *[word for other in list(before)[:3] for word in ("--join", other.address)])
                    peer.told("training begins")
                    peer.exchanges_beyond(3)
                    for other, count in before.items():
                        other.exchanges_beyond(count)
            for peer in peers:
                exchanges = peer.get("/api/v1/status")["exchanges"]
                restarts = 2 * (PEERS - 1)
                require(exchanges["aborted"] <= restarts and not exchanges["chunks_refused"], f"{peer.name}: {exchanges}")
        with_replacements = self.swarm("replaced", replace)
        without = self.swarm("kept", lambda peers: None)
        print(f"   accuracies with replacements {with_replacements}, without {without}")
        require(min(with_replacements) >= min(without) - 0.05, "replaced peers learn less")

    # A joiner of this version in a swarm that a later one began with these flags.
    def joins_later(self, name, *flags):
        first, joiner = self.peer(f"{self.folder}/{name}", "first"), self.peer(f"{self.folder}/{name}", "joiner")
        first.start(self.later, *TRAINING, *flags)
        first.told("training begins")
        joiner.start(self.program, "--join", first.address)
        return first, joiner

    def unused_later_setting_refuses_nobody(self):
        _, joiner = self.joins_later("unused")
        joiner.told("training begins")
        joiner.exchanges_beyond(3)

    def too_old_peer_is_told(self):
        first, joiner = self.joins_later("used", "--final-ratz", "0.5")
        code = joiner.process.wait(timeout=suite.HANG)
        last = joiner.log().strip().split("\n")[-1]
        require(code == OTHER_VERSION, f"it ended with {code}: {joiner.log()}")
        require(f"the run has the setting {LATER}, which Starling {self.version} does not know" in last
                and f"Starling {self.later_version}" in last, last)
        first.told(f"joiner cannot take part in this run: the run has the setting {LATER}")
        require("joiner joined" not in first.log() and "joiner left" not in first.log(), f"it was a member: {first.log()}")
        members = first.get("/api/v1/members")
        require("joiner" not in json.dumps(members), f"it is a member: {members}")

    # A remote that speaks another version of the protocol, as far as a header shows.
    def other_protocol_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                while True:
                    try:
                        connection = server.accept()[0]
                    except OSError:
                        return
                    with connection:
                        connection.sendall(b"STRL\x09" + bytes(19))
                        connection.settimeout(suite.HANG)
                        while connection.recv(4096):
                            pass
            threading.Thread(target=answer, daemon=True).start()
            joiner = self.peer(f"{self.folder}/protocol", "joiner")
            joiner.start(self.program, "--join", "127.0.0.1:%d" % server.getsockname()[1])
            code = joiner.process.wait(timeout=suite.HANG)
            last = joiner.log().strip().split("\n")[-1]
            require(code == OTHER_VERSION, f"it ended with {code}: {joiner.log()}")
            require(f"the remote peer uses protocol version 9, and Starling {self.version} uses version" in last, last)
            server.shutdown(socket.SHUT_RDWR)

    def run(self):
        if shutil.which(self.other) is None:
            raise SystemExit(f"{self.other} is no program")
        self.case("a later version's setting that has its default refuses nobody", self.unused_later_setting_refuses_nobody)
        self.case("a peer that does not know a setting of the run is told so, is no member, and ends with its own code",
                  self.too_old_peer_is_told)
        self.case("a peer that meets another version of the protocol is told so, and ends with its own code", self.other_protocol_is_told)
        self.case("a swarm of six trains while each peer is replaced by another version and back", self.peers_are_replaced_one_by_one)


if __name__ == "__main__":
    # A peer that leaves has less than a second to write its model.
    sys.exit(suite.main(Upgrades, suite.memory()))
