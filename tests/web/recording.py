"""A simulated run as the stream of events that a peer's live page follows (docs/API.md), and a server that plays it."""

import http.server
import json
import os
import random
import subprocess
import threading

os.environ.setdefault("STARLING_EXPORT", "none")  # peers leave no models

SUSPECT_AFTER, FAILED_AFTER = 1.0, 4.0  # virtual seconds of silence


class Recording:
    """The events that p0 would have sent, from the output folder of `starling simulate`. `frames` has one state per second."""

    def __init__(self, program, folder, epoch_samples, http=None):
        lines = lambda name: [json.loads(line) for line in open(os.path.join(folder, name))]
        self.summary = json.load(open(os.path.join(folder, "summary.json")))
        self.names = sorted(peer["name"] for peer in self.summary["per_peer"])
        self.ids = {name: f"{random.Random(name).getrandbits(64):016x}" for name in self.names}
        self.http, self.epoch_samples = http, epoch_samples
        self.looks, self.mean = {name: [] for name in self.names}, []
        for line in lines("metrics.jsonl"):
            (self.mean if line["peer"] == "mean" else self.looks[line["peer"]]).append(line)
        self.cells = {name: [] for name in self.names}
        for line in lines("timeline.jsonl"):
            self.cells[line["peer"]].append(line)
        self.program, self.graphs = program, {}
        # A peer is silent after it was last alive.
        end = self.mean[-1]["seconds"]
        self.silent = {}
        for name, cells in self.cells.items():
            alive = [cell["to"] for cell in cells if cell["stopped"] < 0.99]
            if alive and alive[-1] < end - 2 * FAILED_AFTER:
                self.silent[name] = alive[-1]
        self.partners, self.done = {}, {}
        self.chance = random.Random(7)
        self.frames, self.happenings, self.topologies = [], [], []
        self.say(0.0, "info", "joined", None, f"{len(self.names)} members train")
        states = {}
        for second in range(int(end)):
            living = [name for name in self.names if self.state_of(name, second) != "failed"]
            graph = self.graph(len(living))
            topology = {**graph, "members": [self.ids[name] for name in living]}
            self.near = {name: [] for name in self.names}
            for a, b in graph["edges"]:
                self.near[living[a]].append(living[b])
                self.near[living[b]].append(living[a])
            frame = self.frame(float(second))
            for member in frame["members"]:
                before, now = states.get(member["name"], "alive"), member["state"]
                if now != before:
                    self.say(second, "warning", "suspected" if now == "suspect" else now, member["id"],
                             f"{member['name']} at {member['address']} " + ("is suspected" if now == "suspect" else now))
                states[member["name"]] = now
            self.frames.append(frame)
            self.topologies.append(topology)
        self.frames = [dict(frame, happened=[e for e in self.happenings if e["seconds"] <= frame["seconds"]])
                       for frame in self.frames]

    def say(self, seconds, level, what, peer, text):
        self.happenings.append({"number": len(self.happenings) + 1, "seconds": seconds, "level": level, "what": what,
                                "time": f"2026-03-01T12:{int(seconds) // 60:02}:{int(seconds) % 60:02}.000Z", "peer": peer,
                                "text": text})

    @staticmethod
    def between(looks, second, key):
        """Linear interpolation between the evaluations before and after."""
        before = {"seconds": 0, key: 0 if key not in ("loss",) else looks[0][key]}
        for look in looks:
            if look["seconds"] >= second:
                if look[key] is None or before[key] is None:
                    return look[key]
                part = (second - before["seconds"]) / max(1e-9, look["seconds"] - before["seconds"])
                return before[key] + part * (look[key] - before[key])
            before = look
        return before[key]

    def speed(self, name, second):
        """Samples per second over the last ten seconds."""
        steps, over = 0.0, 0.0
        for cell in self.cells[name]:
            overlap = min(cell["to"], second) - max(cell["from"], second - 10)
            if overlap > 0 and cell["to"] > cell["from"]:
                steps += cell["steps"] * overlap / (cell["to"] - cell["from"])
                over += overlap
        return 64 * steps / over if over > 1 else None

    def graph(self, peers):
        if peers not in self.graphs:
            show = [self.program, "topology", "show", self.summary["topology"], "--peers", str(peers)]
            shown = lambda form: subprocess.run([*show, "--format", form], capture_output=True, text=True, check=True).stdout
            analysis = json.loads(shown("json"))
            bound = peers > 64  # like a peer
            contraction = analysis["consensus_bound" if bound else "consensus_factor"]
            words = f"An exchange leaves {'at most ' if bound else ''}{contraction:.4g} of the squared disagreement{'; that is a bound' if bound else ''}."
            self.graphs[peers] = {
                "topology": self.summary["topology"], "spectral_gap": analysis["spectral_gap"],
                "contraction": contraction, "contraction_is_bound": bound,
                "prediction": {"by": "exchange", "factor": contraction, "is_bound": bound, "steps": 1, "words": words},
                "edges": [[int(word) for word in line.split()[:2]] for line in shown("edges").splitlines()]}
        return self.graphs[peers]

    def state_of(self, name, second):
        silence = second - self.silent.get(name, second)
        return "alive" if silence < SUSPECT_AFTER else "suspect" if silence < FAILED_AFTER else "failed"

    def frame(self, second):
        states = {name: self.state_of(name, second) for name in self.names}
        speeds = {name: self.speed(name, second) for name in self.names}
        told = sorted(v for v in speeds.values() if v)
        median = told[len(told) // 2] if told else None
        members = []
        for name in self.names:
            looks, silent = self.looks[name], min(second, self.silent.get(name, second))
            exchanges = int(self.between(looks, silent, "exchanges"))
            if self.done.get(name, 0) != exchanges and states[name] == "alive":
                self.done[name] = exchanges
                self.partners[name] = self.chance.choice(self.near[name])
            partner = self.partners.get(name)
            number = int(name[1:])
            members.append({
                "name": name, "id": self.ids[name], "address": f"127.0.0.1:{20000 + number}", "incarnation": 0,
                "http": self.http if number % 2 == 0 else None, "state": states[name], "phase": "training",
                "condition": "training" if states[name] == "alive" else states[name], "earlier_life": False,
                "device": "cpu" if number % 5 else "cuda:0", "samples": round(self.between(looks, silent, "samples")),
                "steps": round(self.between(looks, silent, "steps")), "samples_per_second": speeds[name],
                "slowdown": median / speeds[name] if median and speeds[name] else None,
                "loss": self.between(looks, silent, "loss") if second >= 2 else None,
                "distance": self.distance(second), "staleness": round(self.chance.random() * 2, 2) if second >= 4 else None,
                "partner": self.ids[partner] if partner else None,
                "exchanging": name == self.partners.get("p0") and second % 2 == 1,
                "last_heard_seconds": None if name == "p0" else round(second - silent + self.chance.random(), 2),
                "round_trip_seconds": None if name == "p0" else 0.0004, "this_peer": name == "p0"})
        own = members[0]
        own["slowdown"] = own["slowdown"] and round(own["slowdown"], 3)
        exchanges = int(self.between(self.looks["p0"], second, "exchanges")) // 2  # the other half was begun by partners
        swarm_samples = round(self.between(self.mean, second, "samples"))
        accuracy = self.between(self.mean, second, "accuracy") if second > 4 else None
        refused = {"not_finite": 3, "too_far": 1} if second > 20 else {}
        status = {
            "name": "p0", "id": self.ids["p0"], "swarm": self.summary["name"], "address": own["address"], "version": "0.3.0",
            "model": self.summary["model"], "data": self.summary["data"], "topology": self.summary["topology"],
            "device": own["device"], "rule": self.summary["rule"], "payload": self.summary["payload"], "phase": "training",
            "condition": "training", "situation": "This peer trains. All members keep up.", "paused": False, "steps": own["steps"], "samples": own["samples"], "swarm_samples": swarm_samples,
            "epoch_samples": self.epoch_samples, "samples_per_second": own["samples_per_second"], "loss": own["loss"],
            "learning_rate": 0.05, "accuracy": accuracy, "accuracy_steps": own["steps"], "distance": own["distance"],
            "staleness": own["staleness"], "device_spread": None, "uptime_seconds": second, "incarnation": 0,
            "members_live": sum(state != "failed" for state in states.values()), "members_known": len(members),
            "exchanges": {"begun": exchanges, "completed": exchanges, "aborted": 1, "rejected": exchanges // 9,
                          "answered": exchanges, "half_applied_chunks": 0, "chunks_refused": refused,
                          "chunks_overlapped": exchanges // 7, "chunks_clipped": 0, "lost_weight": 0.0},
            "connections_refused": {"wrong_swarm": 2} if second > 10 else {}, "bytes_sent": 31400 * exchanges,
            "bytes_received": 31200 * exchanges, "links_open": min(9, len(members) - 1), "bulk_links_open": 1,
            "memory_bytes": 43 << 20, "loop_lag_seconds": 0.00021}
        point = {"seconds": second, "steps": own["steps"], "swarm_samples": swarm_samples, "exchanges": exchanges,
                 "loss": own["loss"], "accuracy": accuracy, "distance": own["distance"],
                 "samples_per_second": sum(v for name, v in speeds.items() if v and states[name] == "alive") or None}
        return {"seconds": second, "status": status, "members": members, "point": point}

    def distance(self, second):
        value = self.between(self.mean, second, "consensus_distance")
        return value * 2 ** 0.5 if value and second >= 4 else None


class Player:
    """A server on loopback whose `/` is the page and whose stream sends the frames up to `position`, which the test advances.
    `cut()` closes connections and ignores new ones until `mend()`. While `loading` it has no stream yet, like a peer that
    has just started."""

    def __init__(self, page):
        self.page, self.recording, self.position = page, None, 0
        self.changed = threading.Condition()
        self.open, self.streams, self.refuses, self.asked = True, 0, None, []
        self.loading, self.refused = False, 0  # and how many requests were refused meanwhile
        self.token, self.tokens = None, []  # required in a POST, as from another machine; received tokens
        player = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, kind, body):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                try:
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the page is closed

            def do_GET(self):
                if self.path == "/":
                    self.answer(200, "text/html; charset=utf-8", player.page)
                elif not player.open:
                    self.close_connection = True
                elif self.path == "/api/v1/live" and player.loading:
                    player.refused += 1
                    self.answer(503, "application/json", b'{"error": "the peer is still loading its data"}')
                elif self.path == "/api/v1/input":
                    self.answer(200, "application/json", b'{"shape": [1, 28, 28], "pixels": true, "classes": 10}')
                elif self.path == "/api/v1/live":
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.send_header("Cache-Control", "no-store")
                    self.end_headers()
                    try:
                        player.play(self.wfile)
                    except OSError:
                        pass  # the page is closed
                else:
                    self.answer(503, "application/json", b'{"error": "not now"}')

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                player.asked.append((self.path, self.headers["Content-Type"], body))
                player.tokens.append(self.headers["Authorization"])
                if player.token and self.headers["Authorization"] != f"Bearer {player.token}":
                    self.answer(401, "application/json", b'{"error": "commands from another machine need the peer\'s token"}')
                elif player.refuses:
                    self.answer(403, "application/json", json.dumps({"error": player.refuses}).encode())
                else:
                    self.answer(200, "application/json", b"{}")

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.cut()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def show(self, recording, position):
        """Plays this recording from `position` on, for later connections."""
        with self.changed:
            self.recording, self.position = recording, position

    def advance(self, frames=1):
        with self.changed:
            self.position = min(self.position + frames, len(self.recording.frames) - 1)
            self.changed.notify_all()

    def cut(self):
        with self.changed:
            self.open = False
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.streams == 0, timeout=10)

    def mend(self):
        with self.changed:
            self.open = True

    def play(self, out):
        def event(name, value):
            out.write(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())
            out.flush()

        with self.changed:
            self.streams += 1
            recording, at = self.recording, self.position
        try:
            told = 0
            event("history", {"points": [frame["point"] for frame in recording.frames[:at]]})
            topology = recording.topologies[at]
            event("topology", topology)
            while True:
                frame = dict(recording.frames[at])
                if recording.topologies[at] != topology:
                    topology = recording.topologies[at]
                    event("topology", topology)
                happened = frame.pop("happened")
                if told == 0 or len(happened) > told:
                    event("events", {"events": happened[told:][-256:]})
                told = max(1, len(happened))
                event("state", frame)
                with self.changed:
                    while self.open and self.position <= at and recording is self.recording:
                        self.changed.wait(timeout=1)
                        out.write(b": still here\n\n")  # detects closed connections
                        out.flush()
                    if not self.open or recording is not self.recording:
                        return
                    at += 1
        finally:
            with self.changed:
                self.streams -= 1
                self.changed.notify_all()
