"""What happens to a model of PyTorch during gossip(): the rows of "The life of a model" in docs/TRAINERS.md."""
import copy
import io
import os
import pickle
import subprocess
import sys
import tempfile
import types

import daemon
import starling
import starling.peer
from stage import raises, steps_until
from suite import Skipped, require
from torch_cases import needs_torch, network, same, sgd, torch, train, values

LOAD = """
import sys, torch
model = torch.load(sys.argv[1], **({} if torch.__version__ < "2" else {"weights_only": False}))
model(torch.ones(2, 4)).sum().backward()
torch.optim.SGD(model.parameters(), 0.1).step()
print("starling" in sys.modules)
"""


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **({} if torch.__version__ < "2" else {"weights_only": False}))


def copies_and_saved_models_have_no_peer(stage):
    needs_torch()
    for mode in "copy", "view":
        peer = stage.daemon()
        model = network()
        optimizer = sgd(model)
        with starling.gossip(model, optimizer, socket=stage.socket, mode=mode):
            train(model, optimizer, steps=2)
            averaged = torch.optim.swa_utils.AveragedModel(model)
            for other in copy.deepcopy(model), copy.deepcopy(copy.deepcopy(model)), pickled(model), saved(model), \
                    averaged.module:
                require(same(values(model), values(other)), f"{mode}: the values")
                before = values(model)
                train(other, sgd(other))
                require(same(before, values(model)) and not same(before, values(other)), f"{mode}: it trains alone")
            averaged.update_parameters(model)
            train(model, optimizer, steps=1)
            require(peer.get(daemon.STEPS) == 3 and peer.get(daemon.SAMPLES) == 24, f"{mode}: the model's samples only")
            path = os.path.join(stage.folder, "model.pt")
            torch.save(model, path)
        peer.die()
    loaded = subprocess.run([sys.executable, "-c", LOAD, path], capture_output=True, text=True)
    require(loaded.stdout == "False\n", f"it loads without this package: {loaded.stdout}{loaded.stderr}")


def copies_of_an_optimizer_report_no_steps(stage):
    needs_torch()

    class Whole(torch.optim.SGD):  # saves all that it has
        def __getstate__(self):
            return dict(self.__dict__)
    sys.modules[__name__].Whole = Whole
    Whole.__qualname__ = "Whole"
    for kind in torch.optim.SGD, Whole:
        peer = stage.daemon()
        model = network()
        optimizer = kind(model.parameters(), lr=0.05)
        with starling.gossip(model, optimizer, socket=stage.socket):
            train(model, optimizer, steps=2)
            before = values(model)
            for other in copy.deepcopy(optimizer), pickled(optimizer), saved(optimizer):
                for group in other.param_groups:
                    for parameter in group["params"]:
                        parameter.grad = torch.ones_like(parameter)
                first = other.param_groups[0]["params"][0].clone()
                other.step()
                require(not torch.equal(first, other.param_groups[0]["params"][0]), "the copy makes its step")
            require(same(before, values(model)) and peer.get(daemon.STEPS) == 2, f"{kind.__name__}: its own step")
        peer.die()


def assign(model, fill):
    if "assign" not in torch.nn.Module.load_state_dict.__code__.co_varnames:
        raise Skipped("this torch has no load_state_dict(assign=True)")
    model.load_state_dict({name: torch.full_like(x, fill) for name, x in model.state_dict().items()}, assign=True)


def new_module(model, fill):
    model[0] = torch.nn.Linear(4, 8)
    model[0].weight.data.fill_(fill)


def to_empty(model, fill):
    model.to_empty(device="cpu")
    for tensor in model.state_dict().values():
        tensor.fill_(fill)


def overwritten(model, fill):
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model._apply(lambda x: torch.full_like(x, fill))
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


def new_data(model, fill):
    model[0].weight.data = torch.full((8, 4), fill)


