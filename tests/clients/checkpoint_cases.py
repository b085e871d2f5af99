"""Trainers that save their whole state, and continue from it."""
import array
import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import zlib

import starling
from stage import raises, steps_until
from starling import checkpoint
from suite import Skipped, require

try:
    import torch
except ImportError:
    torch = None


def floats(*values):
    return array.array("f", values)


def whole(tensor):
    """Its bytes."""
    return bytes(tensor.detach().contiguous().view(torch.uint8).flatten().tolist()) if tensor.dim() else struct.pack(
        {torch.float32: "<f", torch.int64: "<q"}[tensor.dtype], tensor.item())


# A program as people write it, that can be interrupted: WAY SOCKET FILE OUT.
PROGRAM = """
import os, random, signal, sys, torch, starling
way, socket, path, out = sys.argv[1:]
mode = way.split("-")[1]
torch.set_num_threads(1)
torch.manual_seed(3)
random.seed(4)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3),
                            torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), 0.01, amsgrad=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=20)
if way.startswith("resumed"):  # other states, which the file replaces
    torch.manual_seed(77), random.seed(78)
rows = torch.utils.data.TensorDataset(torch.randn(40, 8, generator=torch.Generator().manual_seed(1)))
peer = starling.gossip(model, optimizer, socket=socket, mode=mode, objects={"scheduler": scheduler},
                       resume=path if way.startswith("resumed") else None)
step, begin = 0, peer.position.steps
assert begin == (peer.resumed["step"] if peer.resumed else 0), (begin, peer.resumed)
for epoch in range(4):
    for x, in torch.utils.data.DataLoader(rows, 6, shuffle=True, generator=torch.Generator().manual_seed(epoch)):
        step += 1
        if begin < step <= 20:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x) * random.random(), x[:, :2]).backward()
            optimizer.step()
            if step < 20:
                scheduler.step()
            if way.startswith("killed") and step == 10:
                peer.save(path, step=step)
            if way.startswith("killed") and step == 13:
                os.kill(os.getpid(), signal.SIGKILL)
assert peer.position == (20, 116), peer.position
torch.save([model.state_dict(), optimizer.state_dict(), scheduler.last_epoch, torch.rand(3), random.random()], out)
peer.close()
"""


def a_trainer_that_is_killed_and_resumed_is_equal_to_the_last_bit(stage):
    if torch is None:
        raise Skipped("PyTorch is not installed")
    program = os.path.join(stage.folder, "program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    for mode in "copy", "view":
        results, path = [], os.path.join(stage.folder, mode)
        for way, code in ("whole", 0), ("killed", -signal.SIGKILL), ("resumed", 0):
            peer = stage.daemon(f"{stage.socket}-{way}-{mode}", every=1000)
            out = f"{path}.{way}.pt"
            done = subprocess.run([sys.executable, program, f"{way}-{mode}", peer.path, path, out], capture_output=True,
                                  text=True, env=stage.environment())
            require(done.returncode == code, f"{way}: {done.returncode} {done.stderr[-900:]}")
            if code == 0:
                results.append(torch.load(out))
            if way == "resumed":
                require(peer.declaration["made"].split()[:3] == ["10", "58", "58"], f"{peer.declaration}")
        (model, optimizer, *rest), (other, other_optimizer, *other_rest) = results
        for name in model:
            require(whole(model[name]) == whole(other[name]), f"{mode}: {name} differs")
        for k, state in optimizer["state"].items():
            for name, value in state.items():
                require(whole(value) == whole(other_optimizer["state"][k][name]), f"{mode}: {name} of {k} differs")
        require(optimizer["param_groups"] == other_optimizer["param_groups"], "the optimizer's settings")
        require(rest[0] == other_rest[0] and whole(rest[1]) == whole(other_rest[1]) and rest[2] == other_rest[2],
                f"{mode}: scheduler and random numbers: {rest}, {other_rest}")


def read(path):
    """The tensors and the metadata of a file in the format of safetensors, read by hand."""
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    ends = sorted(fact["data_offsets"] for name, fact in header.items() if name != "__metadata__")
    require([begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])] and ends[-1][1] == len(data), "no gaps")
    return {name: data[slice(*fact["data_offsets"])] for name, fact in header.items() if name != "__metadata__"}, content


