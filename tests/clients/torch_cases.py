"""Models of PyTorch: hooks, tensors, types, and several processes as one peer."""
import os
import subprocess
import sys

import daemon
import starling
from stage import microseconds, raises
from suite import HANG, Skipped, require

try:
    import torch
except ImportError:
    torch = None

RANK = """
import faulthandler, os, sys, torch, torch.distributed as dist, starling
faulthandler.dump_traceback_later(120, exit=True)  # a hang says where
dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with starling.gossip(model, optimizer, batch=8) as peer:
    for step in range(40):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
print("weights", model.module.weight.tolist(), model.module.bias.tolist(), flush=True)
dist.barrier()
os._exit(0)  # the destructors of Gloo's threads are not what is tested; some versions abort in them
"""

# Saves, or resumes and says with what.
RANK_SAVES = """
import os, torch, torch.distributed as dist, starling
dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
torch.manual_seed(dist.get_rank() + 10 * int(os.environ["RESUMES"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters())
resume = os.environ["SAVED"] if os.environ["RESUMES"] == "1" else None
with starling.gossip(model, optimizer, resume=resume, batch=8, on_event=lambda event: None, partners=0) as peer:
    begin = [peer.position.steps, peer.resumed, [p.tolist() for p in model.parameters()],
             [[float(value.sum()) for value in state.values()] for state in optimizer.state.values()]]
    for step in range(10):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    assert peer.position.steps == begin[0] + 10, peer.position
    peer.save(os.environ["SAVED"], epoch=3)
    end = [peer.position.steps, {"epoch": 3}, [p.tolist() for p in model.parameters()],
           [[float(value.sum()) for value in state.values()] for state in optimizer.state.values()]]
print("begin", begin, flush=True)
print("end", end, flush=True)
dist.barrier()
os._exit(0)
"""


def needs_torch():
    if torch is None:
        raise Skipped("torch is not installed")


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def train(model, optimizer, steps=20, batch=8, seed=3):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = torch.randn(batch, 4, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x[:, :2])
        loss.backward()
        optimizer.step()
    return loss


def sgd(model, **more):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **more)