def replaced(change, stage):
    for mode in "copy", "view":
        peer = stage.daemon(every=1, ahead=1)
        model = network()
        trainer = stage.keep(starling.gossip(model, socket=stage.socket, mode=mode))
        trainer.step(1)
        change(model, 7.0)
        trainer.step(1)
        peer.until(lambda: peer.get(daemon.STEPS) == 2, "the step")
        require(peer.value("0.weight") == [7.0] * 32, f"{mode}: the swarm has the new values")
        peer.mix(lambda value, i: value + 1)
        trainer.step(1)
        require(bool((model[0].weight == 8).all()), f"{mode}: the new tensor takes exchanges: {model[0].weight}")
        change(model, 5.0)
        trainer.close()
        require(bool((model[0].weight == 5).all()) or mode == "copy", f"{mode}: the last values are not lost")
        require(not stage.messages.texts, f"{mode}: {stage.messages.texts}")
        peer.die()


def assigned_parameters_are_followed(stage):
    needs_torch()
    replaced(assign, stage)


def parameters_of_new_modules_are_followed(stage):
    needs_torch()
    replaced(new_module, stage)


def emptied_parameters_are_followed(stage):
    needs_torch()
    replaced(to_empty, stage)


def overwritten_parameters_are_followed(stage):
    needs_torch()
    replaced(overwritten, stage)


def new_data_of_parameters_are_followed(stage):
    needs_torch()
    replaced(new_data, stage)


def prune(model):
    from torch.nn.utils import prune
    prune.l1_unstructured(model[0], "weight", 0.5)


def parametrize(model):
    torch.nn.utils.parametrize.register_parametrization(model[0], "weight", torch.nn.Identity())


def tensors_of_another_kind_end_the_membership_once(stage):
    needs_torch()
    import torch.nn.utils.parametrize
    no_more = "0.weight is no longer in the model"
    for words, change in (
            (no_more, prune), (no_more, parametrize), (no_more, lambda model: torch.nn.utils.weight_norm(model[0])),
            (no_more, lambda model: model.__setattr__("0", torch.nn.Identity())),
            ("is torch.float32 with shape [3, 4]", lambda model: setattr(model[0].weight, "data", torch.zeros(3, 4))),
            ("is torch.float64", lambda model: model.double()), ("on the meta device", lambda model: model.to("meta"))):
        for mode in "copy", "view":
            peer = stage.daemon(every=1, ahead=1)
            model = network()
            trainer = stage.keep(starling.gossip(model, socket=stage.socket, mode=mode))
            trainer.step(1)
            change(model)
            for _ in range(3):
                trainer.step(1)
            peer.until(lambda: peer.ends, "the peer leaves")
            require("bye" in peer.lines and trainer.progress.done, f"{mode}: it left in peace")
            require(len(stage.messages.texts) == 1 and stage.messages.count(words), f"{mode}: {stage.messages.texts}")
            if mode == "view":
                peer.mix(lambda value, i: 9.0)
            own = [name for name, x in model.named_parameters() if x.is_meta or not bool((x == 9).any())]
            require(own == list(dict(model.named_parameters())), f"{mode}, {words}: {own} are the model's own")
            trainer.close()
            stage.messages.texts.clear()
            peer.die()


def a_change_before_the_end_is_said_too(stage):
    needs_torch()
    for mode in "copy", "view":
        peer = stage.daemon(every=1000)
        model = network()
        with starling.gossip(model, socket=stage.socket, mode=mode) as trainer:
            trainer.step(1)
            prune(model)
        peer.until(lambda: peer.ends, "the peer leaves")
        require(stage.messages.count("0.weight is no longer in the model") == 1, f"{mode}: {stage.messages.texts}")
        stage.messages.texts.clear()
        peer.die()


def added_and_untied_parameters_are_named_once(stage):
    needs_torch()
    peer = stage.daemon(every=1, ahead=1)
    model = network()
    model.head = torch.nn.Linear(8, 2)
    model.head.weight = model[3].weight
    trainer = stage.keep(starling.gossip(model, socket=stage.socket))
    model.add_module("extra", torch.nn.BatchNorm1d(2))
    model.extra.add_module("last", torch.nn.Linear(2, 2))
    model.register_buffer("cache", torch.zeros(2), persistent=False)
    model.head.weight = torch.nn.Parameter(torch.zeros(2, 8))
    for _ in range(3):
        trainer.step(1)
    require(stage.messages.texts == [
        "starling: head.weight, extra.weight, extra.bias and 2 more: added after gossip() began, so not exchanged"],
            f"{stage.messages.texts}")
    with torch.no_grad():
        model[3].weight.fill_(4)
    trainer.step(1)
    require(peer.value("3.weight") == [4.0] * 16 and peer.ends == 0, "the others are exchanged")


