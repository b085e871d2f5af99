"""Train as a peer of a Starling swarm, with PyTorch, JAX, NumPy or plain Python.

    with starling.gossip(model, optimizer, join="10.0.0.7:7100"):
        train(model, optimizer)  # the loop is unchanged

A peer (`starling peer --trainer SOCKET`) exchanges parameters with other peers while this program makes the steps.
"""
import os
import sys

from .daemon import Daemon, listen_for
from .errors import Error
from .peer import Peer, Progress, check
from .state import State
from .tree import Tree

__all__ = ["Error", "Peer", "Progress", "attach", "gossip"]


def gossip(model, optimizer=None, *, join=None, listen=None, socket=None, mode="copy", name=None, model_name=None,
           data=None, epoch=None, batch=None, state=True, program=None, log=None, **settings):
    """Makes this program a peer, and returns it: a context manager that leaves the swarm at its end.

    model: a torch.nn.Module, whose `optimizer` then reports each step, or arrays as for `attach`. join="HOST:PORT"
    starts a peer that joins a run, listen="HOST:PORT" one that begins it (or, with join, accepts others there);
    socket=PATH uses a peer that runs. Defaults of all three: $STARLING_SOCKET, else $STARLING_JOIN and
    $STARLING_LISTEN. mode: "copy", or "view" for float32 on the CPU.
    name: of the peer; model_name, data: in the run; epoch: training samples in one; batch: samples of a usual step.
    state: what a peer that joins copies beside the parameters: by default the state of PyTorch's `optimizer`; False for
    nothing, or further objects with state_dict(), such as a scheduler.
    program: the starling program, default $STARLING_PROGRAM, the one of this package, or the one on PATH. log: a file
    for the peer's log, default stderr. settings: flags of the peer, such as every="8 steps", rule="d-psgd", epochs=3,
    http="127.0.0.1:7180".
    Raises Error if the peer cannot begin."""
    if not (join or listen or socket or os.environ.get("STARLING_SOCKET")):
        join = [one.strip() for one in os.environ.get("STARLING_JOIN", "").split(",") if one.strip()]
        listen = os.environ.get("STARLING_LISTEN")
    return _gossip(model, optimizer, join, listen, socket, mode, model_name, data, epoch, batch,
                   dict(settings, name=name), program, log, None, state)


def attach(params, socket=None, mode="copy", *, model_name=None, data=None, epoch=None, batch=None, roles=None):
    """A peer for parameters by hand: a dictionary, list or tuple of arrays, nested or not, whose keys are their names.
    After each step call peer.exchange. roles: for arrays that are not trained, {"name": "running" or "frozen"}."""
    return _gossip(params, None, None, None, socket, mode, model_name, data, epoch, batch, {}, None, None, roles, False)


def _gossip(model, optimizer, join, listen, socket, mode, model_name, data, epoch, batch, settings, program, log,
            roles, state):
    head = [f"{word} {value}" for word, value in
            (("model", model_name), ("data", data), ("epoch", epoch), ("batch", batch)) if value is not None]
    for line in head:
        if len(line.split()) != 2 or not line.isprintable():
            raise Error(f'"{line}" must be one word without spaces after the first')

    def begin(tensors, device):
        check(tensors, mode)
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
        return Peer(tensors, path, [*head, f"device {device}"], mode, epoch, batch, daemon)

    torch = sys.modules.get("torch")
    if torch and isinstance(model, torch.nn.Module):
        from .torch import gossip as gossip_of_model
        return gossip_of_model(model, optimizer, begin, state)
    tree = Tree(model, roles)
    tree.state = state if isinstance(state, State) else None
    return begin(tree, _device())


def _device():
    for library in ("jax", "torch", "numpy"):
        if library in sys.modules:
            return f"{library} {getattr(sys.modules[library], '__version__', '')}".rstrip()
    return "python {}.{}".format(*sys.version_info)
