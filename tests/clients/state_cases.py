"""What a newcomer copies beside the parameters: the state of optimizers and schedulers (docs/TRAINERS.md, "State")."""
import array
import copy
import math
import os

import daemon
import starling
from stage import raises
from suite import require
from torch_cases import needs_torch, network, same, torch, train, values

TEN = 10  # steps


def optimizers():
    """Makers of PyTorch's optimizers, by a name."""
    optim = torch.optim
    return {
        "SGD": lambda p: optim.SGD(p, 0.01, momentum=0.9), "Nesterov": lambda p: optim.SGD(p, 0.01, 0.9, nesterov=True),
        "plain SGD": lambda p: optim.SGD(p, 0.01),
        "Adam": optim.Adam, "AdamW": lambda p: optim.AdamW(p, 0.01, amsgrad=True), "NAdam": optim.NAdam,
        "RAdam": optim.RAdam, "Adamax": optim.Adamax, "Adagrad": optim.Adagrad, "Adadelta": optim.Adadelta,
        "RMSprop": lambda p: optim.RMSprop(p, 0.01, centered=True, momentum=0.5), "Rprop": optim.Rprop,
        "ASGD": optim.ASGD}


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def known_state(optimizer):
    """Without what is None, as SGD has it without momentum."""
    state = optimizer.state_dict()["state"]
    found = {i: {key: value for key, value in own.items() if value is not None} for i, own in state.items()}
    return {i: own for i, own in found.items() if own}


def same_state(one, other):
    """Whether two optimizers of models of one architecture have equal states."""
    first, second = known_state(one), known_state(other)
    return first.keys() == second.keys() and all(
        first[i].keys() == second[i].keys() and all(equal(first[i][key], second[i][key]) for key in first[i])
        for i in first)


class Member:
    """A member of a swarm that trains `steps` with this optimizer; `state`: the bytes that it gives to a newcomer."""

    def __init__(self, stage, make, steps, mode="copy", **more):
        self.daemon = stage.daemon(path=stage.socket + "1", ahead=daemon.EVER)
        self.model = more.pop("model", network)()
        self.optimizer = make(self.model.parameters())
        with starling.gossip(self.model, self.optimizer, socket=stage.socket + "1", mode=mode, **more):
            train(self.model, self.optimizer, steps)
            asked = self.daemon.ask_state()
            train(self.model, self.optimizer, steps=1)
            self.daemon.until(lambda: self.daemon.get(daemon.STATE_GIVEN) == asked, "the trainer gives its state")
            self.state = self.daemon.given_state() if self.daemon.states else b""
            self.arena = None
        self.arena = self.daemon.current()
        self.daemon.die()


def newcomer(stage, make, member, mode="copy", **more):
    """(model, optimizer, the stand-in) after gossip() began with the member's parameters and state."""
    made = stage.daemon(path=stage.socket + "2", initial=member.arena, state=member.state or None)
    model = more.pop("model", network)()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    optimizer = make(model.parameters())
    stage.keep(starling.gossip(model, optimizer, socket=stage.socket + "2", mode=mode, **more))
    return model, optimizer, made


def steps_of(model, optimizer, seed):
    """The norms of the next updates."""
    norms = []
    for step in range(TEN):
        before = values(model)
        train(model, optimizer, steps=1, seed=seed + step)
        norms.append(math.sqrt(sum(float((tensor.double() - before[name].double()).square().sum())
                                   for name, tensor in dict(model.named_parameters()).items())))
    return norms


def a_newcomer_has_the_state_of_every_optimizer(stage):
    needs_torch()
    for name, make in optimizers().items():
        for mode in "copy", "view":
            member = Member(stage, make, 5, mode)
            model, optimizer, made = newcomer(stage, make, member, mode)
            require(same(values(member.model), values(model)), f"{name}, {mode}: the parameters")
            require(same_state(member.optimizer, optimizer), f"{name}, {mode}: the state")
            train(member.model, member.optimizer, 3)
            train(model, optimizer, 3)
            require(same(values(member.model), values(model)), f"{name}, {mode}: both train on alike")
            stage.peers.close()
            made.die()
    require(not stage.messages.texts, f"no warning: {stage.messages.texts}")


def the_first_steps_of_a_newcomer_have_the_size_of_the_others(stage):
    needs_torch()

    def make(parameters):
        return torch.optim.AdamW(parameters, lr=1e-3)
    member = Member(stage, make, 500)
    usual = sum(steps_of(*copy.deepcopy((member.model, member.optimizer)), 70)) / TEN
    model, optimizer, made = newcomer(stage, make, member)
    with_state = steps_of(model, optimizer, 70)
    stage.peers.close()
    made.die()
    member.state = b""
    model, optimizer, _ = newcomer(stage, make, member, state=False)
    without = steps_of(model, optimizer, 70)
    require(abs(sum(with_state) / TEN - usual) < 0.1 * usual, f"with the state: {with_state}, usual {usual}")
    require(without[0] > 1.5 * usual, f"without it: {without}, usual {usual}")