def unfrozen_parameters_are_exchanged(stage):
    needs_torch()
    for mode in "copy", "view":
        peer = stage.daemon(every=1, ahead=1)
        model = network()
        model[0].weight.requires_grad = False
        trainer = stage.keep(starling.gossip(model, socket=stage.socket, mode=mode))
        trainer.step(1)
        model[0].weight.requires_grad = True
        model[0].weight.data.fill_(4)
        peer.on_post = lambda p: p.mix(lambda value, i: value + 1)
        trainer.step(1)
        peer.until(lambda: peer.value("0.weight") == ([5.0] if mode == "copy" else [4.0]) * 32, "it is exchanged")
        require(model[0].weight.flatten().tolist() == peer.value("0.weight"), f"{mode}: {model[0].weight}")
        peer.die()


def frozen_tensors_are_kept(stage):
    """What the program writes into a frozen tensor stays; the arena follows it, for those that join."""
    needs_torch()
    for mode in "copy", "view":
        peer = stage.daemon(every=1, ahead=1)
        model = network()
        model[0].requires_grad_(False)
        model.register_buffer("scale", torch.ones(2))
        trainer = stage.keep(starling.gossip(model, socket=stage.socket, mode=mode))
        trainer.step(1)
        with torch.no_grad():
            model[0].bias.fill_(3)
            model.scale.data = torch.full((2,), 4.0)
            model[1].num_batches_tracked += 6
        peer.on_post = lambda p: p.mix(lambda value, i: value + 1)
        for _ in range(3):
            trainer.step(1)
        peer.until(lambda: peer.rings >= 3, "rings")
        peer.replace([0.5] * peer.count, era=1)
        peer.on_post = None
        trainer.step(1)
        trainer.close()
        require(model[0].bias.tolist() == [3.0] * 8 and model.scale.tolist() == [4.0] * 2, f"{mode}: {model[0].bias}")
        require(model[1].num_batches_tracked.item() == 6, f"{mode}: {model[1].num_batches_tracked}")
        require(peer.value("0.bias") == [3.0] * 8 and peer.value("scale") == [4.0] * 2, f"{mode}: {peer.value('0.bias')}")
        require(peer.value("1.num_batches_tracked") == [6.0], f"{mode}: the counter")
        peer.die()


def buffers_that_become_unusable_are_kept_and_harm_nothing(stage):
    needs_torch()
    for mode in "copy", "view":
        peer = stage.daemon(every=1, ahead=1)
        model = network()
        model.register_buffer("sum", torch.ones(3))
        trainer = stage.keep(starling.gossip(model, socket=stage.socket, mode=mode))
        trainer.step(1)
        bad = torch.tensor([float("nan"), 1.2e18 * 2, float("-inf")])
        model.sum.copy_(bad)
        for _ in range(2):
            trainer.step(1)
        peer.until(lambda: peer.rings >= 3, "rings")
        require(peer.value("sum") == [2.0**-120] * 3, f"{mode}: {peer.value('sum')}")
        trainer.close()
        require(str(model.sum) == str(bad), f"{mode}: {model.sum}")
        peer.die()


