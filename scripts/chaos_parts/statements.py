"""The invariants of a swarm under faults, checked from the outside.

A peer is *healthy* while it runs and is neither stopped nor cut off nor told to leave. The `bound` is the longest time
that the swarm may take to detect a death or the end of a fault.
"""
import math

from . import peers


def bound_s(members):
    """Round-robin probing, longest suspicion, dissemination, and the pause between retries of failed members."""
    suspicion = 4 * max(1, math.log10(members))
    news = 4 * math.ceil(math.log2(members + 1)) * 0.5
    return (2 * members - 1) + suspicion + news + 30


class Statements:
    JOINING_S = 60
    LEAVING_S = 3
    MEMORY_FACTOR, MEMORY_BYTES = 1.2, 16 << 20
    LINKS = 64

    def __init__(self, watched, bound, patience, warm_up):
        self.peers = watched
        self.bound, self.patience, self.warm_up = bound, patience, warm_up
        self.broken = {}        # (statement, about) -> sentence, the first time
        self.undetected = {}    # id of a dead peer -> when it died
        self.detections = []    # seconds
        self.exits = []         # seconds

    def fault(self, statement, about, sentence):
        if (statement, about) not in self.broken:
            print(f"violated: {statement}: {sentence}", flush=True)
            self.broken[statement, about] = sentence

    def lives(self):
        return [life for peer in self.peers for life in peer.lives]

    def look(self, now, pool):
        """Queries all reachable peers and checks the invariants."""
        current = [peer.life for peer in self.peers if peer.lives]
        self.look_for_ends(now, current)
        askable = [life for life in current if life.running and not life.stopped and life.told_to_end is None]
        for life, answer in zip(askable, pool.map(lambda l: l.ask(), askable)):
            life.measure(now)
            if answer:
                self.hear(now, life, *answer)
            else:
                life.members = []
        for life in askable:
            self.judge_alone(now, life)
        by_id = {life.id: life for life in self.lives() if life.id}
        watchers = [life for life in askable if life.healthy and life.members]
        for life in watchers:
            for member in life.members:
                self.judge_view(now, life, member, by_id.get(member["id"]))
        self.look_for_detections(now, watchers)

    def look_for_ends(self, now, current):
        for life in current:
            if not life.running:
                continue
            if not life.has_exited(now):
                late = life.told_to_end is not None and now - life.told_to_end > self.LEAVING_S
                if late:
                    self.fault("leaves in time", (life.peer.name, life.started),
                               f"{life.peer.name} was told to leave but still runs after {self.LEAVING_S} s")
                    life.kill(now)
                continue
            code = life.process.returncode
            if life.told_to_end is None or code != 0:
                self.fault("exits cleanly", (life.peer.name, life.started),
                           f"{life.peer.name} exited with {code}: {life.last_words()}")
            else:
                self.exits.append(now - life.told_to_end)

    def hear(self, now, life, status, members):
        if life.status is None or status["steps"] != life.status["steps"]:
            life.steps_changed = now
        life.answered = now
        life.id = status["id"]
        life.status, life.members = status, members
        life.links_max = max(life.links_max, status["links_open"])
        if life.training_since is None and status["phase"] == "training":
            life.training_since = life.steps_changed = now

    def judge_alone(self, now, life):
        """Checks of a single peer, whether cut off or not."""
        name, about = life.peer.name, (life.peer.name, life.started)
        since = max(life.healthy_since, life.started)
        if now - max(life.answered, since) > self.patience + (self.patience if life.status is None else 0):
            self.fault("answers", about, f"{name} has not answered for {now - max(life.answered, since):.0f} s")
        if life.training_since is not None:
            if now - max(life.steps_changed, since) > self.patience:
                self.fault("training never stops", about,
                           f"{name} has made no step for {now - max(life.steps_changed, since):.0f} s, "
                           f"phase {life.phase}")
        elif not life.cut and now - since > self.JOINING_S:
            self.fault("joins", about, f"{name} is not training {now - since:.0f} s after its start: "
                                       f"{life.last_words()}")
        if life.links_max > self.LINKS:
            self.fault("links are few", about, f"{name} has {life.links_max} control links")

    @staticmethod
    def is_liar(member):
        return member["name"].startswith(peers.LIAR_NAME)

    def judge_view(self, now, life, member, other):
        if self.is_liar(member):
            return
        about = (life.peer.name, life.started, member["id"])
        text = f"{life.peer.name} lists {member['name']} ({member['id']})"
        state, incarnation = member["state"], member["incarnation"]
        before = life.seen.get(member["id"])
        life.seen[member["id"]] = (state, incarnation)
        if before and incarnation < before[1]:
            self.fault("incarnations only grow", about, f"{text} at incarnation {incarnation} after {before[1]}")
        alive = state in ("alive", "suspect", "quarantined")
        if state == "left":
            life.gone[member["id"]] = incarnation
        elif alive and incarnation <= life.gone.get(member["id"], -1):  # a restarted peer has a higher one
            self.fault("peers that left stay away", about, f"{text} as {state} after it left")
        if other is None or other is life:
            return
        if member["address"] != other.peer.address:
            self.fault("addresses are true", about, f"{text} at {member['address']}, not at {other.peer.address}")
        if alive and not other.running and now - max(other.ended, life.healthy_since) > self.bound:
            self.fault("deaths are detected", about, f"{text} as {state} {now - other.ended:.0f} s after its death")
        since = max(other.healthy_since, life.healthy_since)
        if state in ("failed", "left") and other.healthy and now - since > self.bound:
            self.fault("healthy peers return", about, f"{text} as {state}, {now - since:.0f} s after the last fault")

    def look_for_detections(self, now, watchers):
        shown = {member["id"] for life in watchers for member in life.members
                 if member["state"] in ("alive", "suspect", "quarantined")}
        for dead in [d for d in self.undetected if d not in shown]:
            self.detections.append(now - self.undetected.pop(dead))

    def died(self, life):
        if life.id:
            self.undetected[life.id] = life.ended

    def differences(self):
        """Why the views are not yet equal and correct; None if they are."""
        running = [peer.life for peer in self.peers]
        right = {life.id for life in running}
        for life in running:
            if life.phase != "training":
                return f"{life.peer.name} is {life.phase}"
            shown = {m["id"] for m in life.members if m["state"] == "alive" and not self.is_liar(m)}
            if shown != right:
                names = {l.id: l.peer.name for l in self.lives()}
                wrong = [names.get(i, str(i)) for i in shown ^ right]
                return f"{life.peer.name} has a wrong view of {', '.join(sorted(wrong))}"
        return None

    def growth(self, life):
        """Resident bytes after the warm-up and at the end; None if the process did not run long enough."""
        if life.training_since is None:
            return None
        warm = [r for t, r in life.resident if t >= life.training_since + self.warm_up]
        if len(warm) < 2 or life.resident[-1][0] < life.training_since + 2 * self.warm_up:
            return None
        return warm[0], warm[-1]

    def judge_lives(self):
        """Final checks over whole process lives."""
        files_bound = 64 + 8 * len(self.peers)
        for life in self.lives():
            about = (life.peer.name, life.started)
            if life.files_max > files_bound:
                self.fault("links are few", about, f"{life.peer.name} had {life.files_max} files open")
            growth = self.growth(life)
            if growth and growth[1] > growth[0] * self.MEMORY_FACTOR + self.MEMORY_BYTES:
                self.fault("memory is flat", about, f"{life.peer.name} grew from {growth[0] / 1e6:.0f} MB to "
                                                    f"{growth[1] / 1e6:.0f} MB")
