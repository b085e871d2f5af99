#!/usr/bin/python3
"""Programs with PyTorch as people write them: programs_test.py PROGRAM [--count N] [--seed N]

PROGRAM is build/release/starling. Each of N programs (default 60) is drawn from a table of networks, optimizers, events in
its life, modes and ways to start. It joins the swarm of another one, trains, and ends by itself, by an error or by a
signal. Afterwards no process and no folder remains, each error is the expected one, and the parameters of the peer are
those of the model, unless a line says why they are not. Without PyTorch there is nothing to do. The last line is
"N passed, N failed".
"""
import inspect
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import HANG, processes_with, require, seed_of_commit, until  # noqa: E402
from table import tied  # noqa: E402

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

CLIENT = os.path.join(suite.SOURCE, "clients", "python")


# ---- the program: programs_test.py --program NETWORK OPTIMIZER EVENT MODE START JOIN FILE ----

def networks():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.cells(x.unsqueeze(1))[0][:, -1])

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1), nn.Linear(8, 2)
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x):
            return self.head(self.layer(x.unsqueeze(1))[:, 0] * self.scale)

    def frozen():
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        model[0].requires_grad_(False)
        return model
    return {"linear": lambda: nn.Linear(8, 2), "frozen": frozen, "recurrent": Recurrent, "tied": tied,
            "attention": Attention, "double": lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).double(),
            "normalized": lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))}


def optimizers():
    def grouped(model):
        first, *others = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.SGD([{"params": [first]}, {"params": others, "lr": 0.01}] if others else [first], lr=0.02)

    def of(kind, **settings):
        return lambda model: kind((p for p in model.parameters() if p.requires_grad), **settings)
    kinds = torch.optim
    return {"sgd": of(kinds.SGD, lr=0.05), "momentum": of(kinds.SGD, lr=0.05, momentum=0.9, nesterov=True),
            "adam": of(kinds.Adam, lr=0.01), "adamw": of(kinds.AdamW, lr=0.01), "rmsprop": of(kinds.RMSprop, lr=0.01),
            "adagrad": of(kinds.Adagrad, lr=0.05), "groups": grouped}


def kill(number):
    return lambda run: os.kill(os.getpid(), number)


def fail(_run):
    raise ZeroDivisionError("of the program")


def again(run):
    import starling
    try:
        starling.gossip(run.model, run.optimizer, join=run.join)
    except starling.Error as error:
        print(f"refused: {error}", flush=True)


def restore(run):
    state = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    run.model.load_state_dict(state)
    run.optimizer.load_state_dict(run.optimizer.state_dict())


def assign(run):
    if "assign" not in inspect.signature(run.model.load_state_dict).parameters:  # before PyTorch 2.1
        return data(run)
    run.model.load_state_dict({name: tensor.clone() for name, tensor in run.model.state_dict().items()}, assign=True)


def data(run):
    for parameter in run.model.parameters():
        parameter.data = parameter.data.clone()


def unfreeze(run):
    run.model.requires_grad_(True)
    for group in run.optimizer.param_groups[:1]:
        known = {id(p) for one in run.optimizer.param_groups for p in one["params"]}
        group["params"] += [p for p in run.model.parameters() if id(p) not in known]


def copies(run):
    import copy
    import io
    average = torch.optim.swa_utils.AveragedModel(run.model)
    average.update_parameters(run.model)
    copy.deepcopy(run.model)(torch.randn(4, 8, dtype=run.dtype))
    torch.save(run.model.state_dict(), io.BytesIO())


def evaluate(run):
    run.model.eval()
    with torch.no_grad():
        run.model(torch.randn(4, 8, dtype=run.dtype))
    run.model.train()


def schedule(run):
    torch.optim.lr_scheduler.StepLR(run.optimizer, 1, 0.5).step()


def load_in_forked_workers(_run):
    for _ in torch.utils.data.DataLoader(torch.randn(8, 8), batch_size=4, num_workers=2):
        pass


def in_a_thread(run):
    thread = threading.Thread(target=lambda: run.step())
    thread.start()
    thread.join()


# What happens in the middle, and the exit code.
EVENTS = {"nothing": (lambda run: None, 0), "copies": (copies, 0), "restore": (restore, 0), "assign": (assign, 0),
          "data": (data, 0), "unfreeze": (unfreeze, 0), "evaluate": (evaluate, 0), "schedule": (schedule, 0),
          "forked workers": (load_in_forked_workers, 0), "thread": (in_a_thread, 0), "gossip twice": (again, 0),
          "half": (lambda run: run.model.half().to(run.dtype), 0), "error": (fail, 1),
          "exit": (lambda run: sys.exit(3), 3), "SIGTERM": (kill(signal.SIGTERM), -15), "SIGKILL": (kill(9), -9),
          "SIGINT": (kill(signal.SIGINT), -2)}


