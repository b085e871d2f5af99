#!/usr/bin/env python3
"""A real Prometheus scrapes a real swarm: checks that /metrics is valid for promtool and agrees with the peers' status, and that
scripts/deploy/prometheus works. prometheus_test.py PROGRAM; the last line is "N passed, N failed"."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import HANG, SOURCE, require, until  # noqa: E402

os.environ.setdefault("STARLING_EXPORT", "none")  # peers leave no models

DEPLOY = f"{SOURCE}/scripts/deploy/prometheus"
PACE, BATCH = 0.020, 64  # of every peer: PACE is the minimum time of a step
TOKEN = "only-for-this-test-0123456789"

# Prometheus' conventions use seconds, bytes and ratios instead of these.
FOREIGN_UNITS = {"ms", "milliseconds", "millis", "us", "microseconds", "ns", "nanoseconds", "minutes", "hours", "days", "percent",
                 "bits", "kb", "kilobytes", "mb", "megabytes", "mib", "gb", "gigabytes"}
# The allowed label values; the labels of starling_info, a single series, can have any value.
BOUNDED = {"phase": {"joining", "training", "settling", "finished"},
           "outcome": {"completed", "aborted", "rejected", "answered", "opened", "refused"},
           "direction": {"sent", "received"},
           "purpose": {"control", "bulk"},
           "stage": {"1", "2"},
           "state": {"alive", "suspect", "failed", "left", "quarantined"},
           "reason": {"shape", "weight", "sequence", "late", "not_finite", "too_large", "far_off", "own_replica", "closed",
                      "closed by peer", "broken", "unreachable", "timed out", "bad magic", "bad version", "bad checksum", "oversize",
                      "malformed", "wrong swarm", "same peer", "refused", "wrong key", "no key", "busy", "over limit",
                      "false identity", "not allowed", "other peer"}}
INFO = {"name", "swarm", "version", "model", "data", "topology", "rule", "device"}


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=HANG)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    finally:
        connection.close()


def series_of(text):
    """Parses the text format: (name, labels as a tuple of pairs) -> value, and the HELP and TYPE texts."""
    series, helps, types = {}, {}, {}
    for line in text.splitlines():
        if found := re.fullmatch(r"# HELP (\S+) (.+)", line):
            helps[found[1]] = found[2]
        elif found := re.fullmatch(r"# TYPE (\S+) (\S+)", line):
            types[found[1]] = found[2]
        else:
            found = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
            require(found, f"invalid line: {line}")
            labels = tuple(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', found[2] or ""))
            require((found[1], labels) not in series, f"duplicate series: {line}")
            series[found[1], labels] = float(found[3])
    return series, helps, types


class Peer:
    """A peer process and the ports that it chose."""

    def __init__(self, program, folder, name, *flags):
        self.name, self.path = name, f"{folder}/{name}.log"
        with open(self.path, "w") as log:
            self.process = subprocess.Popen([program, "peer", "--name", name, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *flags],
                                            stdout=log, stderr=log)
        try:
            self.http = self.told(r"HTTP at (127\.0\.0\.1:\d+)")
            self.gossip = self.told(rf"{name} listens at (127\.0\.0\.1:\d+)")
        except BaseException:
            self.end()
            raise

    def log(self):
        return open(self.path).read()

    def told(self, pattern):
        def look():
            found = re.search(pattern, self.log())
            require(found or self.process.poll() is None, f"{self.name} ended: {self.log()}")
            return found and found[1]
        return until(look, lambda: f"{self.name} does not say {pattern}: {self.log()}")

    def metrics(self):
        status, kind, text = get(self.http, "/metrics")
        require(status == 200 and kind.startswith("text/plain; version=0.0.4"), f"{self.name}: {status} {kind} {text}")
        return text

    def status(self):
        return json.loads(get(self.http, "/api/v1/status")[2])

    def end(self):
        self.process.kill()
        self.process.wait()


class Prometheus:
    """Prometheus with the configuration of scripts/deploy/prometheus, other targets, and a scrape interval of a second."""

    def __init__(self, folder, targets):
        self.path = f"{folder}/prometheus.log"
        place = f"{folder}/prometheus"
        shutil.copytree(DEPLOY, place)
        config = open(f"{place}/prometheus.yml").read()
        for pattern, words in ((r"^( *- targets:).*$", rf"\1 {json.dumps(targets)}"), (r"^( *scrape_interval:).*$", r"\1 1s"),
                               (r"^( *evaluation_interval:).*$", r"\1 1s")):
            config, changed = re.subn(pattern, words, config, flags=re.MULTILINE)
            require(changed == 1, f"{pattern} occurs {changed} times")
        with open(f"{place}/prometheus.yml", "w") as file:
            file.write(config)
        for _ in range(3):  # the port may be taken meanwhile
            with socket.socket() as it:
                it.bind(("127.0.0.1", 0))
                self.address = f"127.0.0.1:{it.getsockname()[1]}"
            with open(self.path, "w") as log:
                self.process = subprocess.Popen(["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                                                 f"--web.listen-address={self.address}"], stdout=log, stderr=log)
            if self.ready():
                return
            self.end()
        raise AssertionError(f"prometheus does not run: {open(self.path).read()}")

    def ready(self):
        def ready_or_ended():
            with contextlib.suppress(OSError, http.client.HTTPException):
                if get(self.address, "/-/ready")[0] == 200:
                    return "ready"
            return self.process.poll() is not None and "ended"
        return until(ready_or_ended, "prometheus does not answer") == "ready"

    def api(self, path, **more):
        status, _, text = get(self.address, f"/api/v1/{path}?{urllib.parse.urlencode(more)}")
        answer = json.loads(text)
        require(status == 200 and answer["status"] == "success", f"{path} {more}: {text}")
        return answer["data"]

    def ask(self, query):
        """The result of a PromQL query with one sample per instance: instance -> value ('' without an instance)."""
        result = self.api("query", query=query)["result"]
        values = {sample["metric"].get("instance", ""): float(sample["value"][1]) for sample in result}
        require(len(values) == len(result), f"{query}: {result}")
        return values

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=HANG)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Scraped(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program

    # ---- without Prometheus ----
    def is_sound(self, peer):
        text = peer.metrics()
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=HANG)
        require(done.returncode == 0 and not done.stdout + done.stderr, f"promtool: {done.returncode} {done.stdout}{done.stderr}")
        series, helps, types = series_of(text)
        require(len(series) > 50, f"only {len(series)} series")
        documented = set(re.findall(r"`((?:starling|process)_[a-z_]+)`", open(f"{SOURCE}/docs/API.md").read()))
        for (name, labels), value in series.items():
            require(helps.get(name) and types.get(name) in ("counter", "gauge"), f"{name} has no help or type")
            require((types[name] == "counter") == name.endswith("_total"), f"{name} is a {types[name]}")
            require(types[name] == "gauge" or value >= 0, f"{name} is {value}")
            require(not FOREIGN_UNITS & set(name.split("_")), f"{name} is not in base units")
            require(name in documented, f"{name} is not in docs/API.md")
            for label, value in labels:
                require(label in INFO if name == "starling_info" else value in BOUNDED.get(label, ()), f"{name} has {label}={value}")
        require(TOKEN not in text, "the token is exposed")
        return series

    def joiner_is_sound(self):
        """A peer whose --join address does not answer."""
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # bound, but not listening
            peer = Peer(self.program, self.folder, "early", "--data", "glyphs", "--join", f"127.0.0.1:{nobody.getsockname()[1]}")
            try:
                series = self.is_sound(peer)
                require(series["starling_phase", (("phase", "joining"),)] == 1, "it is not joining")
                require(series["starling_steps_total", ()] == 0 and ("starling_loss", ()) not in series, "it has trained already")
                self.early = set(name for name in series if name[0] != "starling_info")
            finally:
                peer.end()

    def trainers_are_sound(self):
        until(lambda: all(peer.status()["steps"] > 0 and peer.status()["members_live"] == 3 for peer in self.peers), "three peers do not train")
        until(lambda: all(peer.status()["exchanges"]["completed"] > 0 for peer in self.peers), "nobody exchanges")
        for peer in self.peers:
            series = self.is_sound(peer)
            fixed = set(name for name in series if name[0] != "starling_info")
            require(self.early <= fixed, f"gone: {self.early - fixed}")
            later = {name for name, _ in fixed - self.early}
            require(later <= {"starling_loss", "starling_learning_rate", "starling_accuracy_ratio", "starling_test_loss",
                              "starling_accuracy_steps", "starling_distance_ratio", "starling_staleness_steps"}, f"series that were not there at first: {later}")
            text = json.dumps(sorted(fixed))
            require(not any(other.name in text or other.status()["id"] in text for other in self.peers), "a label names a member")

    def stages_are_sound(self):
        """A peer in stages has the times of each stage, which its status has too."""
        peer = Peer(self.program, self.folder, "staged", "--model", "mlp", "--data", "glyphs", "--seconds", "100000",
                    "--devices", "cpu:0,cpu:1", "--split", "stages")
        try:
            until(lambda: peer.status()["steps"] > 20, "a peer in stages does not train")
            before, series, after = peer.status()["pipeline"], self.is_sound(peer), peer.status()["pipeline"]
            require(0 < series["starling_pipeline_bubble_ratio", ()] < 1, f"{series}")
            for first, last in zip(before["stages"], after["stages"]):
                for what in ("busy", "waiting"):
                    value = series[f"starling_stage_{what}_seconds_total", (("stage", first["name"]),)]
                    low, high = first[f"{what}_seconds"], last[f"{what}_seconds"]
                    rounding = 1e-14 * high  # the metrics have 16 digits, the status has the shortest exact form
                    require(low - rounding <= value <= high + rounding, f"{what} of stage {first['name']}: {low}, {value}, {high}")
        finally:
            peer.end()

    # ---- with Prometheus ----
    def targets_are_up(self):
        def look():
            targets = self.prometheus.api("targets")["activeTargets"]
            self.seen = [(t["scrapeUrl"], t["health"], t["lastError"]) for t in targets]
            return len(targets) == 3 and all(t["health"] == "up" for t in targets)
        until(look, lambda: f"targets: {self.seen}")
        require(self.prometheus.ask('up{job="starling"}') == {peer.http: 1 for peer in self.peers}, "not all targets are up")
        [group] = self.prometheus.api("rules")["groups"]
        until(lambda: all(rule["health"] == "ok" for rule in self.prometheus.api("rules")["groups"][0]["rules"]), "a rule cannot be evaluated")
        require(len(group["rules"]) >= 4, f"rules: {group['rules']}")

    def rates_are_true(self):
        """A peer makes at most one batch per PACE; Prometheus extrapolates to the whole range."""
        def rates():
            self.rates = self.prometheus.ask("rate(starling_samples_total[5s])")
            return len(self.rates) == 3 and all(rate > 0 for rate in self.rates.values())
        until(rates, lambda: f"rates: {self.rates}")
        most = BATCH / PACE
        require(all(rate < 1.5 * most for rate in self.rates.values()), f"rates: {self.rates}, and {most} is the most")
        until(lambda: self.prometheus.ask("sum(rate(starling_network_bytes_total[5s]))").get("", 0) > 0, "nothing travels")
        require(self.prometheus.ask('starling_members{state="alive"}') == {peer.http: 3 for peer in self.peers}, "a peer does not know three members")
        trains = self.prometheus.api("query", query="count by (model, data, rule) (starling_info)")["result"]
        require([(t["metric"], t["value"][1]) for t in trains] == [({"model": "softmax", "data": "glyphs", "rule": "pairwise"}, "3")],
                f"three peers train one model on one set: {trains}")

    def sums_are_true(self):
        """Values scraped between two status queries lie between them, per peer and in the sum."""
        p = self.prometheus
        before, at = [peer.status() for peer in self.peers], time.time()
        fresh = lambda: list(p.ask(f"count(timestamp(starling_samples_total) > {at})").values()) == [3.0]
        until(fresh, "nothing is scraped any more")
        questions = {"starling_samples_total": lambda s: s["samples"], "starling_steps_total": lambda s: s["steps"],
                     'starling_exchanges_total{outcome="completed"}': lambda s: s["exchanges"]["completed"],
                     'starling_exchanges_total{outcome="answered"}': lambda s: s["exchanges"]["answered"],
                     'starling_network_bytes_total{direction="sent"}': lambda s: s["bytes_sent"],
                     "starling_swarm_samples_total": lambda s: s["swarm_samples"]}
        told = {query: (p.ask(query), p.ask(f"sum({query})")[""]) for query in questions}
        after = [peer.status() for peer in self.peers]
        for query, of in questions.items():
            values, total = told[query]
            for peer, first, last in zip(self.peers, before, after):
                require(of(first) <= values[peer.http] <= of(last), f"{query} of {peer.name}: {of(first)}, {values[peer.http]}, {of(last)}")
            require(sum(map(of, before)) <= total <= sum(map(of, after)), f"the sum of {query}: {total}")
        # All peers report the same swarm.
        own = told["starling_samples_total"][1]
        for peer in self.peers:
            require(0 < told["starling_swarm_samples_total"][0][peer.http] <= sum(s["samples"] for s in after), "more than all have made")
        require(own > 0, "no steps")
        ratio = p.ask("starling_accuracy_ratio")
        require(all(0 <= value <= 1 for value in ratio.values()), f"accuracies: {ratio}")

    def a_death_is_seen(self):
        dead, living = self.peers[2], self.peers[:2]
        dead.end()
        up = lambda: self.prometheus.ask('up{job="starling"}')
        until(lambda: up().get(dead.http) == 0, lambda: f"the dead one is up: {up()}")
        require(all(up()[peer.http] == 1 for peer in living), f"live peers are down: {up()}")
        firing = lambda: [(a["labels"]["alertname"], a["labels"]["instance"]) for a in self.prometheus.api("alerts")["alerts"]]
        until(lambda: ("StarlingPeerDown", dead.http) in firing(), lambda: f"alerts: {firing()}")
        gone = lambda: {instance: n for instance, n in self.prometheus.ask('starling_members{state="failed"}').items() if instance != dead.http}
        until(lambda: gone() == {peer.http: 1 for peer in living}, lambda: f"failed, by who says so: {gone()}")

    # ---- scripts/deploy/prometheus ----
    def deployment_is_sound(self):
        for words in (("check", "config", f"{DEPLOY}/prometheus.yml"), ("check", "rules", f"{DEPLOY}/alerts.yml"),
                      ("test", "rules", f"{SOURCE}/tests/prometheus/alerts_test.yml")):
            done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=HANG)
            require(done.returncode == 0 and "SUCCESS" in done.stdout and "WARN" not in (done.stdout + done.stderr).upper(),
                    f"promtool {' '.join(words)}: {done.stdout}{done.stderr}")
        # Every alert is tested and uses existing metrics.
        rules, tried = open(f"{DEPLOY}/alerts.yml").read(), open(f"{SOURCE}/tests/prometheus/alerts_test.yml").read()
        for name in re.findall(r"- alert: (\w+)", rules):
            require(f"alertname: {name}\n" in tried, f"alerts_test.yml does not test {name}")
        documented = open(f"{SOURCE}/docs/API.md").read()
        for metric in set(re.findall(r"starling_[a-z_]+", rules)):
            require(f"`{metric}`" in documented, f"alerts.yml uses {metric}, which is not in docs/API.md")

    def run(self):
        self.case("the configuration and the alerts in scripts/deploy/prometheus are valid, and each alert fires when it should", self.deployment_is_sound)
        self.peers, self.early, self.prometheus = [], set(), None
        try:
            self.case("promtool accepts the metrics of a peer that has not started training", self.joiner_is_sound)
            token = f"{self.folder}/token"
            with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(TOKEN + "\n")
            pace = ["--data", "glyphs", "--pace", f"{1000 * PACE:.0f}ms"]
            first = Peer(self.program, self.folder, "p0", *pace, "--model", "softmax", "--batch-size", str(BATCH), "--seconds", "100000")
            self.peers.append(first)
            self.peers.append(Peer(self.program, self.folder, "p1", *pace, "--join", first.gossip))
            self.peers.append(Peer(self.program, self.folder, "p2", *pace, "--join", first.gossip, "--token-file", token))
            self.case("promtool accepts the metrics of three training peers, one with a token, and the set of series stays small", self.trainers_are_sound)
            self.prometheus = Prometheus(self.folder, [peer.http for peer in self.peers])
            self.case("the metrics of a peer in stages agree with its status", self.stages_are_sound)
            self.case("a real Prometheus reports all of them up", self.targets_are_up)
            self.case("rates are positive and no higher than the pace", self.rates_are_true)
            self.case("scraped values agree with the peers' status", self.sums_are_true)
            self.case("a killed peer is down, an alert fires, and the others report it", self.a_death_is_seen)
        finally:
            for one in [*self.peers, self.prometheus]:
                if one:
                    one.end()


if __name__ == "__main__":
    sys.exit(suite.main(Scraped))
