"""One connection of a trainer with its peer, from the declaration to `over`.

The names follow docs/TRAINERS.md: x are the trainer's parameters, s the last snapshot of them (it stays in the
post mailbox), r the peer's reply. In copy mode x += r - s takes what is new; in view mode x is the arena itself.
"""
import contextlib
import json
import math
import struct
import threading
import time

from .connection import Connection, Lost
from .errors import Changed, Error, Limit, log
from .region import (ACCURACY, ACCURACY_STEPS, ALLOWED, ERA, LEARNING_RATE, LOSS, MAJOR, MINOR, POST, POST_ERA,
                     POST_SAMPLES, POST_STEPS, REPLY, RING_AT, SAMPLES, STATE_ASKED, STATE_ERA, STATE_GIVEN, STEPS,
                     WAITS, Region)

DECLARED, READY, STARTED, OVER, REFUSED = "declared", "ready", "started", "over", "refused"
REASONS = {1: "its owner paused it", 2: "the rule waits for other peers",
           3: "the replica was lost, and another one is being copied",
           4: "the last samples or steps of the run are being made"}
SAY_AFTER, SAY_AGAIN = 1, 60  # seconds of a wait; seconds between two messages with the same reason
SAID_MAX = 64  # messages that are remembered
_fence = threading.Lock()  # a lock orders the words and what they announce, where the processor does not


def known(loss):
    """NaN means an unknown loss, and infinity one that is not finite."""
    return loss if loss == loss else math.inf


