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
import rule_attacks as rules  # noqa: E402
from stage import Stage  # noqa: E402

OPEN, KEYED = "open", "keyed"
CLIPPED, LOCK_STEP, PUSH_SUM = "clipped", "d-psgd", "push-sum"  # swarms with these rules
NAMELESS = "nameless"  # a swarm whose name server never answers
# Groups of attacks that are possible at the same time, and their swarm. A group that is not withstood is tried again one by one.
GROUPS = [
    (OPEN, [gossip.spoiled_files, gossip.one_address_twice]),
    (OPEN, [gossip.impossible_samples, gossip.forged_departures, gossip.foreign_records, gossip.pinned_vitals, connection.stolen_ids]),
    (OPEN, [connection.silent_crowd, connection.garbage, connection.odd_names]),
    (OPEN, [connection.endless_heads, connection.slow_clients, connection.unread_streams, connection.token_guesses]),
    (OPEN, [gossip.relayed_pings]),
    (OPEN, [gossip.fake_members]),
    (OPEN, [gossip.forged_floods]),
    (OPEN, [data.silent_offers, data.held_offers, data.unread_copies, data.tiny_chunks_are_refused]),
    (OPEN, [data.paths_in_manifests, data.huge_manifests]),
    (KEYED, [connection.silent_crowd, connection.garbage]),
    (KEYED, [gossip.impossible_samples, gossip.forged_departures, connection.stolen_ids]),
    (OPEN, [rules.growing_lies]),
    (OPEN, [rules.exaggerated_samples]),
    (OPEN, [rules.hit_and_run]),
    (LOCK_STEP, [rules.silent_neighbor]),
    (PUSH_SUM, [rules.heavy_parcels]),
    (CLIPPED, [data.flipped_signs]),
    (CLIPPED, [data.flipped_signs_of_many]),
    (NAMELESS, [connection.unresolved_names]),
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
            stage = self.stages[kind] = Stage(self.program, folder, thorough=self.measures, **self.kind(kind, folder))
        return stage

    def kind(self, kind, folder):
        """How the stage of this kind differs from an open one."""
        if kind == KEYED:
            subprocess.run([self.program, "key", "new", f"{folder}/key"], check=True, stdout=subprocess.DEVNULL)
            return {"key": f"{folder}/key"}
        if kind in (CLIPPED, LOCK_STEP, PUSH_SUM):
            return {"flags": ["--rule", kind]}
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

    def name(self, work, kind=OPEN):
        number, title = work.__doc__.split(": ", 1)
        return f"{number}{' key' if kind == KEYED else ''}: {title}"

    def is_wanted(self, name):
        return not self.only or name.split(":")[0] in self.only

    def group(self, kind, works):
        """Each attack is a case."""
        names = {work: self.name(work, kind) for work in works if self.is_wanted(self.name(work, kind))}
        if self.measures or len(names) == 1 or not self.withstands(kind, list(names)):
            for work, name in names.items():
                self.case(name, lambda work=work: self.attack(kind, work))
            return
        for name in names.values():
            self.case(name, lambda: None)

    def withstands(self, kind, works):
        """Whether it withstands all at once."""
        if not works:
            return True
        try:
            stage = self.stage(kind)
            stage.withstand(works)
        except (AssertionError, OSError) as error:
            print(f"   one by one, as all at once are not withstood: {error}")
            return False
        print(f"   {stage.figures}; {'; '.join(stage.notes)}")
        return True

    def attack(self, kind, work):
        try:
            stage = self.stage(kind)
        except local.Skipped as why:
            print(f"     skipped: {why}")
            return
        try:
            stage.withstand([work])
        finally:
            if stage.figures:
                self.rows.append((self.name(work, kind), stage.figures, stage.notes))
        print(f"     {stage.figures}; {'; '.join(stage.notes)}")

    def on_files(self, work):
        try:
            work(self.program, self.folder)
        except local.Skipped as why:
            print(f"     skipped: {why}")

    def run(self):
        for n, (kind, works) in enumerate(GROUPS):
            self.group(kind, works)
            if kind not in [later for later, _ in GROUPS[n + 1:]]:
                self.end(kind)
        for work in [*local.ALL, rules.doubtful_end]:
            if self.is_wanted(self.name(work)):
                self.case(self.name(work), lambda work=work: self.on_files(work))
        if self.measures:
            self.print_table()

    def print_table(self):
        print(f"{'before/s':>8} {'under/s':>8} {'ratio':>6} {'join s':>6} {'MB':>6} {'livez ms':>8} {'log kB/s':>8}  attack; what else was seen")
        for name, f, notes in self.rows:
            print(f"{f.before:8.1f} {f.during:8.1f} {f.ratio:6.2f} {f.joiner:6.1f} {f.growth / 1e6:6.1f} {f.livez * 1e3:8.1f} {f.log / 1e3:8.1f}  "
                  f"{'; '.join([name, *notes])}")

    def end(self, kind):
        if kind in self.stages:
            self.stages.pop(kind).close()

    def close(self):
        for kind in list(self.stages):
            self.end(kind)
        if self.name_server:
            self.name_server.close()


if __name__ == "__main__":
    sys.exit(suite.main(Hostile, suite.memory()))