def the_file_is_safetensors_with_a_check_sum(stage):
    stage.daemon()
    path = os.path.join(stage.folder, "saved")
    trainer = stage.keep(starling.attach({"w": floats(1.5, -2), "n": {"b": [0.25]}}, stage.socket))
    trainer.save(path)
    tensors, content = read(path)
    require(struct.pack("<2f", 1.5, -2) in tensors.values() and struct.pack("<d", 0.25) in tensors.values(), f"{list(tensors)}")
    require(tensors["crc32"] == struct.pack("<I", zlib.crc32(content[:-4])) == content[-4:], "the check sum")
    require(not [name for name in os.listdir(stage.folder) if "part" in name], "a part remains")


def values_come_back_as_they_were(stage):
    path = os.path.join(stage.folder, "saved")
    values = {"a": None, "b": [True, False, 3, -2**80, 0.1, 5e-324, math.inf], 7: ("x", (), [], {}, {1, 2}), "ü\n": "ß\0",
              (1, "k"): floats(1, 2), "doubles": array.array("d", [0.1])}
    checkpoint.save(path, values)
    require(checkpoint.load(path) == values, f"{checkpoint.load(path)}")
    checkpoint.save(path, {"nan": math.nan})
    require(math.isnan(checkpoint.load(path)["nan"]), "NaN")
    if torch:
        import numpy
        tensors = [torch.rand(3, 5), torch.rand(2, 0), torch.tensor(7), torch.tensor([True, False, True]),
                   torch.rand(3).bfloat16(), torch.rand(3).half(), torch.arange(5, dtype=torch.int8), torch.rand(4, 6).t(),
                   torch.nn.Parameter(torch.rand(2))]
        arrays = [numpy.arange(6.0).reshape(2, 3)[:, ::2], numpy.array([], "f4"), numpy.arange(3, dtype="uint32")]
        checkpoint.save(path, {"t": tensors, "n": arrays, "x": numpy.float64(0.3), "i": numpy.int32(4)})
        back = checkpoint.load(path)
        for x, y in zip(tensors, back["t"]):
            require(x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y), f"{x} and {y}")
        for x, y in zip(arrays, back["n"]):
            require(x.dtype == y.dtype and x.shape == y.shape and (x == y).all(), f"{x} and {y}")
        require(back["x"] == 0.3 and back["i"] == 4, f"{back}")
        back["t"][0].add_(1)  # of its own


def what_no_checkpoint_can_have_is_named_and_changes_nothing(stage):
    stage.daemon()
    path = os.path.join(stage.folder, "saved")
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    trainer.save(path, epoch=1)
    raises(starling.Error, "['values']['tell'] is of type builtin_function_or_method", lambda: trainer.save(path, tell=print))
    require(checkpoint.load(path)["values"] == {"epoch": 1}, "the earlier one is whole")
    raises(starling.Error, "cannot write the checkpoint", lambda: trainer.save("/nonexistent/x"))
    raises(starling.Error, "exists and is no checkpoint", lambda: trainer.save(stage.folder))


