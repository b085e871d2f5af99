"""The examples, and the wheel."""
import difflib
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile

from c_cases import compiled
from stage import CLIENTS
from suite import HANG, Skipped, require
from table import table

EXAMPLES = os.path.join(CLIENTS, "examples")


def lines_of(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return file.read().splitlines()


def run(stage, name, *arguments, **environment):
    done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), *arguments], capture_output=True, text=True,
                          timeout=HANG, env=stage.environment(OMP_NUM_THREADS="1", **environment))
    require(done.returncode == 0, done.stdout + done.stderr)
    return done.stdout


def gossip_takes_three_lines(_):
    for name in "mnist", "gpt":
        diff = difflib.unified_diff(lines_of(f"{name}_plain.py"), lines_of(f"{name}_gossip.py"), n=0, lineterm="")
        new = [line for line in diff if line.startswith("+") and not line.startswith("+++")]
        require(0 < len(new) <= 3, f"{name}: {new}")


def linear_models_are_learned(stage):
    data = table(os.path.join(stage.folder, "table.csv"))
    for name in "linear_stdlib.py", "linear_numpy.py", "linear_jax.py", "linear.c":
        peer = stage.daemon(f"{stage.socket}-{name}")
        if name == "linear.c":
            text = subprocess.run([compiled(stage, f"{EXAMPLES}/{name}", "-std=c11"), peer.path, data, "2000"], text=True,
                                  capture_output=True, check=True).stdout
            require(len(lines_of(name)) < 100, "it is short")
        else:
            try:
                if name != "linear_stdlib.py":
                    __import__(name[7:-3])
            except ImportError:
                continue
            text = run(stage, name, peer.path, data, "2000")
        accuracy = float(re.search(r"accuracy ([\d.]+)", text).group(1))
        require(accuracy > 0.9 and peer.posts and any(peer.value("fc1.weight")), f"{name}: {text}")


def needs_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        raise Skipped("torch is not installed") from None


def idx(values, *shape):
    return bytes([0, 0, 8, len(shape)]) + b"".join(extent.to_bytes(4, "big") for extent in shape) + bytes(values)


def write_digits(folder, count=256):
    """Images of which a rectangle is bright, at a place for each label."""
    draw = random.Random(1)
    os.makedirs(folder)
    for name in "train", "t10k":
        labels = [draw.randrange(10) for _ in range(count)]
        images = bytearray(draw.randrange(60) for _ in range(count * 784))
        for i, label in enumerate(labels):
            for row in range(8):
                at = i * 784 + (2 * label + row) * 28 + 4
                images[at:at + 20] = bytes([250] * 20)
        with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as file:
            file.write(idx(labels, count))
        with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(idx(images, count, 28, 28))


def lenet_is_that_of_starling(stage):
    needs_torch()
    write_digits(f"{stage.folder}/digits/mnist")
    peer = stage.daemon()
    plain = run(stage, "mnist_plain.py", "--epochs", "3", STARLING_DATA=f"{stage.folder}/digits")
    text = run(stage, "mnist_gossip.py", "--data", f"{stage.folder}/digits/mnist", "--epochs", "3",
               STARLING_SOCKET=stage.socket)
    require("accuracy" in plain and "accuracy" in text and "bye" in peer.lines and len(peer.posts) > 1, text)
    require([(t.name, t.text) for t in peer.tensors] == [
        ("conv1.weight", "20,1,3,3"), ("conv1.bias", "20"), ("conv2.weight", "50,20,5,5"), ("conv2.bias", "50"),
        ("fc1.weight", "128,800"), ("fc1.bias", "128"), ("fc2.weight", "10,128"), ("fc2.bias", "10")], "tensors")
    require(peer.declaration["batch"] == "64" and peer.declaration["epoch"] == "256", "declaration")
    shown = subprocess.run([stage.program, "model", "show", "lenet"], capture_output=True, text=True, check=True).stdout
    for layer in "conv1", "conv2", "fc1", "fc2":
        floats = sum(t.floats for t in peer.tensors if t.name.startswith(layer))
        require(re.search(rf"^{layer} .* {floats} +[\d.]+ ", shown, re.M), f"{layer} has {floats} in\n{shown}")


def a_small_gpt_trains(stage):
    needs_torch()
    path = f"{stage.folder}/text"
    with open(path, "w", encoding="utf-8") as file:
        file.write("the quick brown fox jumps over the lazy dog. " * 60)
    peer = stage.daemon()
    run(stage, "gpt_plain.py", "--text", path, "--steps", "3")
    text = run(stage, "gpt_gossip.py", "--text", path, "--steps", "9", STARLING_SOCKET=stage.socket)
    require("loss on the last tenth" in text and len(peer.posts) > 1 and "bye" in peer.lines, text)
    require(("head.weight", "tokens.weight") in peer.tied, f"{peer.tied}")


def a_wheel_is_built_and_works(stage):
    source = shutil.copytree(f"{CLIENTS}/python", f"{stage.folder}/source",
                             ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    have = subprocess.run([sys.executable, "-c", "import setuptools, pip"], capture_output=True)
    if have.returncode != 0:
        raise Skipped("pip or setuptools is not installed")
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
                           "-w", stage.folder, source], capture_output=True, text=True)
    require(done.returncode == 0, done.stderr)
    wheel = next(name for name in os.listdir(stage.folder) if name.endswith(".whl"))
    with zipfile.ZipFile(f"{stage.folder}/{wheel}") as archive:
        names = {os.path.basename(name) for name in archive.namelist() if name.startswith("starling/")}
        archive.extractall(f"{stage.folder}/installed")
    require(names == {name for name in os.listdir(f"{CLIENTS}/python/starling") if name.endswith((".py", ".typed"))}, f"{names}")
    peer = stage.daemon()
    code = "import array, starling; starling.attach({'w': array.array('f', [1])}).close()"
    subprocess.run([sys.executable, "-c", code], check=True, env={**stage.environment(STARLING_SOCKET=stage.socket),
                                                                  "PYTHONPATH": f"{stage.folder}/installed"})
    require("bye" in peer.lines, "the installed package attaches")


CASES = [gossip_takes_three_lines, linear_models_are_learned, lenet_is_that_of_starling, a_small_gpt_trains,
         a_wheel_is_built_and_works]