def values(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def alone_a_model_trains_as_without_gossip_to_the_bit(stage):
    needs_torch()
    for mode in "copy", "view":
        plain, model = network(), network()
        train(plain, sgd(plain))
        peer = stage.daemon(every=3)
        optimizer = sgd(model)
        with starling.gossip(model, optimizer, socket=stage.socket, mode=mode):
            train(model, optimizer)
        require(same(values(plain), values(model)), f"{mode}: the parameters differ")
        require(peer.value("0.weight") == model[0].weight.flatten().tolist(), f"{mode}: the arena differs")
        peer.die()


def tensors_have_the_names_and_roles_of_the_model(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    model[0].weight.requires_grad = False
    model.head = torch.nn.Linear(8, 2)
    model.head.weight = model[3].weight
    model.register_buffer("mask", torch.full((2,), -float("inf")))
    model.register_buffer("table", torch.ones(3), persistent=False)
    counter = model[1].num_batches_tracked
    stage.keep(starling.gossip(model, socket=stage.socket))
    require([(t.name, t.role, t.text) for t in peer.tensors] == [
        ("0.weight", "trained", "8,4"), ("0.bias", "trained", "8"), ("1.weight", "trained", "8"), ("1.bias", "trained", "8"),
        ("3.weight", "trained", "2,8"), ("3.bias", "trained", "2"), ("head.bias", "trained", "2"),
        ("mask", "frozen", "2"), ("1.running_mean", "running", "8"),
        ("1.running_var", "running", "8"), ("1.num_batches_tracked", "frozen", "-")], f"{[t.name for t in peer.tensors]}")
    require(peer.tied == [("head.weight", "3.weight")], f"{peer.tied}")
    require(model[1].num_batches_tracked is counter and "device torch" in " ".join(peer.lines), "the counter is the model's own")


def a_model_takes_the_swarms_parameters_with_frozen_and_running_ones(stage):
    needs_torch()
    swarm, other = network(), network()
    swarm_peer = stage.daemon()
    swarm[0].weight.requires_grad = other[0].weight.requires_grad = False
    with torch.no_grad():
        swarm[0].weight.fill_(0.125)
        swarm[1].running_mean.fill_(3)
    starling.gossip(swarm, socket=stage.socket).close()
    with starling.gossip(other, socket=stage.socket):
        require(same({n: t for n, t in values(swarm).items() if "num" not in n}, values(other)), "the swarm's values")
    require(swarm_peer.starts == 2, "one after the other")


def samples_losses_and_rates_are_found(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = sgd(model)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    with starling.gossip(model, optimizer, socket=stage.socket) as trainer:
        loss = train(model, optimizer, steps=3, batch=8)
        require(peer.get(daemon.SAMPLES) == 24 and peer.get(daemon.STEPS) == 3, f"{peer.get(daemon.SAMPLES)} samples")
        require(abs(peer.get(daemon.LOSS) - loss.item()) < 1e-7, "the loss of the last backward()")
        require(peer.get(daemon.LEARNING_RATE) == 0.05, "the learning rate")
        schedule.step()
        for _ in range(4):  # gradient accumulation
            model(torch.randn(5, 4)).square().mean().backward()
        with torch.no_grad():
            model(torch.randn(100, 4))
        model.eval()
        model(torch.randn(100, 4))
        model.train()
        optimizer.step()
        require(peer.get(daemon.SAMPLES) == 44 and peer.get(daemon.STEPS) == 4, "accumulated, not evaluated, samples")
        require(peer.get(daemon.LEARNING_RATE) == 0.025, "a schedule's rate")
        trainer.report(loss=9.0)
        train(model, optimizer, steps=1)
        require(peer.get(daemon.LOSS) == 9.0, "a reported loss stays")


def samples_are_a_given_batch_or_the_passes_of_training(stage):
    needs_torch()
    from torch.utils.checkpoint import checkpoint
    x, warnings = torch.randn(6, 4), []

    def samples(model, loss, **settings):
        peer = stage.daemon()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with starling.gossip(model, optimizer, socket=stage.socket, **settings):
            for _ in range(3):
                optimizer.zero_grad()
                loss().backward()
                optimizer.step()
            return peer.get(daemon.SAMPLES) / 3

    model = torch.nn.Linear(4, 2)
    warn, log = starling.errors.log.warning, starling.errors.log
    log.warning = lambda text, *values: warnings.append(text % values)
    try:
        require(samples(model, lambda: model(x).mean(), batch=16) == 16, "a given batch")
        for reentrant in False, True:
            inputs = x.clone().requires_grad_()
            require(samples(model, lambda: checkpoint(model, inputs, use_reentrant=reentrant).mean()) == 6,
                    "a pass that is repeated counts once")
        model.eval()
        require(samples(model, lambda: model(x).mean()) == 6, "a model in eval()")
        holder = torch.nn.Module()
        holder.inner = model.train()
        holder.forward = lambda batch: holder.inner(batch["x"][0])
        require(samples(holder, lambda: holder({"x": [x]}).mean()) == 6, "a dictionary")
        require(not warnings, f"{warnings}")
        require(samples(holder, lambda: holder.inner(x).mean()) == 0, "a pass that is not the model's")
        require(len(warnings) == 1 and "batch=" in warnings[0], f"{warnings}")
    finally:
        log.warning = warn


def the_loss_of_a_step_is_the_sum_of_its_parts(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = sgd(model)
    with starling.gossip(model, optimizer, socket=stage.socket):
        whole = 0.0
        for _ in range(4):
            part = model(torch.randn(5, 4)).square().mean() / 4
            part.backward()
            whole += part.item()
        optimizer.step()
        require(abs(peer.get(daemon.LOSS) - whole) < 1e-6, f"{peer.get(daemon.LOSS)} for {whole}")


def optimizers_that_wrap_another_are_hooked(stage):
    needs_torch()

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner, name, every):  # and not PyTorch's
            setattr(self, name, inner)
            self.wrapped, self.every, self.count = inner, every, 0

        state = property(lambda self: self.wrapped.state)
        param_groups = property(lambda self: self.wrapped.param_groups)

        def zero_grad(self, set_to_none=True):
            self.wrapped.zero_grad(set_to_none)

        def step(self, closure=None):
            self.count += 1
            if self.count % self.every == 0:
                self.wrapped.step(closure)

    for name, every in ("inner", 1), ("optimizer", 4):
        peer = stage.daemon()
        model = network()
        optimizer = Wrapper(sgd(model), name, every)
        with starling.gossip(model, optimizer, socket=stage.socket):
            train(model, optimizer, steps=8)
            require(peer.get(daemon.STEPS) == 8 / every, f"{peer.get(daemon.STEPS)} steps of '{name}'")
            require(peer.get(daemon.SAMPLES) == 64, f"{peer.get(daemon.SAMPLES)} samples")
    expanded = torch.nn.Linear(4, 2)
    expanded.register_buffer("scale", torch.ones(1).expand(4))
    raises(starling.Error, "scale is expanded", lambda: starling.gossip(expanded, sgd(expanded), socket=stage.socket))


def schedulers_that_are_made_inside_work(stage):
    needs_torch()
    stage.daemon()
    model = network()
    optimizer = sgd(model)
    with starling.gossip(model, optimizer, socket=stage.socket):
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        train(model, optimizer, steps=1)
        schedule.step()
    train(model, optimizer, steps=1)
    require(optimizer.param_groups[0]["lr"] == 0.025, "the schedule's rate")


def closures_are_found(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    losses = []

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(4, 4)).square().mean()
        loss.backward()
        losses.append(loss.item())
        return loss
    with starling.gossip(model, optimizer, socket=stage.socket):
        for step in 1, 2:
            first = len(losses)
            optimizer.step(closure)
            require(peer.get(daemon.STEPS) == step and peer.get(daemon.SAMPLES) >= 8, "a closure's samples")
            require(len(losses) > first + 1 and peer.get(daemon.LOSS) == losses[first], f"{peer.get(daemon.LOSS)}: {losses}")


def scaled_losses_are_reported_unscaled(stage):
    needs_torch()
    if not hasattr(torch.amp, "GradScaler"):
        raise Skipped("this torch has no GradScaler for the CPU")
    peer = stage.daemon()
    model = network()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with starling.gossip(model, optimizer, socket=stage.socket):
        loss = model(torch.ones(4, 4)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        require(abs(peer.get(daemon.LOSS) - loss.item()) < 1e-6, f"{peer.get(daemon.LOSS)} for {loss.item()}")
        before = peer.get(daemon.STEPS)
        scaler.scale(model(torch.full((4, 4), float("inf"))).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        require(peer.get(daemon.STEPS) == before, "a skipped step is none")


def hooks_are_gone_at_the_end(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = sgd(model)
    backward, attributes = torch.Tensor.backward, set(vars(optimizer))
    scaler = torch.cuda.amp.GradScaler.scale
    with starling.gossip(model, optimizer, socket=stage.socket):
        require(torch.Tensor.backward is not backward, "backward is wrapped")
    require(torch.Tensor.backward is backward and torch.cuda.amp.GradScaler.scale is scaler, "backward() and scale()")
    require(not model._forward_pre_hooks and set(vars(optimizer)) <= attributes | {"_step_count"}, "hooks")
    steps = peer.get(daemon.STEPS)
    train(model, optimizer)
    require(peer.get(daemon.STEPS) == steps, "no step is reported any more")


def half_precision_has_a_master_whose_rounding_never_shows(stage):
    needs_torch()
    for kind, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float64, "f64")):
        peer = stage.daemon(every=1, ahead=1)
        model = torch.nn.Linear(40, 10).to(kind)
        before = values(model)
        trainer = stage.keep(starling.gossip(model, socket=stage.socket))
        first = peer.current()
        require(peer.tensors[0].kind == name and same(before, values(model)), f"{name}: at the start")
        for _ in range(3):
            trainer.step(1)
        require(peer.current() == first and same(before, values(model)), f"{name}: without steps nothing changes")
        tiny = 2 ** -20  # rounding would lose it
        peer.on_post = lambda p: p.mix(lambda value, i: value + tiny)
        for _ in range(16):
            trainer.step(1)
        require(max(abs(a + 16 * tiny - b) for a, b in zip(first[:400], peer.current())) < 1e-6,
                f"{name}: exchanges add up")
        with torch.no_grad():
            model.weight += 0.5
        moved = (model.weight.data.double() - before["weight"].double()).flatten().tolist()
        peer.on_post = None
        at = peer.current()
        trainer.step(1)
        off = max(abs(peer.current()[i] - at[i] - moved[i]) for i in range(400))
        require(off < 2e-2 if name == "bf16" else off < 2e-3, f"{name}: a step arrives, {off}")
        trainer.close()
        peer.die()


def a_new_era_begins_with_fresh_optimizer_state(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    with starling.gossip(model, optimizer, socket=stage.socket):
        train(model, optimizer, steps=2)
        require(optimizer.state, "moments")
        peer.replace([0.5] * peer.count, era=1)
        train(model, optimizer, steps=1)
        require(not optimizer.state and bool((model[0].weight == 0.5).all()), "replaced")
        train(model, optimizer, steps=1)
        require(optimizer.state, "moments of the new era")


def views_follow_the_peer_that_returns(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = sgd(model)
    with starling.gossip(model, optimizer, socket=stage.socket, mode="view"):
        train(model, optimizer, steps=3)
        require(peer.value("0.bias") == model[0].bias.tolist(), "steps are made in the arena")
        peer.die()
        train(model, optimizer, steps=3)
        peer = stage.daemon(initial=[0.25] * peer.count)
        while not stage.messages.count("again"):
            train(model, optimizer, steps=1)
        train(model, optimizer, steps=3)
        require(peer.value("0.bias") == model[0].bias.tolist(), "and in the next one")
        require(peer.get(daemon.LEARNING_RATE) == 0.05, "the learning rate is reported again")
        peer.mix(lambda value, i: 0.0)
        require(not model[3].weight.any(), "exchanges change the model")
    pointer = model[0].weight.data_ptr()
    optimizer.step()
    require(model[0].weight.data_ptr() == pointer, "the parameters are the model's own")
    model.half()
    raises(starling.Error, "is f16 on cpu: in view mode",
           lambda: starling.gossip(model, socket=stage.socket, mode="view"))


def sharded_models_are_errors(stage):
    needs_torch()
    fsdp = type("FullyShardedDataParallel", (torch.nn.Linear,), {})
    raises(starling.Error, "FSDP", lambda: starling.gossip(torch.nn.Sequential(fsdp(2, 2)), socket=stage.socket))
    dtensor = type("DTensor", (torch.nn.Parameter,), {})
    model = torch.nn.Linear(2, 2)
    model.weight = dtensor(torch.zeros(2, 2))
    raises(starling.Error, "weight is sharded", lambda: starling.gossip(model, socket=stage.socket))
    complex_model = torch.nn.Module()
    complex_model.w = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    raises(starling.Error, "complex", lambda: starling.gossip(complex_model, socket=stage.socket))


def tensors_without_a_model_are_changed_in_place(stage):
    needs_torch()
    peer = stage.daemon(every=1, ahead=1)
    peer.on_post = lambda p: p.mix(lambda value, i: value + 1)
    w = torch.zeros(2, 2, requires_grad=True)
    trainer = stage.keep(starling.attach({"w": w}, stage.socket))
    require(trainer.exchange({"w": w}, loss=torch.tensor(0.5))["w"] is w and bool((w == 1).all()), f"{w}")


def workers_of_a_loader_leave_the_connection_alone(stage):
    needs_torch()
    peer = stage.daemon()
    model = network()
    optimizer = sgd(model)
    with starling.gossip(model, optimizer, socket=stage.socket):
        for x in torch.utils.data.DataLoader(torch.randn(32, 4), batch_size=8, num_workers=2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        require(peer.get(daemon.STEPS) == 4 and peer.get(daemon.SAMPLES) == 32 and peer.ends == 0, "the parent's steps")


def start_ranks(stage, program, **variables):
    return [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=stage.environment(STARLING_SOCKET=stage.socket, RANK=str(rank), OMP_NUM_THREADS="1",
                                                   **{"STORE": os.path.join(stage.folder, "ranks"), **variables}))
            for rank in range(2)]


def outputs(ranks):
    texts = [rank.communicate(timeout=HANG)[0] for rank in ranks]
    require(all(rank.returncode == 0 for rank in ranks), "\n".join(texts))
    return texts


def ranks_are_saved_and_resumed_together(stage):
    needs_torch()
    if not torch.distributed.is_available():
        raise Skipped("torch has no torch.distributed")
    said = []
    for resumes in range(2):
        peer = stage.daemon(ahead=daemon.EVER)
        texts = outputs(start_ranks(stage, RANK_SAVES, RESUMES=str(resumes), SAVED=os.path.join(stage.folder, "saved"),
                                    STORE=os.path.join(stage.folder, f"store{resumes}")))
        said.append([[line.partition(" ") for line in text.splitlines() if line.startswith(("begin ", "end "))]
                     for text in texts])
        peer.die()
    first, second = said
    require(first[0] == first[1] and second[0] == second[1], f"the ranks differ: {said}")
    require(first[0][1][2] == second[0][0][2], f"the second begins as the first ended: {said}")
    require("[20, {'epoch': 3}" in second[0][1][2], f"the steps continue: {second[0][1]}")


def ranks_of_one_model_are_one_peer(stage):
    needs_torch()
    if not torch.distributed.is_available():
        raise Skipped("torch has no torch.distributed")
    peer = stage.daemon(every=4)
    peer.on_post = lambda p: p.mix(lambda value, i: value + 0.5)
    # They meet in a file: a port could be another program's.
    ranks = start_ranks(stage, RANK)
    texts = outputs(ranks)
    last = [[line for line in text.splitlines() if line.startswith("weights")] for text in texts]
    require(last[0] == last[1] and len(last[0]) == 1, f"the ranks differ: {last}")
    require(peer.get(daemon.STEPS) == 40 and peer.get(daemon.SAMPLES) == 40 * 16, "samples of both ranks")
    require(len(peer.posts) > 5 and peer.starts == 1 and "bye" in peer.lines, "one trainer")


def a_training_hook_with_nothing_to_do_is_cheap(stage):
    needs_torch()
    stage.daemon(every=10**9)
    model = network()
    optimizer = sgd(model)
    import starling.torch
    with starling.gossip(model, optimizer, socket=stage.socket):
        train(model, optimizer, steps=1)
        if hasattr(optimizer, "_optimizer_step_post_hooks"):
            hook = next(iter(optimizer._optimizer_step_post_hooks.values()))
            cost = microseconds(lambda: hook(optimizer, (), {}))
        else:
            stepped = starling.torch.Losses.listeners[0].__self__._stepped
            cost = microseconds(stepped)
        print(f"      a hook with nothing to do, PyTorch {torch.__version__}: {cost:.2f} us")
        require(cost < 50, f"{cost} us")


CASES = [
    alone_a_model_trains_as_without_gossip_to_the_bit, tensors_have_the_names_and_roles_of_the_model,
    a_model_takes_the_swarms_parameters_with_frozen_and_running_ones, samples_losses_and_rates_are_found,
    samples_are_a_given_batch_or_the_passes_of_training, the_loss_of_a_step_is_the_sum_of_its_parts,
    optimizers_that_wrap_another_are_hooked, schedulers_that_are_made_inside_work, closures_are_found, scaled_losses_are_reported_unscaled,
    hooks_are_gone_at_the_end,
    half_precision_has_a_master_whose_rounding_never_shows, a_new_era_begins_with_fresh_optimizer_state,
    views_follow_the_peer_that_returns, sharded_models_are_errors, tensors_without_a_model_are_changed_in_place,
    workers_of_a_loader_leave_the_connection_alone, ranks_of_one_model_are_one_peer, ranks_are_saved_and_resumed_together,
    a_training_hook_with_nothing_to_do_is_cheap,
]
