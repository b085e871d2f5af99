"""Train as a peer of a Starling swarm, with PyTorch, JAX, NumPy or plain Python.

    with starling.gossip(model, optimizer, join="10.0.0.7:7100"):
        train(model, optimizer)  # the loop is unchanged

A peer (`starling peer --trainer SOCKET`) exchanges parameters with other peers while this program makes the steps.
"""
import fnmatch
import os
import sys

from .checkpoint import Kept, is_ours, restore_random
from .daemon import Daemon, listen_for
from .errors import Error
from .events import Event
from .peer import WAIT, Peer, Progress, check
from .state import State
from .tree import Tree

__all__ = ["Error", "Event", "Peer", "Progress", "attach", "gossip"]


def gossip(model, optimizer=None, *, join=None, listen=None, socket=None, mode="copy", name=None, model_name=None,
           data=None, epoch=None, batch=None, state=True, wait=WAIT, partners=0, on_event=None, target=None, resume=None,
           objects=None, local=None, program=None, log=None, **settings):
    """Makes this program a peer, and returns it: a context manager that leaves the swarm at its end.

    model: a torch.nn.Module, whose `optimizer` then reports each step, or arrays as for `attach`. join="HOST:PORT"
    starts a peer that joins a run, listen="HOST:PORT" one that begins it (or, with join, accepts others there);
    socket=PATH uses a peer that runs. Defaults of all three: $STARLING_SOCKET, else $STARLING_JOIN and
    $STARLING_LISTEN. mode: "copy", or "view" for float32 on the CPU.
    name: of the peer; model_name, data: in the run; epoch: training samples in one; batch: samples of a usual step.
    state: what a peer that joins copies beside the parameters: by default the state of PyTorch's `optimizer`; False for
    nothing, or further objects with state_dict(), such as a scheduler.
    wait: seconds that the beginning may take, and later each wait of a step, before it is an Error; None: any time.
    partners: others that must live before this function returns. on_event: a function that is called between two steps,
    in the thread that makes them, with an Event for what happens in the swarm. target: an accuracy; report() of one that
    reaches it makes an Event, too.
    resume: a file of Peer.save(), to continue from there; another path is a setting of the peer. objects: more that has
    state_dict(), such as {"scheduler": scheduler}, for save() and resume.
    local: what is not exchanged and in no joiner's copy: a function of (name, tensor), or patterns of names such as
    ["*.embedding.*"].
    program: the starling program, default $STARLING_PROGRAM, the one of this package, or the one on PATH. log: a file
    for the peer's log, default stderr. settings: flags of the peer, such as every="8 steps", rule="d-psgd", epochs=3,
    http="127.0.0.1:7180".
    Raises Error if the peer cannot begin, and a later step if it waits for longer than `wait`."""
    if not (join or listen or socket or os.environ.get("STARLING_SOCKET")):
        join = [one.strip() for one in os.environ.get("STARLING_JOIN", "").split(",") if one.strip()]
        listen = os.environ.get("STARLING_LISTEN")
    if resume is not None and not is_ours(resume):
        settings["resume"], resume = resume, None
    return _gossip(model, optimizer, join, listen, socket, mode, model_name, data, epoch, batch,
                   dict(settings, name=name), program, log, None, state, _news(wait, partners, on_event, target), resume,
                   objects, local)


def attach(params, socket=None, mode="copy", *, model_name=None, data=None, epoch=None, batch=None, roles=None, wait=WAIT,
           partners=0, on_event=None, target=None):
    """A peer for parameters by hand: a dictionary, list or tuple of arrays, nested or not, whose keys are their names.
    After each step call peer.exchange. roles: for arrays that are not trained, {"name": "running" or "frozen"}. wait,
    partners, on_event, target: as for gossip()."""
    return _gossip(params, None, None, None, socket, mode, model_name, data, epoch, batch, {}, None, None, roles, False,
                   _news(wait, partners, on_event, target))


