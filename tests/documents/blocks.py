"""The code blocks of a Markdown document, in order. A fenced block has a kind ("sh", "text", "toml", "diff", ...) and
perhaps the name of a machine after it; the kind of an indented block is "indented"."""

import dataclasses
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from suite import SOURCE  # noqa: E402


@dataclasses.dataclass
class Block:
    place: str  # DOCUMENT:LINE
    kind: str
    machine: str
    lead: str  # the paragraph before it, on one line
    text: str = ""


def read(document):
    with open(os.path.join(SOURCE, document), encoding="utf-8") as file:
        return file.read()


def blocks_of(document):
    found, paragraph, lines, block = [], "", [], None
    for number, line in enumerate(read(document).split("\n"), 1):
        if block and block.kind == "indented" and line and not line.startswith("    "):
            block.text = block.text.rstrip("\n") + "\n"
            block = None
        if block and block.kind == "indented":
            block.text += line[4:] + "\n"
        elif block and line == "```":
            block = None
        elif block:
            block.text += line + "\n"
        elif line.startswith("```"):
            kind, _, machine = line[3:].partition(" ")
            block = Block(f"{document}:{number}", kind, machine, " ".join(lines) or paragraph)
        elif line.startswith("    ") and not lines:
            block = Block(f"{document}:{number}", "indented", "", paragraph, line[4:] + "\n")
        elif line:
            lines.append(line)
            continue
        elif lines:
            paragraph = " ".join(lines)
        if block and block not in found:
            found.append(block)
        lines = []
    return found


def prose(document):
    """The document without its fenced blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", read(document))


def minutes(document):
    """The time in which a reader can run all commands, as the document states it."""
    words = {"two": 2, "three": 3, "five": 5, "ten": 10}
    return words[re.search(r"less than (\w+) minutes", " ".join(prose(document).split())).group(1)]