def networks_and_optimizers_of_every_layout_train_as_without_a_peer(stage):
    """Convolutions in channels_last, spectral norm, a fused optimizer, and a loop in asyncio."""
    needs_torch()
    import asyncio

    def make(fused):
        torch.manual_seed(8)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                    torch.nn.utils.spectral_norm(torch.nn.Linear(16, 2))).to(memory_format=torch.channels_last)
        more = {"fused": True} if fused else {}
        return model, torch.optim.AdamW(model.parameters(), 0.01, **more)

    def run(model, optimizer, steps=5):
        generator = torch.Generator().manual_seed(2)
        for _ in range(steps):
            x = torch.randn(4, 3, 4, 4, generator=generator).contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    fused = torch.__version__ >= "2.4" and not torch.__version__.startswith("1.")  # on processors
    plain, optimizer = make(fused)
    run(plain, optimizer)
    for mode in "copy", "view":
        peer = stage.daemon(f"{stage.socket}-{mode}", every=1000)
        model, optimizer = make(fused)

        async def train(peer=peer, model=model, optimizer=optimizer, mode=mode):
            with starling.gossip(model, optimizer, socket=peer.path, mode=mode):
                run(model, optimizer)
                await asyncio.sleep(0)
                require(all(torch.equal(a, b) for a, b in zip(plain.state_dict().values(), model.state_dict().values())),
                        f"{mode}: other values")
        asyncio.run(train())
        require("bye" in peer.lines and peer.get(daemon.SAMPLES) == 20, f"{peer.get(daemon.SAMPLES)} samples")


def what_is_local_is_neither_declared_nor_changed(stage):
    needs_torch()
    for local in (["0.*", "*.running_*"], ("0.weight", "0.bias", "1.running_mean", "1.running_var"),
                  lambda name, tensor: name.startswith("0.") or tensor.dim() == 1 and "running" in name):
        peer = stage.daemon(f"{stage.socket}{id(local)}", every=1)
        peer.on_post = lambda p: p.mix(lambda value, i: value + 1)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        trainer = stage.keep(starling.gossip(model, optimizer, socket=peer.path, local=local))
        require([t.name for t in peer.tensors] == ["1.weight", "1.bias", "2.weight", "2.bias", "1.num_batches_tracked"],
                f"{[t.name for t in peer.tensors]}")
        model.eval()
        steps_until(trainer, lambda: bool((model[2].bias != before["2.bias"]).all()), "an exchange", optimizer.step)
        for name in "0.weight", "0.bias", "1.running_mean", "1.running_var":
            require(torch.equal(model.state_dict()[name], before[name]), f"{name} has changed")
        trainer.close()
        require(not stage.messages.count("added after"), f"{stage.messages.texts}")
    raises(starling.Error, "local must be a function of a name and a tensor, or patterns of names, got 3",
           lambda: starling.gossip(torch.nn.Linear(2, 1), socket=stage.socket, local=3))
    raises(starling.Error, "there is nothing to train", lambda: starling.gossip(torch.nn.Linear(2, 1), socket=stage.socket, local="*"))


def a_frozen_base_that_travels_is_named_with_its_bytes(stage):
    needs_torch()
    stage.daemon()
    for frozen, count in (1, 1), (0, 0):
        model = torch.nn.Sequential(torch.nn.Linear(1000, 250), torch.nn.Linear(250, 10))
        model[1 - frozen].requires_grad_(False)
        trainer = starling.gossip(model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1),
                                  socket=stage.socket)
        trainer.close()
        found = stage.messages.count("250,250 of 252,760 floats are frozen: 1.0 MB that nothing changes")
        require(found == count and len(stage.messages.texts) == count, f"{stage.messages.texts}")
        stage.messages.texts.clear()


