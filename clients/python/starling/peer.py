"""The trainer's side of its peer, across the peer's crashes and returns."""
import atexit
import collections
import os
import time

from .attachment import OVER, REFUSED, STARTED, Attachment
from .connection import Lost
from .errors import Changed, Error, Limit, log
from .events import Events
from .region import EXCHANGES, MEMBERS, RATE_FACTOR, SHARE_INDEX, SHARE_OF, SWARM_SAMPLES

RETRY, RETRY_REFUSED = 0.1, 5  # seconds between two connections
REPLY_SECONDS, OVER_SECONDS = 1, 10  # of waits at the end
MEMBERS_SECONDS = 10  # until the peer has named them
PARTNERS_LOOK = 0.02  # seconds between two looks at the word `members`, which no line announces
WAIT = 300  # seconds of a wait, unless the user says it

Position = collections.namedtuple("Position", "steps samples")
Progress = collections.namedtuple("Progress", "samples epochs exchanges members rate_factor done")


def check(tensors, mode):
    """Raises Error if no peer can exchange these tensors."""
    if mode not in ("copy", "view"):
        raise Error(f'mode must be "copy" or "view", got "{mode}"')
    if mode == "view":
        for slot in tensors.slots:
            slot.check_view()
    if not any(slot.role == "trained" for slot in tensors.slots):
        raise Error("there is nothing to train: none of the tensors has floating-point values that are trained")
    for slot in tensors.slots:
        slot.check()


