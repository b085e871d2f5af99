"""What a trainer is told of the swarm between its steps."""
import collections

Event = collections.namedtuple("Event", "kind name text")
Event.__doc__ = """What gossip(on_event=) gets. kind, name of the member, text:
"joined" NAME: a member lives; "lost" NAME "left" or "failed"; "mixed" NAME: an exchange with it was mixed into the peer's
parameters; "missed" None "12": so many events were not told, because the last step took long; "target" None "0.97": the
accuracy that was reported has reached gossip(target=); "over" None WHY: the run has ended."""


class Events:
    """Those that wait for the next step, in their order, from the lines `event TEXT` of one peer after the other."""

    def __init__(self):
        self._waiting = collections.deque()
        self._members, self._before = collections.Counter(), collections.Counter()  # by name
        self._listed = 0  # members that a peer has still to name, after the line `event members`

    def __bool__(self):
        return bool(self._waiting)

    def pop(self):
        return self._waiting.popleft()

    def add(self, kind, name=None, text=""):
        self._waiting.append(Event(kind, name, text))

    def take(self, line):
        """Of one line, without its first word. Unknown kinds are ignored."""
        kind, _, rest = line.partition(" ")
        name, _, text = rest.partition(" ")
        if kind == "members":
            self._before, self._members, self._listed = self._members, collections.Counter(), int(name or 0)
            self._forget_before()
        elif kind == "joined":
            self._joined(name)
        elif kind == "lost":
            self._members[name] -= 1
            self.add(kind, name, text)
        elif kind == "mixed":
            self.add(kind, name)
        elif kind == "missed":
            self.add(kind, None, name)

    def _joined(self, name):
        self._members[name] += 1
        if self._listed and self._before[name] > 0:  # known from the peer before this one
            self._before[name] -= 1
        else:
            self.add("joined", name)
        if self._listed:
            self._listed -= 1
            self._forget_before()

    def _forget_before(self):
        if self._listed == 0:
            for name in self._before.elements():
                self.add("lost", name, "failed")
            self._before.clear()