def values_of_buffers_do_not_matter(stage):
    """Whether a model fits depends on names, shapes and types: what cannot travel is each trainer's own."""
    needs_torch()
    lowest, inf = torch.finfo(torch.float32).min, float("inf")
    for mode in "copy", "view":
        peer = stage.daemon(every=1)
        first, second, third = network(), network(), network()
        for model, values in (first, [lowest, -inf, inf, 1.0]), (second, [lowest, 2.0, -inf, inf]), (third, [1e300] * 4):
            model.register_buffer("mask", torch.tensor(values, dtype=torch.float64))
            model.register_buffer("many", torch.tensor([2**24 + 1, 7]))
        starling.gossip(first, socket=stage.socket, mode=mode).close()
        fit = [(t.name, t.text) for t in peer.tensors]
        with starling.gossip(second, socket=stage.socket, mode=mode) as trainer:
            trainer.step(1)
        require(fit == [(t.name, t.text) for t in peer.tensors], f"{mode}: {fit}")
        require(first.mask.tolist() == [lowest, -inf, inf, 1.0], f"{mode}: {first.mask}")
        require(second.mask.tolist() == [lowest, 2.0, -inf, 1.0], f"{mode}: {second.mask}")
        starling.gossip(third, socket=stage.socket, mode=mode).close()
        require(third.mask.tolist() == [1e300, 2.0, 1e300, 1.0], f"{mode}: {third.mask}")
        require(all(abs(value) < 2**60 for value in peer.current()), f"{mode}: no peer accepts this")
        require(first.many.tolist() == [2**24 + 1, 7], f"{mode}: {first.many}")
        peer.die()


def values_that_cannot_travel_are_named(stage):
    needs_torch()
    peer = stage.daemon()
    for name, value, says in (
            ("0.weight", 1e19, "0.weight has values up to 1e+19; a swarm averages values up to 2^60, which is 1.15e+18"),
            ("0.weight", float("inf"), "0.weight has values up to inf"), ("0.bias", float("nan"), "0.bias has NaN"),
            ("1.running_var", float("inf"), "1.running_var has values up to inf"), ("mask", float("nan"), "mask has NaN")):
        model = network()
        model.register_buffer("mask", torch.zeros(2))
        with torch.no_grad():
            model.state_dict()[name][0] = value
        raises(starling.Error, says, lambda: starling.gossip(model, socket=stage.socket))
    raises(starling.Error, "w has values up to 1e+19", lambda: starling.attach({"w": [1.0, 1e19]}, stage.socket))
    require(peer.starts == 0, "the peer has seen none of them")


def interrupted(*_):
    raise KeyboardInterrupt("while it waits")


def unfit(make):
    model = network()
    model.w = make()
    return model


def tensors_that_no_swarm_averages_are_refused_by_name(stage):
    needs_torch()

    def parameter(x):
        return torch.nn.Parameter(x, requires_grad=x.is_floating_point())
    for words, make in (
            ("w is on the meta device", lambda: parameter(torch.zeros(2, device="meta"))),
            ("w has layout torch.sparse_coo", lambda: parameter(torch.eye(2).to_sparse())),
            ("w is quantized", lambda: parameter(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))),
            ("w is a nested", lambda: parameter(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))),
            ("w.weight has no shape yet", lambda: torch.nn.LazyLinear(3))):
        model = unfit(make)
        optimizer = sgd(network())
        nothing_remains(words, stage, model, optimizer)
        model.w = None
    buffers = network()
    buffers.register_buffer("b", torch.eye(2).to_sparse())
    nothing_remains("b has layout torch.sparse_coo", stage, buffers, None)
    raises(starling.Error, "w has layout", lambda: starling.attach({"w": torch.eye(2).to_sparse()}, stage.socket))


def nothing_remains(words, stage, model, optimizer, program="/nonexistent/starling"):
    """Requires that gossip() fails with these words, by default before it starts a program, and leaves no trace."""
    backward, before = torch.Tensor.backward, tempfile.tempdir
    attributes = set(vars(optimizer)) if hasattr(optimizer, "param_groups") else None
    tempfile.tempdir = tempfile.mkdtemp(dir=stage.folder)
    try:
        raises(BaseException, words, lambda: starling.gossip(model, optimizer, listen="127.0.0.1:0", program=program,
                                                         log=os.path.join(stage.folder, "log")))
        require(not os.listdir(tempfile.tempdir), "its folder is gone")
        require(not processes(tempfile.tempdir), "its process is gone")
    finally:
        tempfile.tempdir = before
    require(torch.Tensor.backward is backward and not model._forward_pre_hooks, "hooks of the model")
    require(attributes is None or set(vars(optimizer)) == attributes, "hooks of the optimizer")