class Attachment:
    """Connects and sends the declaration: `head` (its lines without tensors) and those of `tensors`. Raises
    OSError if nobody listens at `path`. `on_era` is called when the peer has replaced the replica. `events`: takes
    the peer's, or None. `wait`: seconds that a step may wait, or None."""

    def __init__(self, path, head, tensors, view, on_era, events=None, wait=None):
        self._tensors, self._view, self._on_era = tensors, view, on_era
        self._events, self._wait = events, wait
        self._members, self.members = [], None  # the answer that arrives, and the one that is complete
        self.saying = None  # the latest `say`
        self.state, self.text = DECLARED, ""  # text: of `refused` or `over`
        self.words = self._region = None
        self.steps = self.samples = self._posted_steps = 0
        self._post = self._era = 0
        self._pending = False  # a post is not answered
        self._rung = None  # the ring_at for which it has rung
        self.taken = 0  # replies
        self._state_given = 0
        self._late_loss = None
        self._said = {}
        self.connection = Connection(path)
        mode = "view" if view else "copy"
        lines = [f"starling-trainer {MAJOR}.{MINOR}", f"mode {mode}", *head, *tensors.declaration(), "end"]
        self.connection.send("".join(f"{line}\n" for line in lines))

    # Before the start

    def advance(self):
        """Handles the lines that have arrived. Raises Lost, and Error for a region that it cannot use."""
        for line in self.connection.receive():
            self._handle(line)

    def _handle(self, line):
        word, _, text = line.partition(" ")
        if word == "region" and self.state == DECLARED:
            try:
                self._open(int(text))
            except (ValueError, struct.error) as error:
                raise Error(f"the peer's region is malformed: {error}") from None
        elif word == "start" and self.state == READY:
            self._start()
        elif word == "say":
            self.saying = text
            if self._is_news(text):
                log.warning("starling: %s", text)
        elif word in ("event", "member", "members"):
            try:
                self._learn(word, text)
            except ValueError as error:
                raise Lost(f"the peer sent a malformed line: {error}") from None
        elif word == "refused":
            self.state, self.text = REFUSED, text
        elif word == "over":
            self._end(text)

    def _learn(self, word, text):
        if word == "event" and self._events is not None:
            self._events.take(text)
        elif word == "member":
            self._members.append(json.loads(text))
        elif word == "members":
            self._members, self.members = [], self._members

    def _open(self, length):
        descriptor = self.connection.take_descriptor()
        if descriptor is None:
            raise Error("the peer sent `region` without a file descriptor")
        region = Region(descriptor, length)
        if region.view != self._view:
            raise Error("the peer's region has another mode than the declaration")
        self._tensors.refresh()
        table = region.table()
        arenas, posts, replies = [], [], []
        for slot in self._tensors.slots:
            entry = table.get(slot.name)
            if entry is None or entry.floats != slot.floats:
                raise Error(f"the peer's table lacks tensor {slot.name} with {slot.floats} floats")
            for pieces, begin in (arenas, region.arena), (posts, region.post), (replies, region.reply):
                pieces.append(slot.piece(region.memory, begin + 4 * entry.offset) if begin else None)
        if self._tensors.state:
            self._tensors.state.bind(region)
        self._region, self.words = region, region.words
        self._all = list(zip(self._tensors.slots, replies, posts))
        self._arenas = list(zip(self._tensors.slots, arenas))
        for slot, piece in self._arenas if self._view else zip(self._tensors.slots, posts):
            slot.write(piece)
        self.words.clear()
        self.state = READY
        with _fence:
            self.connection.send("ready\n")

    def _start(self):
        with _fence:
            self._era = self.words.whole[ERA]
            self._post = self.words.whole[REPLY]
        self.words.whole[POST] = self._post
        self.state = STARTED
        if self._events is not None:
            self.connection.send("events\n")
        self._adopt()
        if not self._tensors.resumed:
            self._take_state()
        self._tensors.resumed = False

    def _take_state(self):
        """A member's state that came with the parameters of this era."""
        state = self._tensors.state
        if state and self.words.whole[STATE_ERA] == self._era + 1:
            state.take()

    def _give_state(self):
        """The peer has asked for it: a newcomer joins."""
        self._state_given = self.words.whole[STATE_ASKED]
        if self._tensors.state:
            self._tensors.state.give()
        with _fence:
            self.words.whole[STATE_GIVEN] = self._state_given

    # Steps

    def step(self, samples, loss):
        """Everything after a step. `loss`: a number, a function that is called if the peer wants to know, or None."""
        words = self.words
        whole = words.whole
        self.steps = steps = self.steps + 1
        self.samples += samples
        whole[SAMPLES] = self.samples
        if loss is not None:
            if callable(loss):
                self._late_loss = loss
            else:
                words.real[LOSS] = known(loss)
        whole[STEPS] = steps
        self._turn()
        if steps >= whole[ALLOWED] and self.state == STARTED:
            self.wait(Limit(self._wait))
        if self._pending:  # a reply that came since precedes what is allowed: the next step begins with it
            self._look()

    def _look(self):
        whole = self.words.whole
        if whole[ERA] != self._era or (self._pending and whole[REPLY] >= self._post):
            self._take()

    def _turn(self):
        whole = self.words.whole
        self._look()
        if whole[STATE_ASKED] != self._state_given:
            self._give_state()
        due = whole[RING_AT]
        if due <= self.steps and due != self._rung and not self._pending:
            self._ring(due)
        for line in self.connection.receive():
            self._handle(line)

    def wait(self, limit):
        """Returns when the next step is allowed, or the run is over. Raises Lost, KeyboardInterrupt, and Error after
        the Limit."""
        whole, since = self.words.whole, time.monotonic()
        while self.state == STARTED and self.steps >= whole[ALLOWED]:
            self.connection.wait(min(SAY_AFTER, limit.left("the peer allowed no further step", self.reason)))
            reason = REASONS.get(whole[WAITS])
            if reason and time.monotonic() - since >= SAY_AFTER and self._is_news(reason):
                log.warning("starling: the next step waits for the peer: %s", reason)
            self._turn()

    def reason(self):
        """Why the peer lets the trainer wait, as far as is known; or None."""
        reason = REASONS.get(self.words.whole[WAITS]) if self.state == STARTED else None
        return reason or self.saying

    def _is_news(self, text):
        now = time.monotonic()
        if now - self._said.get(text, -SAY_AGAIN) < SAY_AGAIN:
            return False
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said[text] = now
        return True

    def ask_members(self, limit):
        """The members as the peer knows them, or None if it is over. Raises Lost, and Error after the Limit."""
        self.members = None
        self.connection.send("members\n")
        while self.members is None and self.state == STARTED:
            self.connection.wait(limit.left("the peer did not name the members", lambda: None))
            self.advance()
        return self.members

    def _ring(self, due):
        if self._late_loss:
            self.words.real[LOSS], self._late_loss = known(float(self._late_loss())), None
        if self._view:
            self._tensors.refresh()
            self._write_kept()
        else:
            self._post_snapshot()
        self._rung = due
        self.connection.send("ring\n")

    def _write_kept(self):
        """In view mode: the frozen tensors into the arena. One that is no longer frozen becomes a view."""
        for slot, piece in self._arenas:
            if not slot.viewed:
                slot.write(piece)
                if not slot.frozen:
                    slot.view(piece)

    def _post_snapshot(self):
        whole = self.words.whole
        self._tensors.refresh()
        for slot, _, post in self._all:
            slot.write(post)
        self._posted_steps = self.steps
        whole[POST_STEPS], whole[POST_SAMPLES], whole[POST_ERA] = self.steps, self.samples, self._era
        self._post += 1
        self._pending = True
        with _fence:
            whole[POST] = self._post

    def _take(self):
        """x += r - s, or x = r if no step was made since the post; x = r in a new era."""
        with _fence:
            era = self.words.whole[ERA]
        if era != self._era:
            self._era = era
            if self._pending:
                self._pending, self._rung = False, None
            self._adopt()
            self._on_era()
            self._take_state()
            return
        self._pending = False
        self._tensors.refresh()
        for slot, reply, post in self._all:
            if slot.frozen:
                continue
            if self.steps > self._posted_steps:
                slot.add(reply, post)
            else:
                slot.take(reply)
        self._tensors.store()
        self.taken += 1

    def _adopt(self):
        """x = r for all tensors, but frozen ones are kept after the first time; in view mode the arena becomes x."""
        self._tensors.refresh()
        for slot, piece in self._arenas if self._view else [(slot, reply) for slot, reply, _ in self._all]:
            if self._view and not slot.frozen:
                slot.view(piece)
                slot.adopted = True
            else:
                slot.begin(piece)
        self._tensors.store()
        self.taken += 1

    # The end

    def finish(self, reply_seconds, over_seconds):
        """Posts the last steps, says `bye` and waits for `over`. Raises Lost, Changed. True if the peer answered."""
        self._tensors.refresh()
        if self._view and self.state == STARTED:
            self._write_kept()
        self._posted_steps = -1  # what changed after the last step counts, too: look-ahead, averages, merged adapters
        if not self._view and self._pending:
            self._wait_until(lambda: not self._pending or self.state != STARTED, reply_seconds)
        if self.state == STARTED and not self._view and not self._pending and self.steps > self._posted_steps:
            self._post_snapshot()
            self.connection.send("ring\n")
        if self.state == STARTED:
            self._pending = False  # `over` brings the last reply, too
            self.connection.send("bye\n")
            self._wait_until(lambda: self.state == OVER, over_seconds)
        return self.state == OVER

    def _wait_until(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            self.connection.wait(0.02)
            if self._pending:
                self._look()
            self.advance()

    def _end(self, text):
        """`over`: in copy mode the last parameters are in the reply mailbox."""
        if self.state == STARTED:
            if not self._view:
                self._adopt()
            self.keep_own()
        self.state, self.text, self._pending = OVER, text, False

    def keep_own(self):
        """Views become arrays of one's own, with the arena's values."""
        if self._view and self.state == STARTED:
            with contextlib.suppress(Changed):  # those are the trainer's own
                self._tensors.refresh()
            self._tensors.keep_own()
            self._tensors.store()

    def report(self, accuracy=None, loss=None, learning_rate=None):
        """Numbers for status and page."""
        real = self.words.real
        if loss is not None:
            real[LOSS], self._late_loss = known(loss), None
        if learning_rate is not None:
            real[LEARNING_RATE] = learning_rate
        if accuracy is not None:
            real[ACCURACY] = accuracy
            self.words.whole[ACCURACY_STEPS] = self.steps

    def close(self):
        self.connection.close()
