"""Statements of the documents that a program can check. A check is a function of the documents, {PATH: text}, and of the
facts of the program and the source tree; it returns the false places, one sentence each. CHECKS has beside every check
a false text, which the check must find: a check that cannot fail is an error."""

import dataclasses
import os
import re

from suite import SOURCE, require

README_LINES = 230
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
           "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
WIRE_TEXTS = {"starling identity 1", "starling discovery"}  # of docs/PROTOCOL.md, not commands
REPOSITORY_FILE = r"[a-z_]+(?:/[A-Za-z0-9_.]+)+\.(?:h|cc|cu|py|toml|sh|md|c|fbs|txt)"


@dataclasses.dataclass
class Facts:
    commands: dict  # by path: the flags of each command, with the shared ones
    shared: set  # flags of every command
    families: int  # of topologies, without file:
    experiments: list  # the files in experiments/
    keys: set  # of settings and of [daemon]
    others: set  # flags of scripts and other programs of this repository


def facts_of(tables, families):
    """`tables`: the object that `starling tables` prints; `families`: what `starling topology list` prints."""
    shared = {flag["name"] for flag in tables["shared"]} | {"--help", "--version"}
    commands = {command["path"]: {flag["name"] for flag in command["flags"]} | shared for command in tables["commands"]
                if not command["hidden"] or command["path"] in ("man", "version", "tables")}
    keys = {flag["key"] for command in tables["commands"] for flag in command["flags"] if flag["key"]}
    names = re.findall(r"(?m)^([a-z][\w:=,.-]*) ", families)
    return Facts(commands, shared, len([name for name in names if not name.startswith("file:")]),
                 sorted(os.listdir(f"{SOURCE}/experiments")), keys, flags_of_scripts())


def flags_of_scripts():
    found = set()
    for folder in ("scripts", "bench", "fuzz", "clients", "tests", "kernels"):
        for root, _, names in os.walk(f"{SOURCE}/{folder}"):
            for name in names:
                if name.endswith((".py", ".sh", ".cc", ".h", ".c")) and name != "claims.py" or "." not in name:
                    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
                        found |= set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", file.read()))
    return found


def without_fences(text):
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def places(documents):
    """(document, number of a line, line) of all documents."""
    return [(document, number, line) for document, text in documents.items()
            for number, line in enumerate(text.split("\n"), 1)]


def inline_code(documents):
    """(document, code) of the code in backticks of the prose."""
    return [(document, " ".join(code.split())) for document, text in documents.items()
            for code in re.findall(r"`([^`]+)`", without_fences(text))]


def number_of(word):
    return NUMBERS.index(word.lower()) if word.lower() in NUMBERS else int(word) if word.isdigit() else None


def counts(documents, facts):
    """Counts in words: of files, families and uses."""
    uses = len(re.findall(r"(?m)^## Use \d", documents["README.md"]))
    wanted = [(r"`experiments/` has\s+(\w+)\s+ready\s+files", len(facts.experiments), "experiments"),
              (r"(\w+)\s+families\s+of\s+(?:graphs|topologies)", facts.families, "families of topologies"),
              (r"shows\s+(\w+)\s+uses\s+of\s+Starling", uses, "uses in README.md")]
    wrong = []
    for pattern, number, what in wanted:
        found = [(document, word) for document, text in documents.items() for word in re.findall(pattern, text)
                 if number_of(word) is not None]
        wrong += [f"{document}: {word} {what}, but there are {number}" for document, word in found
                  if number_of(word) != number]
        if not found:
            wrong.append(f"no document states the number of {what}")
    return wrong


def command_lines(documents):
    """(place, words after `starling`) of every command in code, without what follows a pipe or a comment."""
    found = []
    for document, text in documents.items():
        blocks = re.sub(r"\\\n", " ", text)
        lines = [line for line in blocks.split("\n") if re.match(r"(?:    |\$ |\s*)\S", line)]
        codes = [code for _, code in inline_code({document: text})]
        for line in [*lines, *codes]:
            line = re.sub(r"(?:^|\s)#.*", "", line)
            for part in re.split(r"[|;&]|\$\(", line):
                # At the begin of a command: after a prompt, indentation, variables or another program that runs it.
                match = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S* )*(?:nice )?(?:\S*/)?starling ((?:[a-z-]|--).*)$", part)
                if match:
                    found.append((document, match.group(1).split()))
    return found


def command_of(words, facts):
    for length in (2, 1):
        if " ".join(words[:length]) in facts.commands:
            return " ".join(words[:length])
    return None


def commands(documents, facts):
    """Every `starling COMMAND --flag` in code exists."""
    wrong, found = [], 0
    groups = {path.split()[0] for path in facts.commands} | {"help"}
    for document, words in command_lines(documents):
        if words[0].startswith("--"):
            wrong += [f"{document}: starling {words[0]}" for word in words[:1] if word.split("=")[0] not in facts.shared]
            continue
        if not re.fullmatch(r"[a-z-]+[,.]?", words[0]) or words[0] == "help" or " ".join(["starling", *words]) in WIRE_TEXTS:
            continue
        found += 1
        path = command_of([word.strip(",.`") for word in words[:2]], facts)
        if path is None:
            if words[0].strip(",.`") not in groups:
                wrong.append(f"{document}: starling {' '.join(words[:2])}: no such command")
            continue
        flags = [re.match(r"--[a-z0-9-]*", word).group() for word in words if re.match(r"--[a-z]", word)]
        wrong += [f"{document}: starling {path} has no {flag}" for flag in flags if flag not in facts.commands[path]]
    return wrong if found > 0 else ["no commands were found"]