class Run:
    def __init__(self, network, optimizer, join):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.join = join
        self.model = networks()[network]()
        self.optimizer = optimizers()[optimizer](self.model)
        self.dtype = next(self.model.parameters()).dtype

    def step(self):
        x = torch.randn(8, 8, dtype=self.dtype)
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(self.model(x), x[:, :2]).backward()
        self.optimizer.step()

    def write(self, path):
        with open(path, "wb") as file:
            for name, tensor in self.model.state_dict().items():
                if tensor.is_floating_point():
                    values = tensor.detach().double().flatten().tolist()
                    file.write(json.dumps({"name": name, "values": values}).encode() + b"\n")


def program(network, optimizer, event, mode, start, join, path):
    import starling
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
    run = Run(network, optimizer, join)
    more = {"join": join} if join != "-" else {"listen": "127.0.0.1:0", "every": "2 steps"}
    peer = starling.gossip(run.model, run.optimizer, mode=mode, name=os.path.basename(path), export=path + ".safetensors",
                           log=path + ".log", **more)
    print("joined", flush=True)
    with peer:
        for step in range(10**9 if event == "forever" else 30):
            run.step()
            if step == 15 and event in EVENTS:
                EVENTS[event][0](run)
    run.write(path + ".model")


# ---- the test ----

def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    return {name: struct.unpack(f"<{(fact['data_offsets'][1] - fact['data_offsets'][0]) // 4}f",
                                content[8 + length + fact["data_offsets"][0]:8 + length + fact["data_offsets"][1]])
            for name, fact in header.items() if name != "__metadata__" and fact["dtype"] == "F32"}


class Programs(suite.Suite):
    def __init__(self, binary, folder):
        super().__init__(folder)
        self.binary = binary
        flag = {word: int(value) for word, value in zip(sys.argv, sys.argv[1:]) if word in ("--count", "--seed")}
        self.count, self.random = flag.get("--count", 60), random.Random(flag.get("--seed", seed_of_commit()))

    def run(self):
        if torch is None:
            print("   skipped: PyTorch is not installed")
            return
        events = list(EVENTS) * (self.count // len(EVENTS) + 1)
        for k in range(self.count):
            choice = [self.random.choice(list(networks())), self.random.choice(list(optimizers())), events[k],
                      self.random.choice(["copy", "view"]), self.random.choice(["begins", "joins", "joins"])]
            if choice[0] == "double":
                choice[3] = "copy"  # only float32 can be viewed
            self.case(f"{k}: {', '.join(choice)}", lambda k=k, choice=choice: self.program(f"p{k}", *choice))

    def start(self, name, network, optimizer, event, mode, start, join):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder + ".tmp")
        with open(folder + ".out", "wb") as out:
            return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--program", network, optimizer, event, mode,
                                     start, join, folder], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                    env={**os.environ, "PYTHONPATH": CLIENT, "STARLING_PROGRAM": self.binary,
                                         "TMPDIR": folder + ".tmp", "PYTHONDONTWRITEBYTECODE": "1"})

    def text(self, name, ending):
        path = os.path.join(self.folder, name + ending)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def program(self, name, network, optimizer, event, mode, start):
        first, join = None, "-"
        try:
            if start == "joins":
                first = self.start(name + "-first", network, "sgd", "forever", "copy", "begins", "-")
                found = until(lambda: re.search(r"listens at (\S+),", self.text(name + "-first", ".log")) or first.poll(),
                              "the first peer listens")
                join = found.group(1)
            process = self.start(name, network, optimizer, event, mode, start, join)
            try:
                self.check(name, process.wait(HANG), event)
            finally:
                process.kill()
        finally:
            if first:
                first.kill()
                first.wait()
        for one in (name, name + "-first") if first else (name,):
            folder = os.path.join(self.folder, one + ".tmp")
            until(lambda folder=folder: not any("starling" in entry for entry in os.listdir(folder)), f"a folder of {one} remains")
            until(lambda folder=folder: not processes_with(folder), f"a process of {one} remains")

    def check(self, name, code, event):
        text = self.text(name, ".out")
        require(code == EVENTS[event][1] or (event == "SIGINT" and code == 1), f"exit code {code}: {text[-600:]}")
        allowed = {"error": "ZeroDivisionError", "SIGINT": "KeyboardInterrupt"}.get(event)
        if "Traceback" in text:
            require(allowed and text.count("Traceback") == 1 and allowed in text, text[-800:])
        require(event != "gossip twice" or "refused: " in text, text[-600:])
        if code == 0:
            self.compare(name, text)

    def compare(self, name, text):
        """The parameters that the peer kept are those of the model, or a line says that they are not."""
        kept = read_safetensors(os.path.join(self.folder, name + ".safetensors"))
        model = {line["name"]: line["values"] for line in map(json.loads, self.text(name, ".model").splitlines())}
        compared = [key for key in kept if key in model]
        require(compared, f"no tensor in common: {list(kept)}, {list(model)}")
        worst = max(abs(a - b) / (1 + abs(b)) for key in compared for a, b in zip(kept[key], model[key]))
        require(worst < 1e-6 or "starling" in text, f"the model is {worst:.2g} away from the peer's, and nothing says so")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        program(*sys.argv[2:])
    else:
        sys.exit(suite.main(Programs))
