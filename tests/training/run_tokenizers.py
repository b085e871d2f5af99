#!/usr/bin/python3
"""Divides texts with the libraries tokenizers and tiktoken: run_tokenizers.py FOLDER

FOLDER has NAME.json for each tokenizer, as tokenizers reads it, and NAME.cases, a JSON object per line with a text and its
tokens. Byte-pair encodings are made for tiktoken, too. Fails, naming the first text, unless all tokens are equal. Exits with
77 if a library is missing.
"""
import glob
import json
import os
import sys

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(source, "build", "tokenizers"))
try:
    import tiktoken
    import tokenizers
except ImportError as missing:
    print(f"{missing} (scripts/test installs it)")
    sys.exit(77)

WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ANYTHING = r"[\s\S]+"


def bytes_of_letters():
    """GPT-2's table of printable characters for bytes."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    table = {chr(byte): byte for byte in plain}
    table.update({chr(0x100 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in plain)})
    return table


def for_tiktoken(path):
    """The same tokenizer, or None if it is no encoding of bytes."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    pieces = content["pre_tokenizer"]
    if pieces is None:
        return None
    table = bytes_of_letters()
    special = {token["content"]: token["id"] for token in content["added_tokens"]}
    ranks = {bytes(table[letter] for letter in text): token for text, token in content["model"]["vocab"].items()
             if text not in special}
    return tiktoken.Encoding(path, pat_str=WORDS if pieces["use_regex"] else ANYTHING, mergeable_ranks=ranks,
                             special_tokens=special)


def compare(path):
    theirs = tokenizers.Tokenizer.from_file(path)
    other = for_tiktoken(path)
    compared = 0
    with open(path.removesuffix(".json") + ".cases", encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            text, tokens = case["text"], case["tokens"]
            assert theirs.encode(text).ids == tokens, ("tokenizers", path, text, theirs.encode(text).ids, tokens)
            if other is not None:
                got = other.encode(text, allowed_special="all")
                assert got == tokens, ("tiktoken", path, text, got, tokens)
            compared += 1
    assert compared > 0, path
    print(os.path.basename(path), compared, "tiktoken too" if other is not None else "")


for tokenizer in sorted(glob.glob(os.path.join(sys.argv[1], "*.json"))):
    compare(tokenizer)
