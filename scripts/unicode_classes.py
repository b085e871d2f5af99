#!/usr/bin/python3
"""Writes the tables of datasets/text/unicode.cc: scripts/unicode_classes.py

The classes are those of the library `tokenizers` (0.23.3 was used, with Unicode 16), so that both divide texts alike.
"""
import os
import re
import textwrap

from tokenizers import Regex, normalizers

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "datasets/text/unicode.cc")
CHARACTERS = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
TEXT = "".join(map(chr, CHARACTERS))
# The patterns of the classes.
TABLES = {"kLetters": r"\p{L}", "kNumbers": r"\p{N}", "kSpaces": r"\s"}


def edges(pattern):
    """Where runs of the characters that match begin and end."""
    others = set(normalizers.Replace(Regex(pattern), "").normalize_str(TEXT))
    found, inside = [], False
    for c in range(0x110000):
        matches = not 0xd800 <= c < 0xe000 and chr(c) not in others
        if matches != inside:
            found.append(c)
            inside = matches
    return found


with open(SOURCE) as file:
    source = file.read()
for name, pattern in TABLES.items():
    numbers = edges(pattern)
    lines = textwrap.fill(", ".join(hex(c) for c in numbers) + "};", 110, initial_indent="    ", subsequent_indent="    ")
    source, count = re.subn(rf"constexpr std::array<char32_t, \d+> {name} = {{\n.*?}};",
                            f"constexpr std::array<char32_t, {len(numbers)}> {name} = {{\n{lines}", source, flags=re.DOTALL)
    assert count == 1, name
with open(SOURCE, "w") as file:
    file.write(source)
