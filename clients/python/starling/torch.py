"""Peers that train a torch.nn.Module: tensors by their names in the module, and hooks so that the loop is unchanged."""
import contextlib
import functools
import sys
import types

import torch

from .errors import Error, log
from .optimizers import TorchState
from .torch_slots import TorchSlot, kind_of
from .tree import Tensors

AVERAGED = ("running_mean", "running_var")  # buffers, of all normalizations
BACKWARDS = 1000  # without a step of the optimizer: more than are accumulated for one


def start(tensor):
    """The address of the memory that a tensor and its views share."""
    return getattr(tensor, "untyped_storage", tensor.storage)().data_ptr()


def unwrap(model):
    """The module whose tensors have the names that every peer uses: without DataParallel, DDP and torch.compile."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            inner = model.module
        if inner is None:
            return model
        model = inner


class ModelTensors(Tensors):
    """Parameters (trained, or frozen without requires_grad) and persistent buffers: running statistics of
    normalizations are averaged (running), all others are kept (frozen). Those that is_local(name, tensor) holds for are
    not declared. What is declared depends on names, shapes and types, never on values. Slots follow the names: what the model has now under a name is exchanged."""

    def __init__(self, model, is_local=None):
        self.model = model = unwrap(model)
        for module in model.modules():
            if type(module).__name__ == "FullyShardedDataParallel":
                raise Error("the model is wrapped by FSDP, which shards its parameters; a peer needs whole ones: use "
                            "DDP, or one process per peer")
        slots, tied, seen = [], [], {}
        for name, tensor, role in (*self._parameters(), *self._buffers()):
            if id(tensor) in seen:
                tied.append((name, seen[id(tensor)]))
            elif not (is_local and is_local(name, tensor)) and (
                    kind_of(name, tensor) or role != "trained") and tensor.numel() > 0:
                seen[id(tensor)] = name
                slots.append(TorchSlot(name, tensor, role))
        super().__init__(slots, tied)
        by_name = {slot.name: slot for slot in slots}
        self._tied = {other: by_name[name] for other, name in tied if name in by_name}
        self._told = set(self._now()) - set(self._tied)  # names that are exchanged, or known to stay local

    def _now(self):
        return {name: tensor for table in ("_parameters", "_buffers") for _, _, name, tensor in self._members(table)}

    def refresh(self):
        now = self._now()
        for slot in self.slots:
            slot.follow(now.get(slot.name))
        new = [name for _, _, name, tensor in self._members("_parameters")
               if name not in self._told and self._is_local(name, tensor)]
        self._told.update(new)
        if new:
            more = f" and {len(new) - 3} more" if len(new) > 3 else ""
            log.warning("starling: %s%s: added after gossip() began, so not exchanged", ", ".join(new[:3]), more)

    def keep_own(self):
        shared = {start(slot.arena) for slot in self.slots if slot.arena is not None}
        super().keep_own()
        for tensor in self._now().values():  # those that weight_norm and others make from the data of a view
            if tensor.device.type == "cpu" and tensor.layout == torch.strided and start(tensor) in shared:
                tensor.data = tensor.data.clone()

    def _is_local(self, name, tensor):
        slot = self._tied.get(name)
        return slot is None or (tensor is not slot.values and tensor.data_ptr() != slot.values.data_ptr())

    def _members(self, table):
        for prefix, module in self.model.named_modules(remove_duplicate=False):
            for key, tensor in getattr(module, table).items():
                if tensor is not None:
                    yield module, key, f"{prefix}.{key}" if prefix else key, tensor

    def _parameters(self):
        for _, _, name, tensor in self._members("_parameters"):
            yield name, tensor, "trained" if tensor.requires_grad else "frozen"

    def _buffers(self):
        for module, key, name, tensor in self._members("_buffers"):
            complex_ones = not torch.nn.parameter.is_lazy(tensor) and tensor.is_complex()  # local, unlike parameters
            if key not in module._non_persistent_buffers_set and not complex_ones:
                kind_of(name, tensor)
                yield name, tensor, "running" if key in AVERAGED else "frozen"

    def warn_of_frozen(self):
        """Of a base model that travels with its adapters."""
        every, frozen = sum(slot.floats for slot in self.slots), sum(slot.floats for slot in self.slots if slot.frozen)
        if 2 * frozen > every:
            log.warning("starling: %s of %s floats are frozen: %.1f MB that nothing changes and every exchange and joiner "
                        "copies; local= keeps them out (for adapters of PEFT: local=starling.peft.base(model))",
                        f"{frozen:,}", f"{every:,}", 4e-6 * frozen)

    def device(self):
        return self.slots[0].values.device if self.slots else torch.device("cpu")

    def describe(self):
        device = self.device()
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
        return f"torch {torch.__version__} {name}"


class Losses:
    """Which scalar's backward() was called last: torch.Tensor.backward is wrapped while anyone listens."""

    listeners = []
    originals = []
    running = 0  # calls of backward()

    @classmethod
    def listen(cls, listener):
        """Calls listener(loss) at each backward() of a scalar; returns a function that ends this."""
        if not cls.listeners:
            cls._wrap()
        cls.listeners.append(listener)

        def stop():
            cls.listeners.remove(listener)
            if not cls.listeners:
                while cls.originals:
                    owner, name, original = cls.originals.pop()
                    setattr(owner, name, original)
        return stop

    @classmethod
    def _wrap(cls):
        backward, scaler = torch.Tensor.backward, _grad_scaler()

        def backward_and_tell(tensor, *args, **kwargs):
            if tensor.numel() == 1:
                loss = getattr(tensor, "_starling_unscaled", tensor).detach()
                for listener in cls.listeners:
                    listener(loss)
            cls.running += 1
            try:
                return backward(tensor, *args, **kwargs)
            finally:
                cls.running -= 1
        cls._replace(torch.Tensor, "backward", backward_and_tell)
        if scaler:
            scale = scaler.scale

            def scale_and_note(self, outputs):
                scaled = scale(self, outputs)
                if isinstance(outputs, torch.Tensor):
                    scaled._starling_unscaled = outputs
                return scaled
            cls._replace(scaler, "scale", scale_and_note)

    @classmethod
    def _replace(cls, owner, name, function):
        cls.originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)


