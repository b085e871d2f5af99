"""Schedules faults: seeded Poisson processes, limited so that at least half of the peers stay healthy."""
import heapq

from . import clock

MOST_IN_ISLAND = 3
RETRY_S = 1  # retry delay if no peer can be spared


class Faults:
    """Times are in seconds since the start of the fault phase; lives are marked with clock.now()."""

    def __init__(self, peers, place, statements, rng, mean_s):
        """mean_s: {kind: mean seconds between two faults}; other kinds do not happen."""
        self.peers, self.place, self.statements, self.rng = peers, place, statements, rng
        self.mean_s = mean_s
        self.counts = {kind: 0 for kind in mean_s}
        self.restarts = {"by join": 0, "by state": 0}
        self.sequence = 0
        self.queue = []  # (when, sequence, what)
        for kind in mean_s:
            self.schedule_next(0, kind)

    def schedule(self, when, what):
        self.sequence += 1
        heapq.heappush(self.queue, (when, self.sequence, what))

    def schedule_next(self, now, kind):
        def happen(at):
            if getattr(self, kind)(at):
                self.counts[kind] += 1
                self.schedule_next(at, kind)
            else:
                self.schedule(at + RETRY_S, happen)
        self.schedule(now + self.rng.expovariate(1 / self.mean_s[kind]), happen)

    def work(self, now):
        """Executes the faults that are due."""
        while self.queue and self.queue[0][0] <= now:
            heapq.heappop(self.queue)[2](now)

    def victims(self, most=1):
        """Random healthy, training peers; at least half of all peers stay untouched."""
        healthy = [p for p in self.peers if p.life.healthy and p.life.phase == "training"]
        most = min(most, len(healthy) - max(2, len(self.peers) // 2))
        return self.rng.sample(healthy, self.rng.randint(1, most)) if most > 0 else []

    # ---- the faults; each returns whether it happened ----

    def kill(self, now):
        for peer in self.victims():
            peer.life.kill(clock.now())
            self.statements.died(peer.life)
            # Usually back soon, sometimes only after every peer must have detected the death.
            away = self.statements.bound * 1.1 if self.rng.random() < 0.1 else self.rng.uniform(0.5, 4)
            self.schedule(now + away, lambda at: self.restart(peer))
            return True
        return False

    def leave(self, now):
        for peer in self.victims():
            peer.life.tell_to_end(clock.now(), by_http=self.rng.random() < 0.5)
            self.schedule(now + 4 + self.rng.uniform(0, 4), lambda at: self.restart(peer))
            return True
        return False

    def stop(self, now):
        for peer in self.victims():
            life = peer.life
            life.stop()
            self.schedule(now + self.rng.uniform(1, 5), lambda at: life.go_on())
            return True
        return False

    def cut(self, now):
        how = self.rng.choice(("silent", "cable", "island"))
        lives = [peer.life for peer in self.victims(MOST_IN_ISLAND if how == "island" else 1)]
        for life in lives:
            self.place.cut(life.peer.number, how)
            life.cut = True
        self.schedule(now + self.rng.uniform(1, 20), lambda at: [self.heal(life) for life in lives])
        return bool(lives)

    # ---- recovery ----

    def heal(self, life):
        self.place.heal(life.peer.number)
        life.cut = False
        life.healthy_since = clock.now()

    def restart(self, peer):
        if peer.life.running:
            return
        others = [p for p in self.peers if p is not peer and p.life.healthy and p.life.phase == "training"]
        by_join = bool(others) and self.rng.random() < 0.5
        self.restarts["by join" if by_join else "by state"] += 1
        peer.start(self.rng.choice(others) if by_join else None)

    def end(self):
        """Ends all faults and schedules no more. False while a peer is still leaving."""
        self.queue.clear()
        for life in [peer.life for peer in self.peers]:
            if life.stopped:
                life.go_on()
            if life.cut:
                self.heal(life)
            self.restart(life.peer)
        return all(peer.life.told_to_end is None for peer in self.peers)
