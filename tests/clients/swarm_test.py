#!/usr/bin/python3
"""Swarms of real peers with trainers: swarm_test.py PROGRAM [--kills N] [CASE...]

PROGRAM is build/release/starling. CASE: words; only cases whose names contain one of them run. --kills: instants at
which a trainer or its peer is killed (default 40). The last line is "N passed, N failed".
"""
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import HANG, Beats, processes_with, require, seed_of_commit, until  # noqa: E402
from table import table  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(suite.SOURCE, "clients")
EXAMPLES = os.path.join(CLIENTS, "examples")
RETURN_LIMIT = 2  # seconds of Beats, from a kill until the peer trains again
STALL_LIMIT = 2  # seconds of Beats, between two steps of a member that nobody touches
COMMAND = {"Content-Type": "application/json"}  # the header of a POST
sys.path.insert(0, os.path.join(CLIENTS, "python"))


def wait_for(condition, what):
    """Returns the condition's value once it is true."""
    return until(condition, f"it does not come true: {what}", 0.01)


class Process:
    def __init__(self, words, log, **environment):
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **environment})

    def text(self):
        return text_of(self.log)

    def running(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.running():
            self.process.terminate()
        return self.process.wait(HANG)

    def ends_well(self, asked=False):
        """Waits until it has ended with exit code 0; `asked`: because it is asked to."""
        code = self.end() if asked else self.process.wait(HANG)
        require(code == 0, f"{os.path.basename(self.log)} ended with code {code}: {self.text()}")


class Peer(Process):
    """`starling peer` with these flags; `join` is another Peer."""

    def __init__(self, scene, name, *flags, join=None, trainer=True):
        self.socket = os.path.join(scene.folder, name + ".socket")
        self.words = [scene.program, "peer", "--name", name, "--http", "127.0.0.1:0", "--export", "none", *flags]
        if trainer:
            self.words += ["--trainer", self.socket]
        if join:
            self.words += ["--join", join.address]
        super().__init__([*self.words, "--listen", "127.0.0.1:0"], os.path.join(scene.folder, name + ".log"))
        self.http = wait_for(lambda: re.search(r"HTTP at (\S+)", self.text()), f"{name} serves HTTP").group(1)
        require(not trainer or os.path.exists(self.socket), f"{name} serves HTTP but accepts no trainer")

    @property
    def address(self):
        found = wait_for(lambda: re.search(r"listens at (\S+),", self.text()), "the peer listens: " + self.text())
        return found.group(1)

    def fetch(self, method, path, headers=None):
        """The body of a successful answer."""
        host, _, port = self.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=HANG)
        connection.request(method, path, "{}" if method == "POST" else None, headers or {})
        answer = connection.getresponse()
        body = answer.read()
        require(answer.status == 200, f"{path}: {answer.status} {body[:200]}")
        return body

    def ask(self, path):
        """The answer as JSON; None if there is none."""
        try:
            return json.loads(self.fetch("GET", "/api/v1/" + path))
        except (OSError, http.client.HTTPException, AssertionError):
            return None

    def member(self, name):
        """The row of the live member with this name; None if there is none."""
        for row in (self.ask("members") or {}).get("members", []):
            if row["name"] == name and row["condition"] not in ("left", "failed"):
                return row
        return None


