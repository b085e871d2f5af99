"""Optimizers that make several passes for a step, wrap another one, or are two."""
import starling
import torch
from suite import Skipped, require
from torch import nn

STEPS, BATCH = 12, 8


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def loss_of(model, step):
    x = torch.randn(BATCH, 4, generator=torch.Generator().manual_seed(step))
    return nn.functional.mse_loss(model(x), x[:, :2] * x[:, 2:])


class SAM(torch.optim.Optimizer):
    """As usual, it has the steps of `base_optimizer`, and two passes for each."""

    def __init__(self, parameters, base, rho=0.05, **settings):
        super().__init__(parameters, {"rho": rho, **settings})
        self.base_optimizer = base(self.param_groups, **settings)
        self.param_groups = self.base_optimizer.param_groups
        self.before = []

    @torch.no_grad()
    def first_step(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        self.before = [p.clone() for p in parameters]
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        for p in parameters:
            p.add_(p.grad, alpha=float(0.05 / norm))

    @torch.no_grad()
    def second_step(self):
        for p, old in zip((p for group in self.param_groups for p in group["params"]), self.before):
            p.copy_(old)
        self.base_optimizer.step()


def train_sharp(model, optimizer, peer):
    for step in range(STEPS):
        if peer:
            peer.count(BATCH)
        for make in optimizer.first_step, optimizer.second_step:
            optimizer.zero_grad()
            loss_of(model, step).backward()
            make()


def train_lbfgs(model, optimizer, peer):
    for step in range(STEPS):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            return loss
        if peer:
            peer.count(BATCH)
        optimizer.step(closure)


def as_without_a_peer(place, make_optimizer, train, mode, samples=STEPS * BATCH):
    ends = []
    for with_peer in False, True:
        model = network()
        optimizer = make_optimizer(model.parameters())
        if with_peer:
            with starling.gossip(model, optimizer, **place.arguments(mode=mode)) as peer:
                train(model, optimizer, peer)
        else:
            train(model, optimizer, None)
        ends.append([p.detach().clone() for p in model.parameters()])
    require(all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(*ends)), f"{mode}: the values differ")
    place.counted(samples, STEPS)


def sam_steps_once_for_two_passes(place):
    for mode in "copy", "view":
        as_without_a_peer(place, lambda p: SAM(p, torch.optim.SGD, lr=0.05, momentum=0.9), train_sharp, mode)


def lbfgs_steps_once_for_many_passes(place):
    for mode in "copy", "view":
        as_without_a_peer(place, lambda p: torch.optim.LBFGS(p, 0.1, max_iter=4), train_lbfgs, mode)


def two_optimizers_train_what_is_exchanged(place):
    """One is given to gossip(): it reports the steps, and the parameters of both are exchanged."""
    def train(model, optimizer, peer):
        other = torch.optim.Adam(model[2].parameters(), 0.01)
        for step in range(STEPS):
            for one in other, optimizer:
                one.zero_grad()
                loss_of(model, step).backward()
                one.step()
    for mode in "copy", "view":
        as_without_a_peer(place, lambda p: torch.optim.SGD(list(p)[:2], 0.05), train, mode, 2 * STEPS * BATCH)


def changes_after_the_last_step_stay(place):
    """Also if that step posted the parameters: look-ahead and averages change them after the hook."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with starling.gossip(model, optimizer, **place.arguments(every="1 steps")) as peer:
        attachment, posted = peer._attachment, False
        for step in range(100000):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
            posted = attachment._posted_steps == attachment.steps
            if posted:
                break
        require(posted, "no step posted")
        with torch.no_grad():
            model[0].weight.add_(1.0)
        last = model[0].weight.clone()
    require(torch.allclose(last, model[0].weight, 1e-5, 1e-6), "the change is lost")


def compiled_code_counts_its_samples(place):
    """Whatever was compiled, and whether it ran before gossip() or not."""
    if not hasattr(torch, "compile"):
        raise Skipped("this torch does not compile")
    for what in "model", "model in place", "step":
        for ran_before in False, True:
            model = network()
            optimizer = torch.optim.AdamW(model.parameters(), 0.01)
            called = torch.compile(model, backend="aot_eager") if what == "model" else model

            def step(number):
                optimizer.zero_grad()
                loss_of(called, number).backward()
                optimizer.step()
            if what == "model in place":
                model.compile(backend="aot_eager")
            elif what == "step":
                step = torch.compile(step, backend="aot_eager")
            if ran_before:
                step(0)
            with starling.gossip(model, optimizer, **place.arguments()) as peer:
                for number in range(3):
                    step(number)
                require(tuple(peer.position) == (3, 3 * BATCH), f"{what}, {ran_before}: {peer.position}")


CASES = [compiled_code_counts_its_samples, changes_after_the_last_step_stay, sam_steps_once_for_two_passes,
         lbfgs_steps_once_for_many_passes, two_optimizers_train_what_is_exchanged]