def processes(words):
    """Processes with these words in the command."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                found += [process] if words.encode() in file.read() else []
        except OSError:
            pass  # it has ended
    return found


def what_is_no_optimizer_is_refused(stage):
    needs_torch()
    model = network()
    optimizer = sgd(model)
    for kind, other in (("list", [optimizer]), ("tuple", (optimizer,)),
                        ("StepLR", torch.optim.lr_scheduler.StepLR(optimizer, 1))):
        nothing_remains(f"must be one torch.optim.Optimizer, got {kind}", stage, model, other)


def a_gossip_that_fails_late_leaves_nothing(stage):
    needs_torch()

    class Failing(torch.optim.SGD):
        def register_step_post_hook(self, hook):
            raise ZeroDivisionError("no hooks")
    model = network()
    nothing_remains("no hooks", stage, model, Failing(model.parameters(), lr=0.1), stage.stand_in())
    silent = stage.stand_in()
    with open(silent, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {sys.executable} -c "import signal; signal.pause()" "$@"\n')
    clock, starling.peer.time = starling.peer.time, types.SimpleNamespace(sleep=interrupted, monotonic=lambda: 0.0)
    try:
        nothing_remains("while it waits", stage, model, sgd(model), silent)
    finally:
        starling.peer.time = clock
    nothing_remains("cannot listen", stage, model, sgd(model), stage.stand_in("--fail", "'cannot listen'"))
    model[0].weight.data = model[0].weight.data.double()
    for words, more in (("in view mode", {"mode": "view"}), ('"copy" or "view"', {"mode": "see"})):
        raises(starling.Error, words, lambda more=more: starling.gossip(
            model, listen="127.0.0.1:0", program="/nonexistent/starling", **more))


def a_model_has_one_peer(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = sgd(model)
    with starling.gossip(model, optimizer, socket=stage.socket):
        raises(starling.Error, "has a peer already", lambda: starling.gossip(model, optimizer, socket=stage.socket))
        train(model, optimizer, steps=1)
        require(peer.get(daemon.STEPS) == 1 and peer.ends == 0, "the first one goes on")
    starling.gossip(model, optimizer, socket=stage.socket).close()
    require(peer.starts == 2, "one after the other")


def a_replaced_optimizer_is_said_once(stage):
    needs_torch()
    stage.daemon()
    model = network()
    with starling.gossip(model, sgd(model), socket=stage.socket):
        w = torch.zeros(1, requires_grad=True)
        for _ in range(2500):
            w.sum().backward()
    require(len(stage.messages.texts) == 1 and stage.messages.count("made no step in 1000 backward passes"),
            f"{stage.messages.texts}")


def a_loaded_state_of_the_optimizer_is_cleared_by_a_new_era(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    with starling.gossip(model, optimizer, socket=stage.socket):
        train(model, optimizer, steps=2)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        peer.replace([0.5] * peer.count, era=1)
        train(model, optimizer, steps=1)
        require(not optimizer.state, "fresh state")


CASES = [
    copies_and_saved_models_have_no_peer, copies_of_an_optimizer_report_no_steps, assigned_parameters_are_followed,
    parameters_of_new_modules_are_followed, emptied_parameters_are_followed, overwritten_parameters_are_followed,
    new_data_of_parameters_are_followed, tensors_of_another_kind_end_the_membership_once,
    a_change_before_the_end_is_said_too, added_and_untied_parameters_are_named_once, unfrozen_parameters_are_exchanged,
    frozen_tensors_are_kept, buffers_that_become_unusable_are_kept_and_harm_nothing,
    networks_and_optimizers_of_every_layout_train_as_without_a_peer, what_is_local_is_neither_declared_nor_changed,
    a_frozen_base_that_travels_is_named_with_its_bytes, values_of_buffers_do_not_matter, values_that_cannot_travel_are_named,
    tensors_that_no_swarm_averages_are_refused_by_name, what_is_no_optimizer_is_refused,
    a_gossip_that_fails_late_leaves_nothing, a_model_has_one_peer, a_replaced_optimizer_is_said_once,
    a_loaded_state_of_the_optimizer_is_cleared_by_a_new_era,
]