def types_and_absent_states_arrive(stage):
    needs_torch()

    def mixed():
        model = network()
        model[0].to(torch.float64)
        model[3].bias.requires_grad_(False)
        return torch.nn.Sequential(Cast(torch.float64), model[0], Cast(torch.float32), *model[1:])
    member = Member(stage, torch.optim.Adam, 4, model=mixed)
    kinds = {state.name: state.kind for state in member.daemon.states}
    require(kinds["1.weight/exp_avg"] == "f64" and kinds["5.weight/exp_avg"] == "f32", f"the types: {kinds}")
    model, optimizer, _ = newcomer(stage, torch.optim.Adam, member, model=mixed)
    require(same_state(member.optimizer, optimizer), "the state")
    require(model[5].bias not in optimizer.state, "a parameter without gradients has no state")


class Cast(torch.nn.Module if torch else object):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


def schedulers_and_other_objects_arrive(stage):
    needs_torch()
    made = []

    def make(parameters):
        optimizer = torch.optim.SGD(parameters, 0.1, momentum=0.9)
        made.append(torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9))
        return optimizer
    member_daemon = stage.daemon(path=stage.socket + "1")
    model = network()
    optimizer = make(model.parameters())
    with starling.gossip(model, optimizer, socket=stage.socket + "1", state=made):
        for _ in range(7):
            train(model, optimizer, 1)
            made[0].step()
        asked = member_daemon.ask_state()
        train(model, optimizer, 1)
        member_daemon.until(lambda: member_daemon.get(daemon.STATE_GIVEN) == asked, "the trainer gives its state")
        state = member_daemon.given_state()
    require(member_daemon.state_value("ExponentialLR.0.last_epoch", state) == [7.0], "the count of epochs")
    other = stage.daemon(path=stage.socket + "2", initial=member_daemon.current(), state=state)
    second = network()
    second_optimizer = make(second.parameters())
    stage.keep(starling.gossip(second, second_optimizer, socket=stage.socket + "2", state=[made[1]]))
    require(made[1].last_epoch == 7 and made[1].get_last_lr() == made[0].get_last_lr(), "the scheduler's position")
    require(second_optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"], "the learning rate")
    made[0].step()
    made[1].step()
    require(second_optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"], "the next learning rate")
    require(other.starts == 1, "it began")


def a_state_that_is_not_finite_is_refused(stage):
    needs_torch()
    member = Member(stage, torch.optim.Adam, 4)
    at = next(state.at for state in member.daemon.states if state.name == "0.weight/exp_avg_sq")
    damaged = bytearray(member.state)
    damaged[4 * at:4 * at + 4] = b"\x00\x00\x80\x7f"  # infinity
    member.state = bytes(damaged)
    _, optimizer, _ = newcomer(stage, torch.optim.Adam, member)
    require(not optimizer.state, "the optimizer begins anew")
    require(stage.messages.count("0.weight/exp_avg_sq of the member that was copied is not finite") == 1,
            f"a warning: {stage.messages.texts}")


def a_new_era_takes_the_state_that_came_with_it(stage):
    needs_torch()
    member = Member(stage, torch.optim.Adam, 4)
    made = stage.daemon(path=stage.socket + "3")
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    stage.keep(starling.gossip(model, optimizer, socket=stage.socket + "3"))
    train(model, optimizer, 2)
    with made.changed:
        made.offer_state(member.state)
        made.set(daemon.STATE_ERA, 2)
        made.replace(member.arena, 1)
    train(model, optimizer, 1)
    require(same_state(member.optimizer, optimizer), "the member's state")
    with made.changed:
        made.replace(member.arena, 2)
    train(model, optimizer, 1)
    require(not optimizer.state, "a new era without a state clears the optimizer's")


def a_newcomer_has_the_exact_values_of_what_is_kept(stage):
    """Frozen tensors and buffers of another type or beyond what a swarm averages, and whatever the arena has by then."""
    needs_torch()
    inf, nan = float("inf"), float("nan")

    def with_buffers():
        model = network()
        model[0].weight.requires_grad_(False)
        model.register_buffer("mask", torch.zeros(4))
        model.register_buffer("constants", torch.zeros(2, dtype=torch.float64))
        model.register_buffer("many", torch.zeros(2, dtype=torch.int64))
        model.register_buffer("flags", torch.zeros(2, dtype=torch.bool))
        return model

    def filled():
        model = with_buffers()
        model.mask.copy_(torch.tensor([-inf, inf, nan, torch.finfo(torch.float32).min]))
        model.constants.copy_(torch.tensor([1e300, 1 / 3]))
        model.many.copy_(torch.tensor([2**24 + 1, -7]))
        model.flags.copy_(torch.tensor([True, False]))
        model[0].weight.data.fill_(0.1)
        return model
    for mode in "copy", "view":
        model = with_buffers()
        made = stage.daemon(path=stage.socket + "1")
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1, momentum=0.9)
        with starling.gossip(model, optimizer, socket=stage.socket + "1", mode=mode):
            model.load_state_dict(filled().state_dict())
            train(model, optimizer, 3)
            asked = made.ask_state()
            train(model, optimizer, 1)
            made.until(lambda: made.get(daemon.STATE_GIVEN) == asked, "the trainer gives its state")
            state = made.given_state()
        require(all(abs(value) <= 2**60 for value in made.current()), f"{mode}: what no peer accepts stays out of the arena")
        mixed = [value / 2 for value in made.current()]  # with members that have other values
        other = stage.daemon(path=stage.socket + "3", initial=mixed, state=state)
        newcomer = with_buffers()
        second = torch.optim.SGD([p for p in newcomer.parameters() if p.requires_grad], 0.1, momentum=0.9)
        stage.keep(starling.gossip(newcomer, second, socket=stage.socket + "3", mode=mode))
        for name in "mask", "constants", "many", "flags", "0.weight":
            one, two = model.state_dict()[name], newcomer.state_dict()[name]
            require(torch.equal(torch.nan_to_num(one.double(), nan=5.0), torch.nan_to_num(two.double(), nan=5.0)),
                    f"{mode}, {name}: {one} and {two}")
        stage.peers.close()
        made.die()
        other.die()


def frozen_parameters_fit_those_that_are_not(stage):
    needs_torch()
    made = stage.daemon()
    frozen, free = network(), network()
    frozen[0].requires_grad_(False)
    for model in frozen, free:
        starling.gossip(model, socket=stage.socket).close()
        tensors = [(tensor.name, tensor.role, tensor.text) for tensor in made.tensors]
        first = tensors if model is frozen else first
        require(first == tensors, f"{first} and {tensors}")


def what_is_no_state_by_parameter_is_said(stage):
    needs_torch()
    made = stage.daemon()
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters())
    stage.keep(starling.gossip(model, optimizer, socket=stage.socket))
    require([state.name for state in made.states] == ["1.num_batches_tracked/kept"], "no state of the optimizer")
    require(stage.messages.count("members that join begin with an empty LBFGS") == 1, f"{stage.messages.texts}")