def other_files_are_never_overwritten(stage):
    stage.daemon()
    trainer = stage.keep(starling.attach({"w": floats(1)}, stage.socket))
    for content in b"", b"text", b"\x80" * 100, struct.pack("<Q", 30) + b'{"__metadata__":{"format":"pt"}}', b"PK\3\4" * 9:
        path = os.path.join(stage.folder, "other")
        with open(path, "wb") as file:
            file.write(content)
        raises(starling.Error, "exists and is no checkpoint of a trainer; give another path", lambda path=path: trainer.save(path))
        with open(path, "rb") as file:
            require(file.read() == content, "it was changed")
        raises(starling.Error, "is no checkpoint of a trainer, as peer.save() writes them", lambda path=path: checkpoint.load(path))
    os.unlink(path)
    link = os.path.join(stage.folder, "link")
    os.symlink(path, link)
    trainer.save(link, k=1)
    trainer.save(link, k=2)
    require(os.path.islink(link) and checkpoint.load(path)["values"] == {"k": 2}, "a link is followed")


def damage_of_any_byte_is_found(stage):
    path = os.path.join(stage.folder, "saved")
    checkpoint.save(path, {"w": floats(*range(50)), "text": "x" * 30})
    with open(path, "rb") as file:
        content = file.read()
    chance = random.Random(5)
    damaged = [content[:cut] for cut in (7, 8, 100, len(content) - 1)] + [content + b"\0"]
    for at in (*range(8), *(chance.randrange(len(content)) for _ in range(100))):
        damaged.append(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1:])
    for one in damaged:
        with open(path, "wb") as file:
            file.write(one)
        raises(starling.Error, path, lambda: checkpoint.load(path))


def what_another_program_wrote_is_an_error(stage):
    path = os.path.join(stage.folder, "saved")
    floats_of_file = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for plan, fact in (("[", floats_of_file), ('{"array": 5}', floats_of_file), ('{"what": 0}', floats_of_file),
                       ('{"array": 0}', {**floats_of_file, "dtype": "F99"}), ('{"array": 0}', {"dtype": "F32"}),
                       ('{"array": 0}', {**floats_of_file, "data_offsets": [0, 7]}), ('{"list": 3}', floats_of_file)):
        metadata = {"format": checkpoint.FORMAT, "version": checkpoint.VERSION, "content": plan}
        text = json.dumps({"__metadata__": metadata, "0": fact, checkpoint.CRC: floats_of_file}).encode()
        content = struct.pack("<Q", len(text)) + text + bytes(8)
        with open(path, "wb") as file:
            file.write(content + struct.pack("<I", zlib.crc32(content)))
        raises(starling.Error, f"{path} was not written by peer.save()", lambda: checkpoint.load(path))


def a_save_that_is_killed_leaves_the_old_or_the_new_file(stage):
    path = os.path.join(stage.folder, "saved")
    text = ("import array, sys\nfrom starling import checkpoint\nk = 0\n"
            "while True:\n    checkpoint.save(sys.argv[1], {'k': k, 'w': array.array('d', [k]) * 200000})\n"
            "    k += 1\n    print(k, flush=True)\n")
    chance, last = random.Random(6), 0
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", text, path], stdout=subprocess.PIPE, env=stage.environment())
        with process:
            for _ in range(chance.randrange(1, 4)):
                process.stdout.readline()
            process.kill()
        content = checkpoint.load(path)
        require(set(content["w"]) == {float(content["k"])} and len(content["w"]) == 200000, "a mixture")
        last += content["k"]
    require(len(os.listdir(stage.folder)) <= 2 and last > 0, f"{os.listdir(stage.folder)}")


