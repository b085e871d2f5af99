"""Checkpoints of trainers: one file with the states of model, optimizer and other objects, of random number generators, and
the place in the run.

The file has the format of safetensors, so that reading it runs no code of its own: tensors, and their arrangement as JSON in
the metadata. Its last tensor is the CRC-32 of all bytes before.
"""
import array
import contextlib
import ctypes
import json
import os
import random
import struct
import sys
import types
import zlib
from collections.abc import Mapping

from .errors import Error

FORMAT, VERSION = "starling-trainer", "1"
HEADER_MAX = 1 << 30  # bytes
CRC = "crc32"
TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
         "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint32": "U32", "uint16": "U16", "uint64": "U64"}
NAMES = {code: name for name, code in TYPES.items()}
SIZES = {code: 1 if code == "BOOL" else int(code.lstrip("BFIU")) // 8 for code in NAMES}  # bytes


# ---- values and their arrangement ----

class Writer:
    """Collects the tensors of `content`; `plan` is its arrangement."""

    def __init__(self, content):
        self.tensors = []  # (code of the type, shape, bytes)
        self.plan = self._plan(content, "")

    def _plan(self, value, where):
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, Mapping):
            return {"dict": [[self._plan(key, where), self._plan(one, f"{where}[{key!r}]")] for key, one in value.items()]}
        for kind in list, tuple, set:
            if isinstance(value, kind):
                return {kind.__name__: [self._plan(one, f"{where}[{k}]") for k, one in enumerate(value)]}
        return self._tensor(value, where)

    def _tensor(self, value, where):
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch and isinstance(value, torch.Tensor):
            plain = value.layout == torch.strided and not value.is_quantized and not value.is_meta
            kind, code = "torch", TYPES.get(str(value.dtype).rpartition(".")[2]) if plain else None
        elif isinstance(value, array.array):
            kind, code = "array", {"f": "F32", "d": "F64"}.get(value.typecode)
        elif numpy and (isinstance(value, (numpy.ndarray, numpy.generic)) or hasattr(value, "__array__")):
            value = numpy.asarray(value)
            if value.shape == () and value.dtype.kind in "biuf":
                return self._plan(value.item(), where)
            kind, code = "numpy", TYPES.get(value.dtype.name)
        else:
            kind = code = None
        if code is None:
            what = getattr(value, "dtype", None) or type(value).__name__
            raise Error(f"{where} is of type {what}, which a checkpoint cannot have; it has numbers, texts, tensors, and "
                        "lists, tuples and dictionaries of them")
        self.tensors.append((code, *contents(kind, value)))
        return {kind: len(self.tensors) - 1}


def contents(kind, value):
    """The shape and the bytes of an array."""
    if kind == "array":
        return [len(value)], memoryview(value).cast("B")
    if kind == "numpy":
        import numpy
        return list(value.shape), memoryview(numpy.ascontiguousarray(value).reshape(-1).view("uint8"))
    flat = value.detach().cpu().contiguous()
    count = flat.numel() * flat.element_size()
    if count == 0:
        return list(value.shape), memoryview(b"")
    held = (ctypes.c_char * count).from_address(flat.data_ptr())
    held.tensor = flat  # lives as long
    return list(value.shape), memoryview(held).cast("B")


class Reader:
    """Values from `plan` and the tensors' (code, shape, bytes)."""

    def __init__(self, tensors):
        self._tensors = tensors

    def value(self, plan):
        if not isinstance(plan, dict):
            return plan
        (kind, inner), = plan.items()
        if kind == "dict":
            return {self.value(key): self.value(one) for key, one in inner}
        if kind in ("list", "tuple", "set"):
            return {"list": list, "tuple": tuple, "set": set}[kind](map(self.value, inner))
        return self._tensor(kind, *self._tensors[inner])

    @staticmethod
    def _tensor(kind, code, shape, data):
        name = NAMES[code]
        if kind == "array":
            values = array.array({"F32": "f", "F64": "d"}[code])
            values.frombytes(data)
            return values
        if kind == "numpy":
            import numpy
            return numpy.frombuffer(data, name).reshape(shape).copy()
        if kind != "torch":
            raise ValueError(f"it has values of the unknown kind {kind}")
        import torch
        if not len(data):
            return torch.empty(shape, dtype=getattr(torch, name))
        return torch.frombuffer(data, dtype=getattr(torch, name)).reshape(shape)


# ---- the file ----