def objects_are_no_state_of_arrays(stage):
    stage.daemon()
    raises(starling.Error, "state: objects are for modules of PyTorch",
           lambda: starling.gossip({"w": array.array("f", [1])}, socket=stage.socket, state=[object()]))
    needs_torch()
    raises(starling.Error, "state: object.0 is of type object, which has no state_dict()",
           lambda: starling.gossip(network(), socket=stage.socket, state=[object()]))
    stage.keep(starling.gossip(network(), socket=stage.socket, state=None))


def a_resumed_trainer_keeps_its_own_state(stage):
    needs_torch()
    member = Member(stage, torch.optim.Adam, TEN)
    path = os.path.join(stage.folder, "saved")
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    stage.daemon(path=stage.socket + "3", ahead=daemon.EVER)
    with starling.gossip(model, optimizer, socket=stage.socket + "3") as peer:
        train(model, optimizer, 3)
        peer.save(path)
    _, resumed, made = newcomer(stage, torch.optim.Adam, member, resume=path)
    require(made.states and same_state(optimizer, resumed), "the member's state came in the place of the file's")
    require(not same_state(optimizer, member.optimizer), "the states differ")


CASES = [a_newcomer_has_the_state_of_every_optimizer, the_first_steps_of_a_newcomer_have_the_size_of_the_others,
         types_and_absent_states_arrive, schedulers_and_other_objects_arrive, a_state_that_is_not_finite_is_refused,
         a_new_era_takes_the_state_that_came_with_it, a_newcomer_has_the_exact_values_of_what_is_kept,
         frozen_parameters_fit_those_that_are_not, what_is_no_state_by_parameter_is_said,
         objects_are_no_state_of_arrays, a_resumed_trainer_keeps_its_own_state]
