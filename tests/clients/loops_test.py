#!/usr/bin/python3
"""Loops as people write them with PyTorch and frameworks: loops_test.py PROGRAM [--count N] [--seed N] [--only WORD]

PROGRAM is build/release/starling. Each of N programs (default 150) is drawn from a table of networks, optimizers, loops and
modes. It runs without a peer and as the only peer of a swarm, where nothing is exchanged: the final values of all tensors
must be the same, to the last bit in view mode, and the samples those that the loader has. Every third one also runs as
two peers in lock-step (d-psgd) with data of their own, whose gradients become zero: then parameters and running statistics
agree. Needs the packages of scripts/frameworks; without them there is nothing to do. The last line is "N passed, N failed".
"""
import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import sys
import time
import traceback
import warnings

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import HANG, require, seed_of_commit, until  # noqa: E402
from table import tied  # noqa: E402

sys.path.pop(0)  # where transformers would find the folder of a package that it looks for
sys.path.insert(0, os.path.join(suite.SOURCE, "clients", "python"))
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")

try:
    import accelerate
    import lightning
    import peft
    import torch
    import transformers
    from torch import nn
except ImportError as missing:
    torch, why = None, missing

ROWS, BATCH, PARTS = 45, 8, 4  # samples of an epoch, of a batch (the last has 5), batches of a step if accumulated
EPOCHS, PAIR_EPOCHS, QUIET = 3, 10, 5  # of two peers; the epochs from QUIET on have no gradients


# ---- networks, with 8 inputs and 2 outputs ----

def networks():
    class Taught(nn.Module):
        """A student whose moving average, without gradients, teaches it."""

        def __init__(self):
            super().__init__()
            self.student, self.teacher = nn.Linear(8, 2), nn.Linear(8, 2).requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                for t, s in zip(self.teacher.parameters(), self.student.parameters()):
                    t.lerp_(s, 0.1)
            return self.student(x) + 0.1 * self.teacher(x)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(2, 8), nn.Linear(8, 2)

        def forward(self, x):  # inside, the batch is the second extent
            return self.head(self.cells(x.view(-1, 4, 2).transpose(0, 1))[0][-1])

    class Observed(nn.Module):
        """Notes the range of its inputs, as quantization does: at first an empty one."""

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 2)
            self.register_buffer("low", torch.tensor(float("inf")))
            self.register_buffer("high", torch.tensor(float("-inf")))

        def forward(self, x):
            self.low.copy_(torch.minimum(self.low, x.detach().min()))
            self.high.copy_(torch.maximum(self.high, x.detach().max()))
            return self.layer(x)

    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(16, 8, sparse=True), nn.Linear(8, 2)
            self.head.requires_grad_(False)

        def forward(self, x):
            return self.head(self.table(x.mul(2).long() % 16).mean(1))

    def layers(*between):
        return nn.Sequential(nn.Linear(8, 8), *between, nn.Linear(8, 2))

    def frozen():
        model = layers(nn.ReLU())
        model[0].requires_grad_(False)
        return model

    def lazy():
        model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(2))
        model(torch.zeros(1, 8))
        return model

    def adapted():
        return peft.get_peft_model(layers(nn.Tanh()), peft.LoraConfig(r=2, target_modules=["0", "2"]))
    return {"tied": tied, "frozen": frozen, "teacher": Taught, "LoRA": adapted, "recurrent": Recurrent,
            "batch norm": lambda: layers(nn.BatchNorm1d(8), nn.ReLU()), "observer": Observed, "sparse": Sparse, "lazy": lazy,
            "double": lambda: layers(nn.Tanh()).double(), "bfloat16": lambda: layers(nn.Tanh()).bfloat16(),
            "compiled": lambda: layers(nn.GELU())}