def _news(wait, partners, on_event, target):
    """The arguments of a Peer about waits and events. Raises Error if one is none."""
    if wait is not None and not (_is_number(wait) and wait > 0):
        raise Error(f"wait must be a number of seconds above 0, or None, got {wait!r}")
    if not (isinstance(partners, int) and 0 <= partners < 2**31):
        raise Error(f"partners must be a number of other peers from 0 on, got {partners!r}")
    if on_event is not None and not callable(on_event):
        raise Error(f"on_event must be a function, got {type(on_event).__name__}")
    if target is not None and not (_is_number(target) and 0 <= target <= 1):
        raise Error(f"target must be an accuracy from 0 to 1, got {target!r}")
    if target is not None and on_event is None:
        raise Error("target needs on_event, the function that is told when the accuracy is reached")
    return {"wait": wait, "partners": partners, "on_event": on_event, "target": target}


def _local(local):
    """A function of (name, tensor), or None. Raises Error if `local` is neither one nor patterns."""
    if local is None or callable(local):
        return local
    patterns = [local] if isinstance(local, str) else list(local) if isinstance(local, (list, tuple, set)) else None
    if patterns is None or not all(isinstance(one, str) for one in patterns):
        raise Error(f"local must be a function of a name and a tensor, or patterns of names, got {local!r}")
    return lambda name, _: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _gossip(model, optimizer, join, listen, socket, mode, model_name, data, epoch, batch, settings, program, log,
            roles, state, news, resume=None, objects=None, local=None):
    head = [f"{word} {value}" for word, value in
            (("model", model_name), ("data", data), ("epoch", epoch), ("batch", batch)) if value is not None]
    for line in head:
        if len(line.split()) != 2 or not line.isprintable():
            raise Error(f'"{line}" must be one word without spaces after the first')

    is_local = _local(local)
    place, values, states = None, None, None

    def restore():
        nonlocal place, values, states
        if resume is not None:
            content = kept.restore(resume)
            place, values, states = content["place"], content["values"], content["random"]

    def begin(tensors, device):
        check(tensors, mode)
        tensors.resumed = place is not None
        for slot in tensors.slots if place else ():
            slot.adopted = slot.frozen  # as if it attached again
        daemon, path = None, socket or os.environ.get("STARLING_SOCKET")
        if join or listen:
            listens = listen or os.environ.get("STARLING_LISTEN") or listen_for(join)
            daemon = Daemon(program, {"join": join, "listen": listens, **settings}, log)
            path = daemon.socket
        elif not path:
            raise Error('gossip needs join="HOST:PORT", listen="HOST:PORT", or socket=PATH of a running peer '
                        "(default: $STARLING_SOCKET)")
        elif any(value is not None for value in settings.values()):
            raise Error("settings of a peer that runs already cannot be changed: "
                        + ", ".join(key for key, value in settings.items() if value is not None))
        return Peer(tensors, path, [*head, f"device {device}"], mode, epoch, batch, daemon, **news, kept=kept, place=place)

    torch = sys.modules.get("torch")
    if torch and isinstance(model, torch.nn.Module):
        from .torch import gossip as gossip_of_model, unwrap
        kept = Kept(unwrap(model), optimizer, objects)
        peer = gossip_of_model(model, optimizer, begin, restore, is_local, state)
    else:
        tree = Tree(model, roles, is_local)
        kept = Kept(tree, None, objects)
        restore()
        if not isinstance(state, (State, bool, type(None))):
            raise Error("state: objects are for modules of PyTorch; with JAX the state is the second argument of "
                        "starling.jax.gossip()")
        tree.state = state if isinstance(state, State) else None
        peer = begin(tree, _device())
    peer.resumed = values
    if place and isinstance(peer, Peer):
        restore_random(states)
    elif place:  # another rank, whose generators are its own
        peer.began = place["steps"]
    return peer


def _device():
    for library in ("jax", "torch", "numpy"):
        if library in sys.modules:
            return f"{library} {getattr(sys.modules[library], '__version__', '')}".rstrip()
    return "python {}.{}".format(*sys.version_info)