def save(path, content):
    """Writes `content`, in place of an earlier checkpoint of a trainer at this path but of no other file. The path has the
    old or the new checkpoint at every moment. Raises Error."""
    path = os.path.realpath(os.fspath(path))
    if os.path.lexists(path) and not is_ours(path):
        raise Error(f"{path} exists and is no checkpoint of a trainer; give another path, or remove it")
    writer = Writer(content)
    header, at = {"__metadata__": {"format": FORMAT, "version": VERSION, "content": json.dumps(writer.plan)}}, 0
    aligned = sorted(enumerate(writer.tensors), key=lambda one: -SIZES[one[1][0]])
    for name, (code, shape, data) in [*aligned, (CRC, ("U8", [4], bytes(4)))]:
        header[str(name)] = {"dtype": code, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.starling-part")
    try:
        with open(part, "wb") as file:
            crc = 0
            for data in (struct.pack("<Q", len(text)), text, *(data for _, (_, _, data) in aligned)):
                crc = zlib.crc32(data, crc)
                file.write(data)
            file.write(struct.pack("<I", crc))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        sync_folder(folder)
    except OSError as error:
        raise Error(f"cannot write the checkpoint {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_header(file):
    """The parsed header and the number of bytes before the data; None if this is no file of this kind."""
    length = file.read(8)
    if len(length) < 8 or not 2 <= (length := struct.unpack("<Q", length)[0]) <= HEADER_MAX:
        return None
    text = file.read(length)
    try:
        header = json.loads(text)
        ours = len(text) == length and header["__metadata__"]["format"] == FORMAT
    except (ValueError, KeyError, TypeError):
        return None
    return (header, 8 + length) if ours else None


def is_ours(path):
    """Whether this is a checkpoint of a trainer, by its first bytes."""
    try:
        with open(path, "rb") as file:
            return os.path.isfile(path) and read_header(file) is not None
    except OSError:
        return False


def load(path):
    """The content of a checkpoint. Raises Error for a damaged or foreign file."""
    try:
        with open(path, "rb") as file:
            found = read_header(file)
            if found is None:
                raise Error(f"{path} is no checkpoint of a trainer, as peer.save() writes them")
            header, begin = found
            file.seek(0)
            whole = bytearray(file.read())
    except OSError as error:
        raise Error(f"cannot read the checkpoint {path}: {error.strerror}") from None
    version = header["__metadata__"].get("version")
    if version != VERSION:
        raise Error(f"the checkpoint {path} has version {version}, and this client reads version {VERSION}")
    if len(whole) < begin + 4 or zlib.crc32(memoryview(whole)[:-4]) != struct.unpack("<I", whole[-4:])[0]:
        raise Error(f"the checkpoint {path} is damaged: its check sum differs; use an earlier one")
    data = memoryview(whole)[begin:]
    try:
        facts = [header[str(k)] for k in range(len(header) - 2)]
        tensors = [(fact["dtype"], fact["shape"], data[slice(*fact["data_offsets"])]) for fact in facts]
        return Reader(tensors).value(json.loads(header["__metadata__"]["content"]))
    except (LookupError, ValueError, TypeError, RuntimeError) as error:
        raise Error(f"the checkpoint {path} was not written by peer.save(): {error}") from None


# ---- random number generators ----

def random_states():
    """Of Python's generator, and of those of NumPy and PyTorch if they are imported."""
    states = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy:
        states["numpy"] = numpy.random.get_state(legacy=True)
    if torch:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random(states):
    random.setstate(states["python"])
    if "numpy" in states:
        with contextlib.suppress(ImportError):
            import numpy
            numpy.random.set_state(states["numpy"])
    torch = sys.modules.get("torch")
    if torch and "torch" in states:
        torch.set_rng_state(states["torch"])
        if "cuda" in states and torch.cuda.device_count() == len(states["cuda"]):
            torch.cuda.set_rng_state_all(states["cuda"])


# ---- a trainer ----

class Kept:
    """What a checkpoint has of a trainer: `model`, a torch.nn.Module or a Tree, `optimizer` or None, and `objects` with
    state_dict() and load_state_dict() by names."""

    def __init__(self, model, optimizer, objects):
        self._model, self._optimizer, self._objects = model, optimizer, dict(objects or {})
        for name, one in self._objects.items():
            if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
                raise Error(f"objects[{name!r}] has no state_dict() and load_state_dict()")

    def save(self, path, place, values):
        """`place`: of the run; `values`: of the user."""
        content = {"model": self._model.state_dict(), "place": place, "values": values, "random": random_states(),
                   "objects": {name: without_functions(one.state_dict()) for name, one in self._objects.items()}}
        if self._optimizer is not None:
            content["optimizer"] = self._optimizer.state_dict()
        save(path, content)

    def restore(self, path):
        """The states of the file, but for those of random number generators. Returns its content. Raises Error."""
        content = load(path)
        kept, given = set(content["objects"]), set(self._objects)
        if kept != given:
            raise Error(f"the checkpoint {path} has the objects {_list(kept)}, and objects= has {_list(given)}")
        if ("optimizer" in content) != (self._optimizer is not None):
            raise Error(f"the checkpoint {path} has {'an' if 'optimizer' in content else 'no'} optimizer, and gossip() was "
                        f"given {'none' if self._optimizer is None else 'one'}")
        states = [("the model", self._model, content["model"])]
        states += [(f"objects[{name!r}]", one, content["objects"][name]) for name, one in self._objects.items()]
        if self._optimizer is not None:
            states.append(("the optimizer", self._optimizer, content["optimizer"]))
        for what, one, state in states:
            try:
                one.load_state_dict(state)
            except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
                text = " ".join(str(error).split())
                raise Error(f"the checkpoint {path} does not fit {what}: {text[:300]}") from None
        return content


def without_functions(state):
    """Schedulers have functions in their states; the one that loads the state has its own."""
    if not isinstance(state, Mapping):
        return state
    return {key: value for key, value in state.items() if not isinstance(value, (types.FunctionType, types.MethodType))}


def _list(names):
    return ", ".join(sorted(names)) or "none"