def task(network):
    """The network with a loss, and with `gain`, by which gradients are multiplied."""
    class Task(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.gain = networks()[network](), 1.0

        def forward(self, x, labels=None):
            out = self.net(x.to(next(self.net.parameters()).dtype))
            return {"loss": nn.functional.mse_loss(out.float(), labels.float()) * self.gain, "logits": out}
    return Task()


def second_epoch(model, network, whole=True):
    """What happens to the network in the middle."""
    if network == "frozen" and whole:  # DDP does not reduce what is unfrozen later
        model.net[0].requires_grad_(True)
    if network == "LoRA":
        model.net.merge_adapter()
        with torch.no_grad():
            model(torch.ones(3, 8), torch.ones(3, 2))
        model.net.unmerge_adapter()


# ---- optimizers ----

def lookahead(inner, every=3):
    class Lookahead(torch.optim.Optimizer):
        """As usual, it does not call PyTorch's constructor."""

        def __init__(self):
            self.optimizer, self.state = inner, inner.state
            self.param_groups, self.defaults = inner.param_groups, inner.defaults
            self.slow = [[p.detach().clone() for p in group["params"]] for group in self.param_groups]
            self.steps = 0

        def step(self, closure=None):
            loss = self.optimizer.step(closure)
            self.steps += 1
            if self.steps % every == 0:
                with torch.no_grad():
                    for group, slow in zip(self.param_groups, self.slow):
                        for p, s in zip(group["params"], slow):
                            p.copy_(s.lerp_(p, 0.5))
            return loss

        def zero_grad(self, set_to_none=True):
            self.optimizer.zero_grad(set_to_none)

        def state_dict(self):
            return self.optimizer.state_dict()

        def load_state_dict(self, state):
            self.optimizer.load_state_dict(state)
    return Lookahead()


def optimizers():
    kinds = torch.optim
    return {"SGD": lambda p: kinds.SGD(p, 0.05), "momentum": lambda p: kinds.SGD(p, 0.05, momentum=0.9, nesterov=True),
            "Adam": lambda p: kinds.Adam(p, 0.01), "AdamW": lambda p: kinds.AdamW(p, 0.01, amsgrad=True),
            "RMSprop": lambda p: kinds.RMSprop(p, 0.005), "Adagrad": lambda p: kinds.Adagrad(p, 0.05),
            "LBFGS": lambda p: kinds.LBFGS([q for q in p if q.requires_grad], 0.1, max_iter=3),
            "look-ahead": lambda p: lookahead(kinds.SGD(p, 0.05))}


OPTIMIZERS = ["SGD", "momentum", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS", "look-ahead"]
LOOPS = ["plain", "accumulating", "scaled", "Lightning", "Lightning manual", "Trainer", "accelerate", "DDP"]
NETWORKS = ["tied", "frozen", "teacher", "LoRA", "recurrent", "batch norm", "observer", "sparse", "lazy", "double", "bfloat16",
            "compiled"]


def fits(network, optimizer, loop, mode):
    """Whether PyTorch and the framework can do this without a peer."""
    if network in ("double", "bfloat16") and (mode == "view" or loop == "scaled"):
        return False  # only float32 can be viewed, and scalers are for float32
    if network == "sparse":
        return optimizer in ("SGD", "Adagrad") and loop not in ("scaled", "DDP", "Trainer")
    if optimizer == "LBFGS":
        return loop in ("plain", "Lightning") and network in ("tied", "recurrent", "batch norm", "lazy", "observer", "double")
    if optimizer == "look-ahead":
        return loop in ("plain", "accumulating", "accelerate")
    return True


# ---- a run, in a process of its own ----

class Run:
    """One training. `place`: "none" without a peer, "alone", or 0 or 1 of a pair."""

    def __init__(self, choice, place, folder, program):
        self.network, self.optimizer_name, self.loop, self.mode = choice
        self.place, self.folder, self.program = place, folder, program
        self.pair = place in (0, 1)
        self.epochs = PAIR_EPOCHS if self.pair else EPOCHS
        self.counted = {"samples": 0, "steps": 0}
        torch.manual_seed(7)
        torch.set_num_threads(1)
        generator = torch.Generator().manual_seed(place if self.pair else 5)
        x = torch.randn(ROWS, 8, generator=generator)
        self.data = [{"x": row, "labels": row[:2] * 0.5 + row[2:4]} for row in x]
        self.model = task(self.network)
        self.optimizer = optimizers()[self.optimizer_name](list(self.model.parameters()))
        self.whole = self.model
        if self.network == "compiled" and self.loop != "Trainer":  # which compiles itself
            self.whole = torch.compile(self.model, backend="aot_eager")

    def arguments(self):
        path = os.path.join(self.folder, f"{self.place}")
        if self.place != 1:
            more = {"listen": "127.0.0.1:0", **({"rule": "d-psgd", "expect": 2} if self.pair else {"every": "1 steps"})}
        else:
            first = os.path.join(self.folder, "0.log")
            more = {"join": until(lambda: os.path.exists(first) and re.search(r"listens at (\S+),", open(first).read()),
                                  "the first peer listens").group(1)}
        if self.network == "LoRA":
            import starling.peft
            more["local"] = starling.peft.base(self.model)
        return {"mode": self.mode, "name": f"p{self.place}", "log": path + ".log", "program": self.program, **more}

    def gossip(self, model=None, optimizer=None):
        """A context with a peer, or with none."""
        if self.place == "none":
            return contextlib.nullcontext()
        import starling
        return starling.gossip(self.whole if model is None else model, optimizer or self.optimizer, **self.arguments())

    def callback(self, module):
        if self.place == "none":
            return []
        return [getattr(__import__("starling." + module), module).Gossip(**self.arguments())]

    def epoch(self, number):
        if number == 0:
            self.meet("begun")  # both have a peer
        if number == 1:
            second_epoch(self.model, self.network, self.loop != "DDP")
        if self.pair and number >= QUIET:
            self.model.gain = 0.0
            for module in self.model.modules():  # nor does a batch move statistics
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.momentum = 0.0
            for state in self.optimizer.state.values():  # momentum moves nothing, either
                for value in state.values():
                    if isinstance(value, torch.Tensor) and value.dim():
                        value.zero_()

    def finished(self):
        self.meet("done")

    def meet(self, what):
        """Waits until both of a pair are here."""
        if self.pair and "RANK" not in os.environ:
            open(os.path.join(self.folder, f"{self.place}.{what}"), "w").close()
            other = os.path.join(self.folder, f"{1 - self.place}.{what}")
            until(lambda: os.path.exists(other), f"the other one has {what}", 0.002)

    def loader(self):
        return torch.utils.data.DataLoader(self.data, BATCH, shuffle=True, generator=torch.Generator().manual_seed(3))

    def train(self):
        getattr(self, "train_" + self.loop.replace(" ", "_").lower())()

    def train_plain(self):
        with self.gossip() as peer:
            for epoch in range(self.epochs):
                self.epoch(epoch)
                for batch in self.loader():
                    def closure():
                        self.optimizer.zero_grad()
                        loss = self.whole(**batch)["loss"]
                        loss.backward()
                        return loss
                    if self.optimizer_name == "LBFGS":
                        if peer:
                            peer.count(len(batch["x"]))  # several passes for a step
                        self.optimizer.step(closure)
                    else:
                        closure()
                        self.optimizer.step()
            if self.network == "LoRA":
                self.model.net.merge_adapter()
            self.finished()

    def train_accumulating(self):
        with self.gossip():
            for epoch in range(self.epochs):
                self.epoch(epoch)
                loader = self.loader()
                for k, batch in enumerate(loader, 1):
                    (self.whole(**batch)["loss"] / PARTS).backward()
                    if k % PARTS == 0 or k == len(loader):
                        self.optimizer.step()
                        self.optimizer.zero_grad()
            self.finished()

    def train_scaled(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        with self.gossip():
            for epoch in range(self.epochs):
                self.epoch(epoch)
                for batch in self.loader():
                    self.optimizer.zero_grad()
                    with torch.autocast("cpu", torch.float16 if self.network != "recurrent" else torch.bfloat16):
                        loss = self.whole(**batch)["loss"]
                    scaler.scale(loss).backward()
                    scaler.step(self.optimizer)
                    scaler.update()
            self.finished()

    def train_accelerate(self):
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        model, optimizer, loader = accelerator.prepare(self.whole, self.optimizer, self.loader())
        with self.gossip(model, optimizer):
            for epoch in range(self.epochs):
                self.epoch(epoch)
                for batch in loader:
                    with accelerator.accumulate(model):
                        accelerator.backward(model(**batch)["loss"])
                        optimizer.step()
                        optimizer.zero_grad()
            self.finished()

    def train_ddp(self):
        """This is rank 0; rank 1 is another process."""
        torch.distributed.init_process_group("gloo", init_method=f"file://{self.folder}/{self.place}.group",
                                             rank=int(os.environ.get("RANK", 0)), world_size=2)
        model = nn.parallel.DistributedDataParallel(self.whole)
        sampler = torch.utils.data.DistributedSampler(self.data, seed=3)
        loader = torch.utils.data.DataLoader(self.data, BATCH, sampler=sampler)
        with self.gossip(model):
            for epoch in range(self.epochs):
                self.epoch(epoch)
                sampler.set_epoch(epoch)
                for batch in loader:
                    self.optimizer.zero_grad()
                    model(**batch)["loss"].backward()
                    self.optimizer.step()
            self.finished()
            torch.distributed.barrier()

    def train_lightning(self, manual=False):
        run = self

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.inner = run.whole
                self.automatic_optimization = not manual

            def training_step(self, batch, index):
                loss = self.inner(**batch)["loss"]
                if manual:
                    optimizer = self.optimizers()
                    optimizer.zero_grad()
                    self.manual_backward(loss)
                    optimizer.step()
                return loss

            def configure_optimizers(self):
                return run.optimizer

            def on_train_epoch_start(self):
                run.epoch(self.current_epoch)

            def on_train_epoch_end(self):
                if self.current_epoch == run.epochs - 1:
                    run.finished()
        parts = 1 if manual or self.optimizer_name == "LBFGS" else 2
        trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=self.epochs, accumulate_grad_batches=parts,
                                    callbacks=self.callback("lightning"), logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Module(), self.loader())

    def train_lightning_manual(self):
        self.train_lightning(manual=True)

    def train_trainer(self):
        run = self

        class Events(transformers.TrainerCallback):
            def on_epoch_begin(self, args, state, control, **_):
                run.epoch(int(round(state.epoch or 0)))

            def on_step_end(self, args, state, control, **_):
                if control.should_training_stop:
                    run.finished()
        settings = transformers.TrainingArguments(
            os.path.join(self.folder, f"{self.place}.folder"), per_device_train_batch_size=BATCH, num_train_epochs=self.epochs,
            gradient_accumulation_steps=PARTS, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
            remove_unused_columns=False, lr_scheduler_type="constant", seed=3, max_grad_norm=0, logging_steps=1000,
            torch_compile_backend="aot_eager" if self.network == "compiled" else None)
        trainer = transformers.Trainer(self.whole, settings, train_dataset=self.data, optimizers=(self.optimizer, None),
                                       callbacks=[Events(), *self.callback("transformers")])
        trainer.train()

    def samples(self):
        """That the loaders have."""
        return (ROWS + ROWS % 2 if self.loop == "DDP" else ROWS) * self.epochs

    def save(self):
        state = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        averaged = [name for name, p in self.model.named_parameters() if p.requires_grad]
        averaged += [name for name, _ in self.model.named_buffers() if name.endswith(("running_mean", "running_var"))]
        torch.save({"state": state, "averaged": averaged, **self.counted}, os.path.join(self.folder, f"{self.place}.pt"))


def note_counts(counted):
    """Notes the samples and steps of a peer that closes."""
    import starling.peer
    close = starling.peer.Peer.close

    def noting(peer):
        if peer._attachment:
            counted.update(samples=peer._attachment.samples, steps=peer._attachment.steps)
        close(peer)
    starling.peer.Peer.close = noting


def in_process(choice, place, folder, program, rank):
    """The whole of a forked process: trains, saves, and exits."""
    with open(os.path.join(folder, f"{place}{'' if rank is None else f'-{rank}'}.out"), "w", encoding="utf-8") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        transformers.logging.set_verbosity_error()
        if rank:
            os.environ["RANK"] = str(rank)
        code = 1
        try:
            run = Run(choice, place, folder, program)
            note_counts(run.counted)
            run.train()
            if not rank:
                run.save()
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# ---- the test ----

class Loops(suite.Suite):
    def __init__(self, binary, folder):
        super().__init__(folder)
        self.binary = binary
        flag = dict(zip(sys.argv, sys.argv[1:]))
        self.count, self.only = int(flag.get("--count", 150)), flag.get("--only", "")
        self.random = random.Random(int(flag.get("--seed", seed_of_commit())))
        self.equal = self.close_by = self.pairs = self.statistics = 0

    def run(self):
        if torch is None:
            print(f"   skipped: {why}; scripts/frameworks installs what is needed")
            return
        networks_left, loops_left = [], []
        for k in range(self.count):
            choice, networks_left, loops_left = self.draw(networks_left or list(NETWORKS), loops_left or list(LOOPS))
            name = f"{k}: {', '.join(choice)}"
            if self.only in name:
                self.case(name, lambda k=k, choice=choice: self.row(os.path.join(self.folder, str(k)), choice, k % 3 == 0))
        print(f"   {self.equal} equal to the last bit, {self.close_by} as close as copies are; {self.pairs} pairs agree, "
              f"with {self.statistics} running statistics")

    def draw(self, networks_left, loops_left):
        """Each network and each loop comes equally often."""
        for _ in range(1000):
            network, loop = self.random.choice(networks_left), self.random.choice(loops_left)
            optimizer, mode = self.random.choice(OPTIMIZERS), self.random.choice(["copy", "view"])
            if fits(network, optimizer, loop, mode):
                return ((network, optimizer, loop, mode), [n for n in networks_left if n != network],
                        [one for one in loops_left if one != loop])
        return self.draw(list(NETWORKS), list(LOOPS))

    def row(self, folder, choice, pair):
        os.makedirs(folder)
        plain, = self.results(folder, choice, ["none"])
        alone, = self.results(folder, choice, ["alone"])
        run = Run(choice, "alone", folder, self.binary)
        require(alone["samples"] == run.samples(), f"{alone['samples']} samples, the loader has {run.samples()}")
        self.compare(choice, plain, alone)
        if pair:
            a, b = self.results(folder, choice, [0, 1])
            self.agree(a, b)

    def results(self, folder, choice, places):
        fork = multiprocessing.get_context("fork")
        ranks = [0, 1] if choice[2] == "DDP" else [None]
        processes = [fork.Process(target=in_process, args=(choice, place, folder, self.binary, rank))
                     for place in places for rank in ranks]
        for process in processes:
            process.start()
        end = time.monotonic() + HANG
        while any(process.is_alive() for process in processes):
            if any(process.exitcode for process in processes) or time.monotonic() > end:
                for process in processes:
                    process.kill()
            multiprocessing.connection.wait([process.sentinel for process in processes if process.is_alive()], 1)
        texts = [open(os.path.join(folder, name), encoding="utf-8", errors="replace").read()[-900:]
                 for name in sorted(os.listdir(folder)) if name.endswith(".out")]
        require(all(process.exitcode == 0 for process in processes), "\n".join(texts))
        return [torch.load(os.path.join(folder, f"{place}.pt")) for place in places]

    def compare(self, choice, plain, alone):
        """To the last bit; in copy mode, where float32 rounds sums of differences, to 1e-5, and bfloat16 to some roundings."""
        exact, worst, where = True, 0.0, None
        for name, x in plain["state"].items():
            y = alone["state"][name]
            if not torch.equal(x, y):
                exact = False
                difference = ((x.double() - y.double()).abs() / (1 + x.double().abs())).max().item()
                if not difference <= worst:
                    worst, where = difference, name
        bound = {"copy": 2.0**-4 if choice[0] == "bfloat16" else 1e-5, "view": 0}[choice[3]]
        require(worst <= bound, f"{where} is {worst:.2g} away from the value without a peer")
        self.equal += exact
        self.close_by += not exact

    def agree(self, a, b):
        require(a["steps"] > 0 and b["steps"] > 0, "a peer without steps")
        for name in a["averaged"]:
            x, y = a["state"][name].double(), b["state"][name].double()
            far = ((x - y).abs() / (1 + x.abs())).max().item()
            require(far <= 5e-3, f"{name} differs by {far:.2g} between the two peers")
            self.statistics += "running" in name
        self.pairs += 1


if __name__ == "__main__":
    sys.exit(suite.main(Loops))
