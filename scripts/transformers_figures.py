#!/usr/bin/python3
"""Compares exported folders with the library transformers: scripts/transformers_figures.py PROGRAM

PROGRAM is build/release/starling. Needs transformers (4.44 and 5.24 were used) and PyTorch. Trains small networks on a text
of several scripts, with the tokenizers of characters, bytes and pairs of bytes, writes each with `export --format
transformers`, and opens it with from_pretrained(). Fails unless the tokens of the text are the same, the loss of the test part
is the same to 1e-6 of it, and the likeliest next token is the same after every prompt of 1 to as many tokens as the context
has. Prints these figures.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import transformers

PROGRAM = os.path.abspath(sys.argv[1])
CONTEXT = 16
WORDS = ("the of and we'll don't It's I've we're 12 345 naïve façade Straße 你好 世界 Привет мир ½ ² — … “quoted” x=1; "
         "\t three  \n \n\n 😀 שלום สวัสดี é \u1c89\u1c8a \ua7cb <|x|>").split(" ")
NETWORKS = {"plain": "", "no biases": "bias = false", "tanh": "tanh = true", "own output": "tied = false",
            "narrow": "hidden = 48\ndropout = 0.1"}


def starling(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


def text_of(characters):
    random.seed(3)
    text = ""
    while len(text) < characters:
        text += random.choice(WORDS) + random.choice([" ", " ", "  ", "\n", ", "])
    return text


def loss_of(model, ids):
    """The mean over all tokens but the first, in windows side by side, as `evaluate` computes it; the last may be shorter."""
    total = 0.0
    with torch.no_grad():
        for at in range(0, len(ids) - 1, CONTEXT):
            window = torch.tensor(ids[at:at + CONTEXT + 1])
            logits = model(window[None, :-1]).logits[0]
            total += torch.nn.functional.cross_entropy(logits.double(), window[1:], reduction="sum").item()
    return total / (len(ids) - 1)


def next_tokens(model, tokenizer, path, ids):
    """How many prompts were compared; fails at the first that continues in another way."""
    compared = 0
    for length in range(1, CONTEXT + 1):
        prompt = tokenizer.decode(ids[:length])
        if tokenizer(prompt)["input_ids"] != ids[:length] or "\ufffd" in prompt:
            continue
        with torch.no_grad():
            expected = tokenizer.decode([model(torch.tensor([ids[:length]])).logits[0, -1].argmax().item()])
        got = json.loads(starling("generate", path, "--prompt", prompt, "--tokens", "1", "--temperature", "0", "--json"))
        assert got["text"] == expected or "\ufffd" in expected, (length, prompt, got["text"], expected)
        compared += 1
    return compared


def compare(name, tokens, text):
    with open("net.toml", "w") as file:
        file.write(f"type = 'gpt'\nlayers = 2\nheads = 2\nfeatures = 32\ncontext = {CONTEXT}\n{NETWORKS[name]}\n")
    starling("simulate", "--peers", "1", "--model", "net.toml", "--data", f"book.txt:tokens={tokens}", "--steps", "60",
             "--optimizer", "adamw", "--learning-rate", "0.003", "--looks", "0", "--out", "run", "--force")
    path = "run/model.safetensors"
    starling("export", path, "--format", "transformers", "--out", "folder", "--force")
    model = transformers.AutoModelForCausalLM.from_pretrained("folder").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("folder")
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    if tokens.endswith("txt"):
        shown = json.loads(starling("tokenizer", "show", tokens, "--text", text, "--json"))["text"]
        assert shown == ids, "the tokens differ"
    evaluated = json.loads(starling("evaluate", path, "--data", f"book.txt:tokens={tokens}", "--json"))
    test = tokenizer(text[len(text) * 9 // 10:])["input_ids"]
    loss = loss_of(model, test)
    difference = abs(loss - evaluated["loss"]) / loss
    assert difference < 1e-6, (loss, evaluated["loss"])
    prompts = next_tokens(model, tokenizer, path, test)
    print(f"transformers {transformers.__version__}, {tokens}, {name}: {len(ids)} tokens alike, loss {loss:.6f}, "
          f"relative difference {difference:.1g}, {prompts} prompts continued alike")


def main():
    transformers.logging.set_verbosity_error()
    text = text_of(20_000)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("book.txt", "w", newline="") as file:
            file.write(text)
        starling("tokenizer", "train", "book.txt", "--size", "400", "--out", "pairs.txt")
        for tokens in ("characters", "bytes", "pairs.txt"):
            for name in NETWORKS:
                compare(name, tokens, text)


main()
