#!/usr/bin/env python3
"""Tokens per second of `starling generate` and of PyTorch with cached keys and values, on one core each.

    bench/generation.py build/release/starling [--model gpt-char] [--tokens N] [--rounds N]

PyTorch computes the same network from the same file, token by token, eagerly.
Both choose the likeliest token, and the texts must be equal. The order of the contestants changes from round to
round; the medians are printed.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

SHAPES = {"gpt-tiny": (4, 64), "gpt-char": (6, 256)}  # heads, context
PROMPT = "the "


def read_safetensors(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(length)), file.read()
    facts = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(entry["shape"])
    return tensors, facts


class Network:
    """nanoGPT's network without biases, one token at a time."""

    def __init__(self, tensors, heads, context):
        self.t = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        self.heads, self.layers = heads, 1 + max(int(n.split(".")[1]) for n in self.t if n.startswith("h."))
        features = self.t["wte.weight"].shape[1]
        self.keys = torch.zeros(self.layers, heads, context, features // heads)
        self.values = torch.zeros_like(self.keys)

    def forward(self, token: int, at: int):
        t = self.t
        x = t["wte.weight"][token] + t["wpe.weight"][at]
        features = x.shape[0]
        for k in range(self.layers):
            y = F.layer_norm(x, (features,), t[f"h.{k}.ln_1.weight"])
            q, key, value = F.linear(y, t[f"h.{k}.attn.c_attn.weight"]).view(3, self.heads, -1)
            self.keys[k, :, at], self.values[k, :, at] = key, value
            y = F.scaled_dot_product_attention(q[None, :, None], self.keys[None, k, :, :at + 1], self.values[None, k, :, :at + 1])
            x = x + F.linear(y.reshape(features), t[f"h.{k}.attn.c_proj.weight"])
            y = F.layer_norm(x, (features,), t[f"h.{k}.ln_2.weight"])
            x = x + F.linear(F.gelu(F.linear(y, t[f"h.{k}.mlp.c_fc.weight"])), t[f"h.{k}.mlp.c_proj.weight"])
        return F.linear(F.layer_norm(x, (features,), t["ln_f.weight"]), t["wte.weight"])


def generate(network, prompt, tokens, context):
    """As training/learning/text_writer.h: a full window keeps its later half and is read again."""
    window, read, written, logits = list(prompt), 0, [], None
    with torch.inference_mode():
        for _ in range(tokens):
            for at in range(read, len(window)):
                logits = network.forward(window[at], at)
            read = len(window)
            written.append(int(logits.argmax()))
            window.append(written[-1])
            if len(window) == context:
                window, read = window[-(context // 2):], 0
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", choices=SHAPES, default="gpt-char")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    heads, context = SHAPES[options.model]
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog; 0123456789\n" * 200)
        train = [options.program, "simulate", "--peers", "1", "--model", options.model, "--data", text, "--steps", "20", "--batch-size", "4",
                 "--optimizer", "adamw", "--learning-rate", "0.002", "--looks", "0", "--out", os.path.join(folder, "run")]
        subprocess.run(train, check=True, capture_output=True)
        model, exported = os.path.join(folder, "run", "model.safetensors"), os.path.join(folder, "nano.safetensors")
        subprocess.run([options.program, "export", model, "--out", exported, "--names", "nanogpt"], check=True)
        tensors, facts = read_safetensors(exported)
        letters = []
        for part in facts["tokenizer"].split("\n")[1].split()[1:]:
            first, _, last = part.partition("-")
            letters += [chr(c) for c in range(int(first, 16), int(last or first, 16) + 1)]
        ours, theirs = [], []
        for number in range(options.rounds):
            def starling():
                command = [options.program, "generate", model, "--prompt", PROMPT, "--temperature", "0", "--tokens", str(options.tokens), "--json"]
                answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                ours.append(answer["tokens_per_second"])
                return answer["text"]

            def pytorch():
                network = Network(tensors, heads, context)
                generate(network, [0], 3, context)
                begun = time.perf_counter()
                written = generate(network, [letters.index(c) for c in PROMPT], options.tokens, context)
                theirs.append(options.tokens / (time.perf_counter() - begun))
                return "".join(letters[token] for token in written)

            texts = [contestant() for contestant in ((starling, pytorch) if number % 2 == 0 else (pytorch, starling))]
            if texts[0] != texts[1]:
                sys.exit(f"the texts differ:\n{texts[0]}\n{texts[1]}")
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{options.model}, {options.tokens} tokens, one core: starling {a:.0f} tokens/s, PyTorch {torch.__version__} {b:.0f}, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
