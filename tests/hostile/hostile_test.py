#!/usr/bin/python3
"""A hostile client attacks real peers: one case for each finding of a security review, with and without a key where that matters.

  hostile_test.py PROGRAM [--only WORDS] [--measure]

--only runs the cases whose names contain one of the words (5, "11 key"); --measure attacks longer and with more, and prints a table.
Needs the Debian packages python3-cryptography, python3-flatbuffers, python3-xxhash and flatbuffers-compiler. The last line is
"N passed, N failed"."""

import os
import resource
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
import messages  # noqa: E402
import connection_attacks as connection  # noqa: E402
import data_attacks as data  # noqa: E402
import gossip_attacks as gossip  # noqa: E402
import local_attacks as local  # noqa: E402
from stage import Stage  # noqa: E402

OPEN, KEYED = "open", "keyed"
CLIPPED = "clipped"  # a swarm with the rule `clipped`
NAMELESS = "nameless"  # a swarm whose name server never answers
ATTACKS = [
    (gossip.spoiled_files, [OPEN]),
    (gossip.one_address_twice, [OPEN]),
    (connection.silent_crowd, [OPEN, KEYED]),
    (connection.unresolved_names, [NAMELESS]),
    (gossip.impossible_samples, [OPEN, KEYED]),
    (gossip.forged_departures, [OPEN, KEYED]),
    (connection.stolen_ids, [OPEN, KEYED]),
    (data.paths_in_manifests, [OPEN]),
    (connection.endless_heads, [OPEN]),
    (connection.slow_clients, [OPEN]),
    (connection.unread_streams, [OPEN]),
    (gossip.relayed_pings, [OPEN]),
    (gossip.fake_members, [OPEN]),
    (data.silent_offers, [OPEN]),
    (data.held_offers, [OPEN]),
    (data.unread_copies, [OPEN]),
    (data.tiny_chunks_are_refused, [OPEN]),
    (connection.garbage, [OPEN, KEYED]),
    (gossip.foreign_records, [OPEN]),
    (gossip.forged_floods, [OPEN]),
    (data.flipped_signs, [CLIPPED]),
    (data.flipped_signs_of_many, [CLIPPED]),
    (data.huge_manifests, [OPEN]),
    (gossip.pinned_vitals, [OPEN]),
    (connection.odd_names, [OPEN]),
    (connection.token_guesses, [OPEN]),
]


class Hostile(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program, self.rows = program, []
        self.measures = "--measure" in sys.argv
        only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
        self.only = only.split(",") if only else []
        self.stages, self.name_server = {}, None
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
        os.mkdir(f"{folder}/generated")
        messages.load(f"{folder}/generated")

    def stage(self, kind):
        """The swarm of this kind; a swarm that an attack ended is replaced."""
        stage = self.stages.get(kind)
        if stage and any(peer.process.poll() is not None for peer in stage.peers):
            self.stages.pop(kind).close()
            stage = None
        if not stage:
            folder = f"{self.folder}/{kind}-{time.monotonic_ns()}"
            os.mkdir(folder)
            stage = self.stages[kind] = Stage(self.program, folder, seconds=8.0 if self.measures else 2.5, **self.kind(kind, folder))
        return stage

    def kind(self, kind, folder):
        """How the stage of this kind differs from an open one."""
        if kind == KEYED:
            subprocess.run([self.program, "key", "new", f"{folder}/key"], check=True, stdout=subprocess.DEVNULL)
            return {"key": f"{folder}/key"}
        if kind == CLIPPED:
            return {"flags": ["--rule", "clipped"]}
        if kind == NAMELESS:
            return self.nameless(folder)
        return {}

    def nameless(self, folder):
        """Peers in mount namespaces with a name server that never answers. They advertise localhost."""
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            raise local.Skipped("a mount namespace needs root")
        if not self.name_server:
            self.name_server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.name_server.bind(("127.1.2.3", 53))
        with open(f"{folder}/resolv.conf", "w") as file:
            file.write("nameserver 127.1.2.3\n")
        mount = f"mount --bind {folder}/resolv.conf /etc/resolv.conf && exec \"$@\""
        return {"before": ["unshare", "-m", "sh", "-c", mount, "sh"], "host": "localhost"}

    def is_wanted(self, name):
        return not self.only or any(name == word or name.split(":")[0] == word for word in self.only)

    def attempt(self, work, kind, run):
        """`run(kind)` as a case with the name of the attack, unless it is not wanted or not possible."""
        number, title = work.__doc__.split(": ", 1)
        number += " key" if kind == KEYED else ""
        if not self.is_wanted(number):
            return

        def case():
            try:
                run(number)
            except local.Skipped as why:
                print(f"     skipped: {why}")
        self.case(f"{number}: {title}", case)

    def attack(self, work, kind):
        def run(number):
            figures, notes = self.stage(kind).withstand(work)
            self.rows.append((number, figures, notes))
            print(f"     {figures}{'; ' if notes else ''}{', '.join(notes)}")
        self.attempt(work, kind, run)

    def run(self):
        for kind in (OPEN, KEYED, CLIPPED, NAMELESS):
            for work, kinds in ATTACKS:
                if kind in kinds:
                    self.attack(work, kind)
            self.end(kind)
        for work in local.ALL:
            self.attempt(work, None, lambda _, work=work: work(self.program, self.folder))

    def end(self, kind):
        if kind in self.stages:
            self.stages.pop(kind).close()

    def close(self):
        for kind in list(self.stages):
            self.end(kind)
        if self.name_server:
            self.name_server.close()


if __name__ == "__main__":
    sys.exit(suite.main(Hostile))