class Counter:
    """An object with a state, such as a sampler."""

    def __init__(self, at=0):
        self.at = at

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def arrays_and_objects_are_resumed_too(stage):
    for mode in "copy", "view":
        path = os.path.join(stage.folder, mode)
        stage.daemon(f"{stage.socket}-{mode}", every=1000)
        x, counter = {"w": floats(1, 2), "m": [floats(3)]}, Counter(5)
        with starling.gossip(x, socket=f"{stage.socket}-{mode}", mode=mode, objects={"counter": counter}, epoch=10) as trainer:
            trainer.params["w"][0] = 8
            trainer.exchange(samples=30)
            random.seed(1)
            trainer.save(path, epoch=3)
            drawn = random.random()
        peer = stage.daemon(f"{stage.socket}-{mode}2", every=1000)
        other = Counter()
        trainer = stage.keep(starling.gossip({"w": floats(0, 0), "m": [floats(0)]}, socket=peer.path, mode=mode, resume=path,
                                             objects={"counter": other}))
        require(random.random() == drawn and other.at == 5 and trainer.resumed == {"epoch": 3}, f"{trainer.resumed}, {other.at}")
        require(list(trainer.params["w"]) == [8, 2] and list(trainer.params["m"][0]) == [3], f"{trainer.params}")
        require(trainer.position == (1, 30) and peer.declaration["made"].startswith("1 30 30 "), f"{peer.declaration}")
        trainer.step(4)
        require(trainer.position == (2, 34), f"{trainer.position}")
        trainer.close()


def files_that_do_not_fit_are_refused_by_name(stage):
    path = os.path.join(stage.folder, "saved")
    peer = stage.daemon()
    with starling.gossip({"w": floats(1, 2)}, socket=stage.socket, objects={"a": Counter()}) as trainer:
        trainer.save(path)
    for words, params, objects in (("objects a, and objects= has none", {"w": floats(1, 2)}, None),
                                   ("objects a, and objects= has a, b", {"w": floats(1, 2)}, {"a": Counter(), "b": Counter()}),
                                   ("does not fit the model: the arrays differ: v, w", {"v": floats(1, 2)}, {"a": Counter()}),
                                   ("does not fit the model: the shape of w differs", {"w": floats(1)}, {"a": Counter()}),
                                   ("objects['a'] has no state_dict()", {"w": floats(1, 2)}, {"a": 3})):
        raises(starling.Error, words, lambda: starling.gossip(params, socket=stage.socket, resume=path, objects=objects))
    require(peer.starts == 1, "one of them began")
    raises(starling.Error, "settings of a peer that runs already cannot be changed: resume",
           lambda: starling.gossip({"w": floats(1)}, socket=stage.socket, resume=stage.folder))
    if torch:
        model = torch.nn.Linear(2, 1)
        raises(starling.Error, "has no optimizer, and gossip() was given one", lambda: starling.gossip(
            model, torch.optim.SGD(model.parameters(), 0.1), socket=stage.socket, resume=path, objects={"a": Counter()}))


def the_parameters_of_a_swarm_that_lives_win(stage):
    """But what is frozen stays the trainer's."""
    path = os.path.join(stage.folder, "saved")
    stage.daemon()
    with starling.attach({"w": floats(1), "f": floats(5)}, stage.socket, roles={"f": "frozen"}) as trainer:
        trainer.step(1)
        trainer.save(path)
    peer = stage.daemon(f"{stage.socket}2", initial=[7] * 32)
    from starling import _gossip, _news
    x = {"w": floats(0), "f": floats(0)}
    trainer = stage.keep(_gossip(x, None, None, None, peer.path, "copy", None, None, None, None, {}, None, None,
                                 {"f": "frozen"}, False, _news(60, 0, None, None), path))
    require(list(x["w"]) == [7] and list(x["f"]) == [5], f"{x}")
    require(peer.declaration["made"].startswith("1 1 1 "), f"{peer.declaration}")
    steps_until(trainer, lambda: peer.posts, "a post")
    require(peer.value("f") == [5], "the arena follows")


CASES = [
    a_trainer_that_is_killed_and_resumed_is_equal_to_the_last_bit, the_file_is_safetensors_with_a_check_sum,
    values_come_back_as_they_were, what_no_checkpoint_can_have_is_named_and_changes_nothing,
    other_files_are_never_overwritten, damage_of_any_byte_is_found, what_another_program_wrote_is_an_error,
    a_save_that_is_killed_leaves_the_old_or_the_new_file,
    arrays_and_objects_are_resumed_too, files_that_do_not_fit_are_refused_by_name, the_parameters_of_a_swarm_that_lives_win,
]