class Peer:
    """A member of a swarm. Returns when training may begin; `tensors` then have the swarm's values.

    `path`: the peer's socket; `daemon`: the Daemon that listens there, if it is our own. `head`: the lines of the
    declaration without tensors. `wait`: seconds that the beginning may take, and later a wait of a step; None: any.
    `partners`: others that live when it returns. `on_event`: called with each Event, between steps; `target`: an accuracy
    that makes one. `kept`: what save() saves; `place`: of an earlier save, where this peer continues. Raises Error if no
    peer accepts, and later if a wait takes too long; otherwise no method raises because of the peer: without one the
    trainer trains on alone, and returns when it can. A context manager that closes itself."""

    def __init__(self, tensors, path, head=(), mode="copy", epoch=None, batch=None, daemon=None, *, wait=WAIT, partners=0,
                 on_event=None, target=None, kept=None, place=None):
        self.tensors = tensors
        self.on_era = lambda: None  # the replica was replaced: the optimizer's state begins anew
        self.on_close = []  # functions that undo hooks
        self._path, self._head, self._view = path, list(head), mode == "view"
        self._epoch, self.batch, self._daemon = epoch, batch, daemon  # batch: samples of a step; None: not given
        self._attachment, self._live = None, False  # live: the attachment is started
        self._words = self._rate = None
        self._steps = self._samples = self._others = 0  # of all its peers, and without one
        self._began = time.monotonic()
        self._kept, self.resumed = kept, None  # resumed: the values given to the save() that was resumed
        if place:
            self._steps, self._samples, self._others = place["steps"], place["samples"], place["others"]
            self._began -= place["seconds"]
        self._taken = 0
        self.own_loss = False  # the loss is reported by the trainer's own code
        self.counted = None  # samples since the last step, if count() is called
        self._warned_of_samples = False
        self.on_leave = lambda: None  # after a context that ended without an exception
        self._done = self._closed = False
        self._next_try, self._warned = 0, None
        self._wait, self.on_event, self._target = wait, on_event, target
        self._events = None if on_event is None else Events()
        self._pid = os.getpid()
        try:
            self._begin(Limit(wait), partners)
        except BaseException:
            if self._attachment is not None:
                self._attachment.keep_own()
            self._drop()
            if daemon:
                daemon.stop(0)
            raise
        atexit.register(self.close)

    # Steps

    def step(self, samples=None, loss=None):
        """After a step with this many samples. `loss`: a number, a function that returns it, or None."""
        if os.getpid() != self._pid or self._done or self._closed:
            return self._tell()
        if samples is None:
            samples = self.batch or self._unknown()
        self._steps += 1
        self._samples += samples
        try:
            if self._live:
                self._attachment.step(samples, loss)
                if self._attachment.state == OVER:
                    self._finished()
            else:
                self._return()
        except Lost:
            self._lost()
        except Changed as reason:
            self._part(reason)
        self._tell()

    def _unknown(self):
        if not self._warned_of_samples:
            self._warned_of_samples = True
            log.warning("starling: steps with an unknown number of samples count none, so epochs, rates and weights by work "
                        "are without them; name the samples of a step with batch=")
        return 0

    def _tell(self):
        """Calls on_event for what has happened since the last call, in the trainer's thread. Its exceptions are the
        trainer's."""
        while self._events and not self._closed and os.getpid() == self._pid:
            self.on_event(self._events.pop())

    def exchange(self, params=None, samples=None, loss=None):
        """After a step that made `params`: reports it, and returns the parameters to continue with. Those of NumPy,
        PyTorch and the standard library are changed in place (in view mode: replaced); those of JAX are new arrays."""
        if params is not None:
            self.tensors.bind(params)
        if loss is not None and not isinstance(loss, (int, float)):
            value = loss
            loss = lambda: float(value)  # noqa: E731  an array on a device is read only if it is wanted
        self.step(samples, loss)
        return self.params

    @property
    def params(self):
        """The parameters that are current, in the form in which they were attached."""
        return self.tensors.params

    @property
    def taken(self):
        """How often the parameters were changed by the peer."""
        return self._taken + (self._attachment.taken if self._attachment else 0)

    def count(self, samples):
        """More samples of the step that is being made, as the trainer's own code counts them: instead of the forward passes."""
        self.counted = (self.counted or 0) + samples

    # What is known

    @property
    def progress(self):
        """Of the swarm: samples, epochs (None if the run has none), exchanges of this peer, members that live, the
        learning rate's factor, and whether the run is over or the peer has left it."""
        words = self._words
        samples = words.whole[SWARM_SAMPLES]
        return Progress(samples, samples / self._epoch if self._epoch else None, words.whole[EXCHANGES],
                        words.half[MEMBERS], words.real[RATE_FACTOR], self._done)

    @property
    def share(self):
        """(index, of): this peer's place among those that train, to divide data among them."""
        words = self._words
        return words.half[SHARE_INDEX], words.half[SHARE_OF]

    @property
    def position(self):
        """(steps, samples) of this trainer since its run began, also before it was resumed."""
        return Position(self._steps, self._samples)

    def save(self, path, **values):
        """Writes all that gossip(resume=path) needs to continue from here: the states of the model, the optimizer and
        objects=, of the random number generators of Python, NumPy and PyTorch, the position and the swarm's, and these
        values, which `resumed` then has. Replaces an earlier file of this kind. Raises Error."""
        if os.getpid() != self._pid:
            return
        others = self._others
        if self._live:
            others = max(others, self._words.whole[SWARM_SAMPLES] - self._samples)
        self._kept.save(path, {"steps": self._steps, "samples": self._samples, "others": others,
                               "seconds": time.monotonic() - self._began}, values)

    def members(self):
        """The members of the swarm as this peer knows them, itself included, a dictionary each: `name`, `condition`
        (`training`, `paused`, `left`, `failed`, ...), `this_peer`, `steps`, `samples`, `loss` and the other fields of
        /api/v1/members. Empty without a peer."""
        if not self._live or os.getpid() != self._pid:
            return []
        seconds = MEMBERS_SECONDS if self._wait is None else min(self._wait, MEMBERS_SECONDS)
        try:
            members = self._attachment.ask_members(Limit(seconds))
            if self._attachment.state == OVER:
                self._finished()
        except Lost:
            self._lost()
            return []
        return members or []

    def report(self, accuracy=None, loss=None, learning_rate=None):
        """Numbers for the swarm's status: accuracy from 0 to 1 on the trainer's test data, loss of the latest step."""
        self.own_loss = self.own_loss or loss is not None
        self._rate = self._rate if learning_rate is None else learning_rate
        if self._live and os.getpid() == self._pid:
            self._attachment.report(accuracy, loss, learning_rate)
        if accuracy is not None and self._target is not None and accuracy >= self._target and self._events is not None:
            self._events.add("target", None, f"{accuracy:g}")
            self._target = None  # once
            self._tell()

    # Attaching

    def _begin(self, limit, partners):
        late = "training could not begin"
        while not self._connect():
            if not self._daemon:
                raise Error(f"no peer accepts at {self._path} ({self._why}); start one with `starling peer --trainer "
                            f"{self._path}`")
            if not self._daemon.running():
                raise Error(self._daemon.last_error())
            limit.left(late, self._daemon.last_line)
            time.sleep(0.01)
        attachment = self._attachment

        def why():
            return attachment.reason() or (self._daemon and self._daemon.last_line())
        try:
            while attachment.state not in (STARTED, OVER, REFUSED):
                attachment.connection.wait(min(1, limit.left(late, why)))
                attachment.advance()
            if attachment.state == STARTED:
                self._started()
                attachment.wait(limit)
                self._await(partners, limit)
        except Lost as lost:
            daemon = self._daemon
            ended = daemon and (daemon.stop(1) or daemon.last_error())
            raise Error(ended or f"the peer at {self._path} ended the connection: {lost}") from None
        if attachment.state == REFUSED:
            raise Error(attachment.text + self._hint())
        if attachment.state == OVER:
            if not self._live:
                raise Error(f"the peer ended before the first step: {attachment.text}{self._hint()}")
            self._finished()

    def _hint(self):
        """Trained tensors come first in the layout, so that other roles look like other tensors."""
        if "differs: tensor" not in self._attachment.text:
            return ""
        return "; which parameters require gradients when gossip() begins has to be the same, too"

    def _await(self, partners, limit):
        """Returns when so many others live, or the run is over."""
        attachment = self._attachment
        while attachment.state == STARTED and self._words.half[MEMBERS] < partners + 1:
            left = limit.left(f"{partners} partners did not come", lambda: f"{self._words.half[MEMBERS] - 1} live")
            attachment.connection.wait(min(PARTNERS_LOOK, left))
            attachment.advance()

    def _connect(self):
        try:
            head = [*self._head, *self._made()]
            self._attachment = Attachment(self._path, head, self.tensors, self._view, self._new_era, self._events,
                                          self._wait)
        except OSError as error:
            self._why = error.strerror or str(error)
            return False
        return True

    def _made(self):
        """What a peer that was lost knew of the run, for one that would otherwise begin it anew."""
        if self._steps == 0:
            return []
        return [f"made {self._steps} {self._samples} {self._others + self._samples} {int(time.monotonic() - self._began)}"]

    def _new_era(self):
        self.on_era()

    def _started(self):
        self._live, self._words = True, self._attachment.words
        self._attachment.report(learning_rate=self._rate)
        if self._daemon:
            self._daemon.attached()

    def _return(self):
        """Without waiting: the next part of getting a peer again."""
        if self._attachment is None:
            now = time.monotonic()
            if now < self._next_try:
                return
            self._next_try = now + RETRY
            if self._daemon:
                self._daemon.restart_if_ended()
            if not self._connect():
                return
        attachment = self._attachment
        try:
            attachment.advance()
        except Changed:
            raise
        except Error as error:
            attachment.state, attachment.text = REFUSED, str(error)
        if attachment.state == STARTED:
            self._started()
            self._warned = None
            log.warning("starling: attached to the peer again")
            attachment.wait(Limit(self._wait))
        if attachment.state == OVER:
            self._finished()
        elif attachment.state == REFUSED:
            if self._warned != attachment.text:
                self._warned = attachment.text
                log.warning("starling: the peer refuses this trainer, which trains on alone: %s", attachment.text)
            self._drop()
            self._next_try = time.monotonic() + RETRY_REFUSED

    def _lost(self):
        if self._live:
            log.warning("starling: the peer has ended; training continues without it until it returns")
        self._drop()

    def _part(self, reason):
        """Leaves the swarm without the last steps and parameters."""
        log.warning("starling: %s; the peer leaves the swarm, and training continues without it", reason)
        if self._live:
            self._attachment.keep_own()
            self._attachment.connection.send("bye\n")
        self._done = True
        self._drop()

    def _drop(self):
        """Closes the connection; the last words stay readable."""
        if self._attachment is not None:
            self._taken += self._attachment.taken
            self._attachment.close()
            if self._live:
                self._words = self._words.copy()
                self._others = max(0, self._words.whole[SWARM_SAMPLES] - self._samples)
        self._attachment, self._live = None, False

    # The end

    def _finished(self):
        self._done = True
        if self._events is not None:
            self._events.add("over", None, self._attachment.text)
        if self._attachment.text:
            log.info("starling: %s", self._attachment.text)
        self._drop()

    def close(self):
        """Leaves the swarm with the last steps posted, and takes the last parameters. Restores what was hooked."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        answered = self._done
        try:
            if self._live:
                answered = self._leave()
        finally:
            for undo in self.on_close:
                undo()
            if self._attachment is not None:
                self._attachment.keep_own()
            self._drop()
            if self._daemon:
                self._daemon.stop(10 if answered else 0)

    def _leave(self):
        try:
            if self._attachment.finish(REPLY_SECONDS, OVER_SECONDS):
                self._finished()
                return True
            log.warning("starling: the peer did not answer `bye` within %d s", OVER_SECONDS)
        except Lost:
            self._lost()
        except Changed as reason:
            self._part(reason)
        return self._done

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None and os.getpid() == self._pid:
            self.on_leave()
