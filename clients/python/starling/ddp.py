"""Several processes with DistributedDataParallel as one peer: rank 0 has the connection and sends the others what
the swarm has changed, after every eighth step."""
import contextlib

import torch
import torch.distributed as dist

from .errors import Changed, Error
from .peer import Position, Progress
from .torch import Hooks, hook_step

EVERY = 8  # steps
NOTHING, TAKEN, NEW_ERA, FAILED = range(4)
WITH_STATE = 8  # added to the flag: the state of the optimizer follows


class Group:
    """What the ranks send one another. All of them call the same methods in the same order."""

    def __init__(self, tensors, optimizer):
        self.tensors, self._optimizer = tensors, optimizer

    def broadcast(self, flag):
        """Sends rank 0's flag and, if there is something new, its tensors. Returns the flag. A new era clears the
        state of the optimizer, unless a member's state came with it."""
        device, state = self.tensors.device(), self.tensors.state
        if state and state.received:
            flag, state.received = flag | WITH_STATE, False
        word = torch.tensor([flag], device=device)
        dist.broadcast(word, 0)
        flag, with_state = int(word.item()) & ~WITH_STATE, int(word.item()) & WITH_STATE
        if flag in (TAKEN, NEW_ERA):
            with contextlib.suppress(Changed):  # rank 0's peer has said it; all ranks have changed alike
                self.tensors.refresh()
            with torch.no_grad():
                for slot in self.tensors.slots:
                    whole = slot.values.data.contiguous()
                    dist.broadcast(whole, 0)
                    slot.values.data.copy_(whole)
        if flag == NEW_ERA and dist.get_rank() != 0 and self._optimizer is not None:
            self._optimizer.state.clear()
        if with_state:
            pieces = [piece.to(device) for piece in state.values()]
            for piece in pieces:
                dist.broadcast(piece, 0)
            if dist.get_rank() != 0:
                state.load(pieces)
                state.received = False
        return flag


class Follower:
    """A rank other than 0. It has no connection: its progress, share and members say nothing, and it gets no events."""

    def __init__(self, optimizer, group):
        self._group, self._steps = group, 0
        self.began, self.resumed = 0, None  # the steps before a file of save(), and its values
        if group.broadcast(NOTHING) == FAILED:
            raise Error("rank 0 found no peer; its error says why")
        self._stop = hook_step(optimizer, self._stepped) if optimizer is not None else lambda: None
        self.progress, self.share, self.own_loss = Progress(0, None, 0, 0, 1.0, False), (0, 1), False

    def _stepped(self, _=None):
        self._steps += 1
        if self._steps % EVERY == 0:
            self._group.broadcast(NOTHING)

    def report(self, **_):
        pass

    def count(self, samples):
        pass

    @property
    def position(self):
        """As rank 0's, but for the samples."""
        return Position(self.began + self._steps, None)

    def members(self):
        return []

    def save(self, path, **_):
        """Rank 0 writes the file."""

    def close(self):
        self._stop()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            self._group.broadcast(NOTHING)


class Leader:
    """Rank 0's part: `peer`, whose changes it sends."""

    def __init__(self, peer, optimizer, group):
        self._peer, self._group, self._steps, self._sent = peer, group, 0, peer.taken
        self._flag = NOTHING
        clear = peer.on_era

        def on_era():
            clear()
            self._flag = NEW_ERA
        peer.on_era = on_era

    def stepped(self):
        self._steps += 1
        if self._steps % EVERY == 0:
            flag = self._flag or (TAKEN if self._peer.taken != self._sent else NOTHING)
            self._flag, self._sent = NOTHING, self._peer.taken
            self._group.broadcast(flag)


def gossip_of_group(model, optimizer, tensors, attach):
    group = Group(tensors, optimizer)
    if dist.get_rank() != 0:
        return Follower(optimizer, group)
    try:
        peer = attach(tensors, f"{tensors.describe()} x{dist.get_world_size()}")
    except BaseException:
        group.broadcast(FAILED)
        raise
    try:
        group.broadcast(TAKEN)
    except BaseException:
        peer.close()
        raise
    hooks = Hooks(peer, model, optimizer, dist.get_world_size())
    hooks.after = Leader(peer, optimizer, group).stepped
    peer.on_leave = lambda: group.broadcast(TAKEN)
    return peer