def _grad_scaler():
    """The class that multiplies losses before backward()."""
    return getattr(getattr(torch, "amp", None), "GradScaler", None) or torch.cuda.amp.GradScaler


class Hook:
    """Calls function(...). Its copies and what is pickled of it do nothing, and load without this package."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")  # returns None, whatever its arguments are


class Hooks:
    """Calls peer.step after each optimizer step, with the samples of the forward passes and the sum of the losses
    since the last one. `weight`: processes that make each step together (DDP). Closes the peer if it fails."""

    def __init__(self, peer, model, optimizer, weight=1):
        self.peer, self.optimizer, self.weight = peer, optimizer, weight
        self.samples = [0, 0, 0]  # since the last step: see _forward()
        self.loss, self.rate = None, None
        self.backwards = 0  # since the last step
        self.stepping = False  # in optimizer.step()
        self.after = None  # called after each step
        forget_compiled()
        try:
            peer.on_close.append(self._hook_forward(model))
            peer.on_close.append(Losses.listen(self._backward))
            if optimizer is not None:
                peer.on_era = lambda: optimizer.state.clear()
                peer.on_close.append(hook_step(optimizer, self._stepped, self._begins_step))
        except BaseException:
            peer.close()
            raise

    def _hook_forward(self, model):
        try:
            return model.register_forward_pre_hook(Hook(self._forward), with_kwargs=True).remove
        except TypeError:  # before PyTorch 2
            return model.register_forward_pre_hook(Hook(self._forward)).remove

    def _forward(self, module, args, kwargs=None):
        """Counts passes in training, those that a backward pass repeats (activation checkpointing), and those of a model in
        eval(), which is trained so where its batch norm is fixed. The first of the three that has any counts."""
        if torch.is_grad_enabled():
            kind = 1 if in_backward() else 0 if module.training else 2
            value = first_tensor((args, kwargs or {}))
            if value is not None:
                self.samples[kind] += value.shape[0] * self.weight if value.dim() else self.weight

    def _backward(self, loss):
        """The loss of a step is the sum of its parts: of accumulated gradients, or of several losses."""
        if self.stepping:  # a closure, which computes the loss of this step once more
            if self.backwards == 0:
                self.loss = loss
        else:
            self.loss = loss if self.backwards == 0 or self.loss is None else self.loss + loss.to(self.loss.device)
        self.backwards += 1
        if self.backwards == BACKWARDS and self.optimizer is not None:
            log.warning("starling: the optimizer given to gossip() made no step in %d backward passes, so nothing is "
                        "exchanged; if another one trains the model, call gossip() with that one", BACKWARDS)

    def _begins_step(self):
        self.stepping = True

    def _stepped(self, result=None):
        self.stepping = False
        loss, samples, self.backwards = self.loss, next((n for n in self.samples if n), None), 0
        if isinstance(result, (float, torch.Tensor)):  # a closure's
            loss = result
        self.samples = [0, 0, 0]
        if self.peer.counted is not None:
            samples, self.peer.counted = self.peer.counted * self.weight, 0
        if isinstance(loss, torch.Tensor):
            loss = loss.item if loss.device.type != "cpu" else loss.item()
        rate = self.optimizer.param_groups[0]["lr"]
        if rate is not self.rate:
            self.rate = rate
            self.peer.report(learning_rate=float(rate))
        if self.peer.batch is not None:
            samples = self.peer.batch * self.weight
        self.peer.step(samples, None if self.peer.own_loss else loss)
        if self.after:
            self.after()


def forget_compiled():
    """What torch.compile made of modules without hooks does not call hooks that come later: it is made anew."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