def flags(documents, facts):
    """Every flag in backticks exists, in the program or in a script."""
    known = facts.others | {flag for flags_of in facts.commands.values() for flag in flags_of}
    wrong = []
    for document, code in inline_code(documents):
        match = re.match(r"--[a-z][a-z0-9-]*", code)
        if match and match.group() not in known:
            wrong.append(f"{document}: no program has {match.group()}")
    return wrong


def keys(documents, facts):
    """Every `section.key` of a setting exists."""
    sections = {key.split(".")[0] for key in facts.keys if "." in key}
    own = {"model.tensors", "data.epoch_samples", "data.tokenizer", "data.description"}  # facts of a manifest
    files = r".*\.(?:toml|txt|h|cc|py|json|jsonl|safetensors|csv|npy|bin|log|js|css|html)"
    wrong = []
    for document, code in inline_code(documents):
        match = re.match(r"([a-z]+)\.[a-z_]+(?=$| =|=)", code)
        if match and match.group(1) in sections and match.group() not in facts.keys | own \
                and not re.fullmatch(files, match.group()):
            wrong.append(f"{document}: no setting is called {match.group()}")
    return wrong


def files(documents, _facts):
    """Every file of the repository that is named in backticks exists."""
    tops = {name for name in os.listdir(SOURCE) if os.path.isdir(os.path.join(SOURCE, name))} - {"build"}
    wrong = []
    for document, code in inline_code(documents):
        for name in re.findall(rf"(?<![\w/$.-]){REPOSITORY_FILE}(?![\w/])", code):
            if name.split("/")[0] in tops and "NAME" not in name and document != "docs/OWN_RULE.md" \
                    and not os.path.exists(os.path.join(SOURCE, name)):
                wrong.append(f"{document}: there is no {name}")
    return wrong


def links_of(document, text):
    targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", text)
    return {os.path.normpath(os.path.join(os.path.dirname(document), target)) for target in targets
            if not re.match(r"\w+:", target)}


def reachable(documents, _facts):
    """README.md has a link to every document, and nothing is reached in another way only."""
    linked = links_of("README.md", documents["README.md"])
    return [f"README.md has no link to {document}" for document in documents if document not in linked | {"README.md"}]


def groups(documents, facts):
    """README.md mentions every command, a group of commands by its first word."""
    readme = {"README.md": documents["README.md"]}
    code = " ".join([code for _, code in inline_code(readme)] + [" ".join(words) for _, words in command_lines(readme)])
    hidden = {"man", "version", "tables"}
    return [f"README.md does not mention `{name}`" for name in sorted({path.split()[0] for path in facts.commands} - hidden)
            if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code)]


def length(documents, _facts):
    lines = documents["README.md"].count("\n")
    return [f"README.md has {lines} lines, more than {README_LINES}"] if lines > README_LINES else []


def ready_experiments(documents, facts):
    """The table of docs/FAULTS.md has every file of experiments/, once, with a time."""
    section = documents["docs/FAULTS.md"].partition("## Ready experiments")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `([\w-]+\.toml)` \| .* \| (.*) \|$", section)
    names = [name for name, _ in rows]
    wrong = [f"docs/FAULTS.md has no row for {name}" for name in facts.experiments if name not in names]
    wrong += [f"docs/FAULTS.md has a row for {name}, which does not exist" for name in names if name not in facts.experiments]
    wrong += [f"docs/FAULTS.md gives {name} the time {time!r}" for name, time in rows
              if not re.fullmatch(r"\d+(?:\.\d+)? (?:s|min|h)", time)]
    return wrong


def language(documents, _facts):
    """Words that the documents avoid."""
    phrases = [r"\b(?:that|those) of\b", r"\b[Ww]hoever\b", r"\bunder way\b", r"\bgoes on\b", r"\b(?:is|are|be) told\b",
               r"\bcome[s]? out\b"]
    wrong = []
    for document, text in documents.items():
        if document == "CHANGELOG.md":
            continue
        text = " ".join(without_fences(text).split())
        for phrase in phrases:
            wrong += [f"{document}: ...{text[max(0, at.start() - 40):at.end() + 20]}..." for at in re.finditer(phrase, text)]
    return wrong


# (the sentence of the case, the check, a document and a false text that is added to it)
CHECKS = [
    ("counts in words agree with the folders and lists", counts, "docs/DATA.md", "Three families of graphs."),
    ("every command and its flags in the documents exist", commands, "docs/API.md", "    starling plan lenet --planets 3"),
    ("every flag in the documents exists", flags, "README.md", "Give `--planets`."),
    ("every setting in the documents exists", keys, "docs/RULES.md", "The key `gossip.planets` is new."),
    ("every file that the documents name exists", files, "docs/CPU.md", "See `kernels/cpu/planets.h`."),
    ("README.md has a link to every document", reachable, "docs/HIDDEN.md", "A document."),
    ("README.md mentions every command", groups, None, None),
    (f"README.md has at most {README_LINES} lines", length, "README.md", "\n" * README_LINES),
    ("docs/FAULTS.md lists every ready experiment with its time", ready_experiments, None, None),
    ("the documents avoid the phrases that are hard to read", language, "docs/API.md", "It equals that of the peer."),
]


def must_hold(check, documents, facts):
    wrong = check(documents, facts)
    require(not wrong, "\n      ".join(wrong))


def must_be_able_to_fail(check, documents, facts, document, text):
    """The check finds a false text. Without one the documents lose a command, or gain an experiment."""
    if document:
        changed, other = {**documents, document: documents.get(document, "") + "\n\n" + text + "\n"}, facts
    else:
        changed = documents
        other = dataclasses.replace(facts, commands={**facts.commands, "planet show": set()},
                                    experiments=[*facts.experiments, "planets.toml"])
    require(check(changed, other), f"the check does not find: {text or 'a command or a file that no document has'}")