class Scene:
    """The folder and the processes of one case."""

    def __init__(self, program, folder):
        self.program, self.folder, self.processes = program, folder, []
        os.makedirs(folder)

    def peer(self, *arguments, **more):
        return self.add(Peer(self, *arguments, **more))

    def run(self, name, *words, **environment):
        words = [str(word) for word in words]
        return self.add(Process(words, os.path.join(self.folder, name + ".log"), OMP_NUM_THREADS="1", **environment,
                                PYTHONPATH=os.path.join(CLIENTS, "python"), PYTHONDONTWRITEBYTECODE="1"))

    def attached(self, name, runner, peer, mode):
        """A trainer that is attached to this peer."""
        trainer = self.run(name, runner, peer.socket, mode)
        wait_for(lambda: "attached" in trainer.text(), f"{name} is attached to {peer.log}")
        return trainer

    def add(self, process):
        self.processes.append(process)
        return process

    def compiled(self, source):
        path = os.path.join(self.folder, os.path.basename(source)[:-2])
        subprocess.run(["gcc", "-std=c11", "-O2", "-I", os.path.join(CLIENTS, "c"), source, "-o", path,
                        "-lm"], check=True)
        return path

    def close(self):
        for process in reversed(self.processes):
            if process.running():
                process.kill()


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def is_free(port):
    """Whether a peer can listen at this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def completed(peer):
    """The exchanges that the peer has completed, begun by itself or by others."""
    counts = (peer.ask("status") or {"exchanges": {"completed": 0, "answered": 0}})["exchanges"]
    return counts["completed"] + counts["answered"]


class Swarms(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        words = sys.argv[2:]
        self.kills = int(words.pop(words.index("--kills") + 1)) if "--kills" in words else 40
        self.program, self.only = program, [word for word in words if word != "--kills"]

    def run(self):
        for work in (self.linear_models_in_c_and_python_train_with_engine_peers, self.sums_are_conserved,
                     self.every_rule_works_with_trainers,
                     self.a_trainer_is_told_of_its_swarm, self.waits_end_with_the_words_of_the_peer,
                     self.a_peer_with_a_trainer_is_shown_and_kept_like_any_other,
                     self.a_trainer_whose_values_are_not_finite_harms_only_itself, self.kills_harm_only_what_is_killed,
                     self.a_trainer_that_began_the_run_survives_its_peer,
                     self.logs_and_errors_name_what_a_trainer_can_do, self.a_peer_that_joins_ends_after_its_trainer,
                     self.a_killed_program_leaves_no_peer_and_no_folder, self.a_killed_program_frees_its_ports,
                     self.pytorch_trains_with_engine_peers):
            name = work.__name__.replace("_", " ")
            if not self.only or any(words in name for words in self.only):
                self.case(name, lambda work=work, name=name: self.staged(work, name))

    def staged(self, work, name):
        scene = Scene(self.program, os.path.join(self.folder, name.replace(" ", "-")[:40]))
        try:
            work(scene)
        except BaseException:
            for process in scene.processes:
                print(f"--- {process.log}\n" + "\n".join(process.text().splitlines()[-12:]))
            raise
        finally:
            scene.close()

    def linear_models_in_c_and_python_train_with_engine_peers(self, scene):
        data = table(os.path.join(scene.folder, "table.csv"))
        in_c = scene.compiled(f"{EXAMPLES}/linear.c")
        first = scene.peer("engine", "--model", "softmax", "--data", data, "--pace", "2ms", "--learning-rate", "0.05",
                           trainer=False)
        joiners = [scene.peer(name, join=first) for name in ("c", "python")]
        trainers = [scene.run("c-trainer", in_c, joiners[0].socket, data, 10**9),
                    scene.run("python-trainer", sys.executable, f"{EXAMPLES}/linear_stdlib.py", joiners[1].socket, data)]
        for peer in [first, *joiners]:
            wait_for(lambda peer=peer: (peer.ask("status") or {"steps": 0})["steps"] > 1000, "a thousand steps")
        for peer in joiners:
            wait_for(lambda peer=peer: completed(peer) >= 100, f"exchanges of {peer.log}")
            print(f"   {os.path.basename(peer.log)}: {completed(peer)} exchanges")
        wait_for(lambda: ((first.ask("status") or {}).get("accuracy") or 0) > 0.9, "the engine's accuracy")
        for peer in [*joiners, first]:
            peer.fetch("POST", "/api/v1/leave", COMMAND)
        for process in trainers + joiners + [first]:
            process.ends_well()
        for process in trainers:
            accuracy = float(re.search(r"accuracy ([\d.]+)", process.text()).group(1))
            require(accuracy > 0.9, process.text())

    def every_rule_works_with_trainers(self, scene):
        runner = scene.compiled(f"{HERE}/runner.c")
        for rule in "pairwise", "push-sum", "d-psgd", "choco", "noloco", "clipped", "parameter-server", "ssp":
            served = rule in ("parameter-server", "ssp")
            names = [*(["s0"] if served else []), "first", "second"]
            peers, trainers = [], []
            for name, mode in zip(names, ("copy", "view", "copy") if served else ("copy", "view")):
                peers.append(scene.peer(name, "--rule", rule) if not peers else scene.peer(name, join=peers[0]))
                trainers.append(scene.run(f"{rule}-{name}", runner, peers[-1].socket, mode))
            for peer in peers[-2:]:
                wait_for(lambda peer=peer: completed(peer) >= 5, f"exchanges by {rule}")
            for process in trainers[-2:] + peers[-2:]:
                if process in trainers:
                    process.process.terminate()
                process.ends_well()
            if served:
                require("this peer is a server" in trainers[0].text(), trainers[0].text())
                trainers[0].kill()
                peers[0].ends_well(asked=True)

    def a_peer_with_a_trainer_is_shown_and_kept_like_any_other(self, scene):
        runner = scene.compiled(f"{HERE}/runner.c")
        kept = os.path.join(scene.folder, "checkpoints")
        flags = ["--checkpoints", kept, "--checkpoint-every", "50 steps", "--resume", kept]
        peer = scene.peer("kept", *flags)
        trainer = scene.run("trainer", runner, peer.socket, "copy")
        wait_for(lambda: any(".100." in name for name in os.listdir(kept)), "a checkpoint of step 100")
        status = peer.ask("status")
        for key, value in {"condition": "training", "device": "C", "model": "target", "epoch_samples": 0}.items():
            require(status[key] == value, f"{key} is {status[key]!r}")
        require(status["steps"] >= 100 and status["loss"] is not None, f"{status}")
        require(f"starling_steps_total {status['steps']}"[:20] in peer.fetch("GET", "/metrics").decode(), "no metrics")
        model = peer.fetch("POST", "/api/v1/model", {"Content-Type": "application/json"})
        head = json.loads(model[8:8 + int.from_bytes(model[:8], "little")])
        require(head["w"]["shape"] == [20000], f"{head}")
        require(json.loads(peer.fetch("GET", "/api/v1/input")) == {"outside": True}, "there is an input")

        peer.fetch("POST", "/api/v1/pause", COMMAND)
        wait_for(lambda: peer.ask("status")["condition"] == "paused", "the peer is paused")
        wait_for(lambda: "its owner paused it" in trainer.text(), "the trainer says why it waits")
        steps = peer.ask("status")["steps"]
        peer.fetch("POST", "/api/v1/resume", COMMAND)
        wait_for(lambda: peer.ask("status")["steps"] > steps + 10, "the peer trains again")

        peer.kill()
        again = scene.peer("kept", *flags)
        wait_for(lambda: (again.ask("status") or {"steps": 0})["steps"] > steps + 10, "the resumed peer trains")
        require("resumes from" in again.text(), again.text())
        trainer.ends_well(asked=True)
        again.ends_well()

    def sums_are_conserved(self, scene):
        """Learning rate 0, four clients that begin with values of their own, 1,000 exchanges."""
        import array
        import starling
        for mode in "copy", "view":
            peers = [scene.peer(f"{mode}0", "--every", "1 steps")]
            clients, total = [], 0.0
            for i in range(4):
                if i:
                    peers.append(scene.peer(f"{mode}{i}", join=peers[0]))
                params = {"w": array.array("f", [0.0]) * 10000}
                clients.append(starling.attach(params, socket=peers[i].socket, mode=mode, model_name="sum"))
            wait_for(lambda: len((peers[0].ask("members") or {"members": []})["members"]) == 4, "four members")
            chance = random.Random(mode)
            for client in clients:  # a step by which the four differ
                w = client.params["w"]
                for k in range(len(w)):
                    step = chance.uniform(0.5, 1.5)
                    before, w[k] = w[k], w[k] + step
                    total += w[k] - before
            counts = [0] * 4
            while min(counts) < 250:
                for i, client in enumerate(clients):
                    client.exchange(samples=1)
                    counts[i] = client.progress.exchanges
            threads = [threading.Thread(target=client.close) for client in clients]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(HANG)
            found = sum(sum(client.params["w"]) for client in clients)
            print(f"   {mode}: {sum(counts)} exchanges, the sum changes by {abs(found / total - 1):.1e} of itself")
            require(abs(found / total - 1) < 1e-6, f"{mode}: {found} instead of {total}")

    def a_trainer_is_told_of_its_swarm(self, scene):
        """Without HTTP. One that makes no steps begins no exchange, and counts those that the other one begins."""
        import array
        import starling
        first = scene.peer("first", "--every", "2 steps")
        runner = scene.attached("runner", scene.compiled(f"{HERE}/runner.c"), first, "copy")
        events, counts = [], {"mixed": 0, "missed": 0}

        def note(event):
            if event.kind in counts:
                counts[event.kind] += 1 if event.kind == "mixed" else int(event.text)
                require(event.name in ("first", None), f"{event}")
            else:
                events.append(event)

        def until_told(condition, what):
            wait_for(lambda: peer.exchange(samples=1) and condition(), what)
        params = {"w": array.array("f", [0.0]) * 20000}
        with starling.gossip(params, program=self.program, join=first.address, name="quiet", model_name="target", partners=1,
                             log=os.path.join(scene.folder, "quiet.log"), on_event=note) as peer:
            require(peer.progress.members == 2, f"{peer.progress}")
            wait_for(lambda: peer.progress.exchanges >= 20, "twenty answers are counted")
            require(not events and not counts["mixed"], "events without a step")
            until_told(lambda: counts["mixed"] >= 20, "twenty exchanges")
            require(events == [("joined", "first", "")], f"{events}")
            rows = {row["name"]: row for row in peer.members()}
            require(set(rows) == {"first", "quiet"} and rows["quiet"]["this_peer"], f"{rows}")
            require(rows["first"]["condition"] == "training" and rows["first"]["steps"] > 0, f"{rows}")
            runner.kill()
            first.kill()
            until_told(lambda: len(events) > 1, "the loss of the first")
            require(events[1] == ("lost", "first", "failed"), f"{events}")
            print(f"   {peer.progress.exchanges} exchanges, of which {counts['missed']} were not told one by one")
            require(sum(counts.values()) == peer.progress.exchanges, f"{counts}, {peer.progress}")
            require({row["name"]: row["condition"] for row in peer.members()}["first"] == "failed", f"{peer.members()}")

    def waits_end_with_the_words_of_the_peer(self, scene):
        import array
        import starling
        params = {"w": array.array("f", [0.0]) * 100}

        def fails(words, **more):
            try:
                starling.gossip(params, program=self.program, log=os.path.join(scene.folder, "log"), wait=2, **more).close()
            except starling.Error as error:
                require(re.search(words, str(error)), str(error))
                return
            raise AssertionError(f"no error with {words}")
        fails(r"training could not begin within 2 s, .*cannot reach 127\.0\.0\.1:1", join="127.0.0.1:1")
        fails(r"1 partners did not come within 2 s, .*: 0 live", listen="127.0.0.1:0", partners=1)
        fails(r"training could not begin within 2 s, .*1 of 2 peers that begin together", listen="127.0.0.1:0", expect=2)
        peer = scene.peer("paused")
        with starling.attach(params, socket=peer.socket, wait=2) as client:
            client.exchange(samples=1)
            peer.fetch("POST", "/api/v1/pause", COMMAND)
            try:
                wait_for(lambda: client.exchange(samples=1) is None, "a pause")
                raise AssertionError("the pause has no end")
            except starling.Error as error:
                require("no further step within 2 s" in str(error) and "its owner paused it" in str(error), str(error))
            peer.fetch("POST", "/api/v1/resume", COMMAND)
            client.exchange(samples=1)
        peer.ends_well()

    def a_trainer_whose_values_are_not_finite_harms_only_itself(self, scene):
        import array
        import starling
        runner = scene.compiled(f"{HERE}/runner.c")
        first = scene.peer("first", "--every", "20ms")
        bystander = scene.attached("bystander", runner, first, "copy")
        second = scene.peer("second", join=first)
        params = {"w": array.array("f", [0.0]) * 20000}
        with starling.attach(params, socket=second.socket, model_name="target") as client:
            w = client.params["w"]
            for bad in (float("nan"), float("inf"), 3e38):
                eras = client.taken
                for k in range(0, len(w), 7):
                    w[k] = bad
                def good():
                    client.exchange(samples=1)
                    return all(abs(value) < 1000 for value in w)
                until(good, f"{bad} stays", 0)
                require(client.taken > eras, "nothing was taken")
        require(bystander.running(), f"the bystander ended with code {bystander.process.poll()}")
        bystander.ends_well(asked=True)

    def kills_harm_only_what_is_killed(self, scene):
        runner = scene.compiled(f"{HERE}/runner.c")
        first = scene.peer("first", "--every", "20ms")
        bystander = scene.attached("bystander", runner, first, "copy")
        slowest = {"trainer": 0.0, "peer": 0.0}
        with Beats() as beats:
            watch = Watch(first, beats)
            for mode in "copy", "view":
                self.kill_often(scene, first, runner, mode, slowest, beats)
            stall = watch.end()
        print(f"   {self.kills} kills: back after at most {slowest['trainer']:.2f} s (trainer) and {slowest['peer']:.2f} s "
              f"(peer); the others made steps at least every {stall:.2f} s")
        require(max(slowest.values()) < RETURN_LIMIT, f"{slowest}")
        require(stall < STALL_LIMIT, f"the bystander made no step for {stall:.2f} s")
        bystander.ends_well(asked=True)

    def kill_often(self, scene, first, runner, mode, slowest, beats):
        """Half of the kills, of a peer whose trainer has this mode, or of that trainer. Exit code 3 of a trainer means
        that a parameter was not finite."""
        name = f"victim-{mode}"
        flags = ["--state", os.path.join(scene.folder, name)]
        peer = scene.peer(name, *flags, join=first)
        trainer = scene.run("trainer", runner, peer.socket, mode)
        chance = random.Random(f"{mode} {seed_of_commit()}")

        def steps_of(one):
            return (one.ask("status") or {"steps": 0})["steps"]

        def trains():
            return (first.member(name) or {"condition": ""})["condition"] == "training"
        wait_for(trains, f"{name} trains")
        for kill in range(self.kills // 2):
            time.sleep(chance.uniform(0, 0.1))  # the instant
            victim = chance.choice(["trainer", "peer"])
            began = beats.passed()
            if victim == "trainer":
                trainer.kill()
                before = steps_of(peer)
                trainer = scene.run("trainer", runner, peer.socket, mode)
            else:
                peer.kill()
                before = 0
                peer = scene.peer(name, *flags, join=first)
            try:
                wait_for(lambda: "attached" in trainer.text() and steps_of(peer) > before and trains(),
                         f"{name} trains after kill {kill} of the {victim}")
            except AssertionError as error:
                raise AssertionError(f"{error}; {before} steps before, now {peer.ask('status')}; seen as {first.member(name)}\n"
                                     + "".join(f"{one.log}: {one.text()[-1500:]}\n" for one in (peer, trainer))) from None
            slowest[victim] = max(slowest[victim], beats.passed() - began)
            require(trainer.running(), f"the trainer ended with code {trainer.process.poll()} after kill {kill}")
        trainer.ends_well(asked=True)

    def a_trainer_that_began_the_run_survives_its_peer(self, scene):
        import array
        import starling
        os.environ["STARLING_PROGRAM"] = self.program
        log = os.path.join(scene.folder, "log")
        params = {"w": array.array("f", [0.0]) * 100}
        with starling.gossip(params, listen="127.0.0.1:0", log=log, epoch=1000) as client:
            for _ in range(3):
                process, made = client._daemon.process, client._samples
                for _ in range(20):
                    client.exchange(samples=1)
                def is_back():
                    client.exchange(samples=1)
                    return client._daemon.process is not process and client._live
                with Beats() as beats:
                    process.kill()
                    process.wait()
                    took = beats.until(is_back, "the trainer is not attached again", RETURN_LIMIT)
                print(f"   attached again after {took:.2f} s")
                require(client.progress.samples >= made and client.progress.epochs >= made / 1000, f"it forgot: {client.progress}")

    def logs_and_errors_name_what_a_trainer_can_do(self, scene):
        import array
        import starling
        first = scene.peer("first")
        with starling.attach({"w": array.array("f", [0.0]) * 100}, socket=first.socket) as client:
            client.exchange(samples=1)
            engine = scene.peer("engine", join=first, trainer=False)
            require(engine.process.wait(HANG) == 2, engine.text())
            require("of another program: join with starling.gossip(join=...)" in engine.text(), engine.text())
            other = scene.peer("other", join=first)
            try:
                starling.attach({"v": array.array("f", [0.0]) * 7}, socket=other.socket)
                raise AssertionError("another network joins")
            except starling.Error as error:
                require(str(error).startswith("the peer ended before the first step: the swarm trains the model"), error)
        first.ends_well()
        text = first.text()
        require(f'others join with: join="{first.address}" in starling.gossip' in text, text)
        require("this peer leaves when its trainer has ended" in text, text)
        require("not kept" not in text and "Ctrl-C" not in text, text)
        require(re.search(r"info\S* .*the trainer has made its last step", text), text)

    def a_peer_that_joins_ends_after_its_trainer(self, scene):
        runner = scene.compiled(f"{HERE}/runner.c")
        peer = scene.peer("alone", "--join", "127.0.0.1:1", "--trainer-grace", "200ms")
        trainer = scene.run("trainer", runner, peer.socket, "copy")
        wait_for(lambda: "127.0.0.1:1" in peer.text(), "the peer tries to join")
        trainer.kill()
        peer.ends_well()
        require("no trainer has attached for" in peer.text(), peer.text())

    def a_killed_program_leaves_no_peer_and_no_folder(self, scene):
        """Killed as soon as its peer runs, while the peer looks for its swarm, and between two steps."""
        first = scene.peer("first")
        runner = scene.run("trainer", scene.compiled(f"{HERE}/runner.c"), first.socket, "copy")
        common = "import array, os, signal, sys, starling\nfrom starling.daemon import Daemon\n"
        die = "os.kill(os.getpid(), signal.SIGKILL)\n"
        peer = "starling.gossip({'w': array.array('f', [0.0]) * 20000}, join=sys.argv[1], name='killed', log=sys.argv[2])\n"
        step = "peer.exchange(samples=1)\n"
        for moment, join, program in (
                ("start", first.address, "Daemon(None, {'listen': 'none', 'join': sys.argv[1]}, sys.argv[2])\n" + die),
                ("join", "127.0.0.1:1", peer),
                ("train", first.address, f"peer = {peer}while peer.progress.exchanges < 3:\n    {step}{die}")):
            temporary, log = os.path.join(scene.folder, moment), os.path.join(scene.folder, moment + "-peer.log")
            os.mkdir(temporary)
            killed = scene.run(moment, sys.executable, "-c", common + program, join, log, TMPDIR=temporary,
                               STARLING_PROGRAM=self.program)
            if moment == "join":
                wait_for(lambda log=log: os.path.exists(log) and "cannot reach" in text_of(log), "the peer looks for a swarm")
                killed.kill()
            require(killed.process.wait(HANG) == -signal.SIGKILL, killed.text())
            wait_for(lambda temporary=temporary: not os.listdir(temporary), f"{moment}: the folder is gone")
            wait_for(lambda temporary=temporary: not processes_with(temporary), f"{moment}: the peer is gone")
        rows = first.ask("members")["members"]
        require([row["condition"] for row in rows if row["name"] == "killed"] == ["left"], rows)
        require(runner.running(), runner.text())

    def a_killed_program_frees_its_ports(self, scene):
        """Alone, and while it exchanges with a partner: the next program begins at the same ports."""
        program = ("import array, sys, starling\n"
                   "peer = starling.gossip({'w': array.array('f', [0.0]) * 20000}, model_name='target', log=sys.argv[1],\n"
                   "                       listen=sys.argv[2], http=sys.argv[3], join=sys.argv[4:] or None)\n"
                   "print('begun', flush=True)\nwhile True:\n    peer.exchange(samples=1)\n")
        first = scene.peer("first", "--every", "2 steps")
        scene.attached("runner", scene.compiled(f"{HERE}/runner.c"), first, "copy")
        with Beats() as beats:
            slowest = 0.0
            for join in [], [first.address]:
                ports = [free_port(), free_port()]
                for life in range(4):
                    name = f"life{life}{len(join)}"
                    killed = scene.run(name, sys.executable, "-c", program, os.path.join(scene.folder, name + "-peer.log"),
                                       *(f"127.0.0.1:{port}" for port in ports), *join, STARLING_PROGRAM=self.program)
                    wait_for(lambda killed=killed: "begun" in killed.text() or not killed.running(), f"{name} begins")
                    require(killed.running(), killed.text())
                    require(not any(map(is_free, ports)), "a port is not used")
                    killed.kill()
                    slowest = max(slowest, beats.until(lambda ports=ports: all(map(is_free, ports)), "the ports are taken",
                                                       RETURN_LIMIT))
        print(f"   the ports were free after at most {slowest:.2f} s")

    def pytorch_trains_with_engine_peers(self, scene):
        """Two peers with our engine and two with PyTorch train one LeNet, whose tensors have the same names."""
        try:
            import torch  # noqa: F401
        except ImportError:
            print("   skipped: PyTorch is not installed")
            return
        data = os.environ.get("STARLING_DATA", os.path.join(suite.SOURCE, "..", "shared", "data"))
        if not os.path.exists(os.path.join(data, "mnist", "t10k-images-idx3-ubyte.gz")):
            print("   skipped: there is no MNIST")
            return
        os.environ["STARLING_DATA"] = data
        peers = [scene.peer("torch0", "--epochs", "1")]
        trainers = []
        for i in range(2):
            if i:
                peers.append(scene.peer("torch1", join=peers[0]))
            trainers.append(scene.run(f"torch{i}-trainer", sys.executable, f"{EXAMPLES}/mnist_gossip.py", "--data",
                                      os.path.join(data, "mnist"), STARLING_SOCKET=peers[i].socket))
            wait_for(lambda i=i: (peers[0].member(f"torch{i}") or {"steps": 0})["steps"], f"torch{i} trains")
        peers += [scene.peer(f"engine{i}", "--slot", f"{i}/4", join=peers[0], trainer=False) for i in (2, 3)]
        for process in [*peers, *trainers]:
            require(process.process.wait(1000) == 0, process.text())
        found = re.findall(r"accuracy ([\d.]+)\s?%", "".join(process.text() for process in [*peers, *trainers]))
        print(f"   accuracies {', '.join(found)}")
        require(len(found) == 4 and min(map(float, found)) > 95, f"{found}")


class Watch:
    """Measures the longest time without a step of the peer that it asks, on a thread of its own."""

    def __init__(self, peer, beats):
        self.peer, self.beats, self.longest, self.over = peer, beats, 0.0, False
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        steps, since = 0, self.beats.passed()
        while not self.over:
            status = self.peer.ask("status")
            if status and status["steps"] != steps:
                steps, since = status["steps"], self.beats.passed()
            self.longest = max(self.longest, self.beats.passed() - since)
            time.sleep(0.02)

    def end(self):
        self.over = True
        self.thread.join()
        return self.longest


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(suite.main(Swarms, suite.memory()))