def in_backward():
    """Whether this thread is in a backward pass."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task() != -1 if task else Losses.running > 0


def first_tensor(values, depth=4):
    """The first tensor in these values and the lists, tuples and dictionaries in them, or None."""
    if isinstance(values, torch.Tensor):
        return values
    if depth and isinstance(values, (list, tuple, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            found = first_tensor(value, depth - 1)
            if found is not None:
                return found
    return None


def innermost(optimizer):
    """The optimizer that makes the steps of one that wraps it, as accelerate's and Lightning's do: the wrapper may leave
    steps out. SAM's wrapper calls it base_optimizer."""
    for _ in range(4):
        inner = getattr(optimizer, "optimizer", getattr(optimizer, "base_optimizer", None))
        if not isinstance(inner, torch.optim.Optimizer) or inner is optimizer:
            break
        optimizer = inner
    return optimizer


def hook_step(optimizer, stepped, begins=lambda: None):
    """Calls begins() before and stepped(result) after each optimizer.step(); result: None, or what step() returned.
    Returns a function that ends this."""
    optimizer = innermost(optimizer)
    if hasattr(optimizer, "register_step_post_hook"):
        try:
            hooks = [optimizer.register_step_post_hook(Hook(lambda *_: stepped())),
                     optimizer.register_step_pre_hook(Hook(lambda *_: begins()))]
            return lambda: [hook.remove() for hook in hooks]
        except AttributeError:  # of a subclass that has not called PyTorch's constructor
            pass
    step = optimizer.step
    active = [True]

    @functools.wraps(step)  # and has the marks of learning-rate schedulers
    def step_and_tell(self, *args, **kwargs):
        if self is not optimizer:  # but its copy
            return type(self).step(self, *args, **kwargs)
        if active:
            begins()
        result = step(*args, **kwargs)
        if active:
            stepped(result)
        return result
    step_and_tell.__name__ = "step"  # by which an optimizer that saves its attributes finds its class's step
    own = "step" in vars(optimizer)
    optimizer.step = wrapped = types.MethodType(step_and_tell, optimizer)

    def stop():
        active.clear()
        if vars(optimizer).get("step") == wrapped:  # else a scheduler has wrapped it, too
            if own:
                optimizer.step = step
            else:
                del optimizer.step
    return stop


def check(model, optimizer):
    """Raises Error if no peer can be made of these."""
    if any(isinstance(hook, Hook) for hook in model._forward_pre_hooks.values()):
        raise Error("this model has a peer already; close() that one first")
    if optimizer is not None and not all(hasattr(optimizer, name) for name in ("step", "param_groups", "state")):
        raise Error(f"optimizer must be one torch.optim.Optimizer, got {type(optimizer).__name__}; gossip() takes no "
                    "list of them and no learning-rate scheduler")


def state_of(tensors, optimizer, state):
    """What a newcomer copies beside the parameters. `state`: False, True, or further objects with state_dict()."""
    if state is False or state is None:
        return None
    more = {} if state is True else dict(state) if isinstance(state, dict) else {
        f"{type(one).__name__}.{number}": one for number, one in enumerate(
            state if isinstance(state, (list, tuple)) else [state])}
    for name, one in more.items():
        if not all(callable(getattr(one, method, None)) for method in ("state_dict", "load_state_dict")):
            raise Error(f"state: {name} is of type {type(one).__name__}, which has no state_dict() and load_state_dict()")
    return TorchState(None if optimizer is None else innermost(optimizer), tensors.slots, more)


def gossip(model, optimizer, attach, restore, is_local=None, state=True):
    """A peer that trains `model`; attach(tensors, device) makes it after restore(). Several processes with DDP are one
    peer."""
    check(model, optimizer)
    tensors = ModelTensors(model, is_local)
    restore()
    tensors.state = state_of(tensors, optimizer, state)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        if torch.distributed.get_world_size() > 1:
            from .ddp import gossip_of_group
            return gossip_of_group(model, optimizer, tensors, attach)
    peer = attach(tensors, tensors.describe())
    tensors.warn_of_frozen()
    Hooks(peer, model, optimizer)
    return peer
