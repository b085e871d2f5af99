#!/usr/bin/python3
"""What users' files really look like: seen_test.py PROGRAM

PROGRAM is build/release/starling. Odd names, links, pipes, compressed tokens, byte-order marks, unreadable files, data that have
changed under a checkpoint, locales: each is read as it is meant, or refused in a sentence that names it. The last line is
"N passed, N failed".
"""
import gzip
import json
import os
import re
import socket
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import require  # noqa: E402

NOBODY = 65534
SOFTMAX = ["--model", "softmax", "--batch-size", "4"]
PEER = ["peer", "--listen", "none", "--name", "p", "--export", "none", *SOFTMAX]


def table(by=0, swapped=False):
    """Two features and two kinds."""
    rows = [(1700000000 + by + k, k % 7, ("ash", "oak")[(k + swapped) % 2]) for k in range(60)]
    return "u,v,kind\n" + "".join(f"{u},{v},{kind}\n" for u, v, kind in rows)


class SeenTest(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("STARLING_")}
        self.write("my.csv", table())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def starling(self, *words, **more):
        env = {**self.environment, **more.pop("env", {})}
        folder = os.path.join(self.folder, more.pop("cwd_of", ""))
        return subprocess.run([self.program, *words], cwd=folder, env=env, capture_output=True, timeout=suite.HANG,
                              check=False, **more)

    def succeed(self, *words, **more):
        done = self.starling(*words, **more)
        require(done.returncode == 0, f"{words}: {done.returncode}: {done.stderr}")
        return done

    def refused(self, sentence, *words, **more):
        """Exit code 2 and one line with this sentence."""
        done = self.starling(*words, **more)
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("starling ")]
        require(done.returncode == 2 and len(lines) == 1 and sentence in lines[0], f"{words}: {done.returncode}: {done.stderr}")

    # ---- what changes under a checkpoint ----

    def tells_changed_data(self):
        resume = [*PEER, "--data", "kept.csv", "--checkpoints", "kept", "--resume", "kept", "--steps"]
        self.write("kept.csv", table())
        self.succeed(*resume, "4")
        self.succeed(*resume, "8")
        others = (table(swapped=True), table(by=3), "\n".join([*table().split("\n")[:-2], "1,1,ash", ""]))
        for steps, other in zip(("12", "16", "20"), others):
            self.write("kept.csv", other)
            said = self.succeed(*resume, steps).stderr.decode()
            require("these are other samples or labels than those of the checkpoint" in said, said)

    # ---- tokens ----

    def reads_compressed_tokens(self):
        tokens = [(k * 7919) % 50000 for k in range(400)]
        for part in ("train", "val"):
            self.write(f"tokens/{part}.bin.gz", gzip.compress(struct.pack("<400I", *tokens)))
        self.refused(":width=32", "data", "info", "tokens")
        data = json.loads(self.succeed("data", "info", "tokens:width=32", "--json").stdout)
        require(data["train"]["tokens"] == 400 and data["test"]["tokens"] == 400, data)

    def writes_any_bytes_as_json(self):
        self.write("book.txt", "".join(chr(0x4E00 + k % 50) for k in range(3000)))
        self.write("gpt.toml", 'type = "gpt"\nlayers = 1\nheads = 1\nfeatures = 8\ncontext = 16\n')
        self.succeed("simulate", "--peers", "1", "--model", "gpt.toml", "--data", "book.txt:tokens=bytes", "--steps", "2",
                     "--batch-size", "2", "--out", "text")
        for seed in "123":
            done = self.succeed("generate", "text/model.safetensors", "--prompt", "a", "--tokens", "40", "--seed", seed, "--json")
            for line in done.stdout.decode("utf-8").splitlines():
                json.loads(line)

    # ---- files that are none ----

    def names_what_is_no_file(self):
        os.mkfifo(self.path("pipe.csv"))
        os.symlink("loop.csv", self.path("loop.csv"))
        os.symlink("nowhere.csv", self.path("dangling.csv"))
        self.refused("'pipe.csv' is not a regular file", "data", "info", "pipe.csv")
        self.refused("loop.csv", "data", "info", "loop.csv")
        self.refused("dangling.csv", "data", "info", "dangling.csv")
        self.refused("/dev/stdin", "data", "info", "/dev/stdin", stdin=subprocess.DEVNULL)

    def names_what_is_not_readable(self):
        if os.geteuid() != 0 or self.starling("--version", user=NOBODY, group=NOBODY, extra_groups=[]).returncode != 0:
            raise suite.Skipped("only root can become another user, who must reach the program")
        os.chmod(self.folder, 0o755)
        self.write("closed.csv", table())
        os.mkdir(self.path("closed"))
        for name in ("closed.csv", "closed"):
            os.chmod(self.path(name), 0)
            self.refused("ermission denied", "data", "info", name, user=NOBODY, group=NOBODY, extra_groups=[])

    def reads_the_file_that_is_named(self):
        """Not one of its name in the data root."""
        for folder, count in (("root", 80), ("here", 60)):
            self.write(f"{folder}/t.csv", "u,kind\n" + "".join(f"{k % 9},{k % 2}\n" for k in range(count)))
            self.write(f"{folder}/book.txt", "abcd " * count)
            for part in ("train", "test"):
                self.write(f"{folder}/both/{part}.csv", "u,kind\n" + "".join(f"{k % 9},{k % 2}\n" for k in range(count)))
        for name, expected in (("t.csv", 60), ("both", 120), ("book.txt", 300)):
            done = self.succeed("data", "info", name, "--json", cwd_of="here", env={"STARLING_DATA": self.path("root")})
            data = json.loads(done.stdout)
            found = data["train"]["characters"] + data["test"]["characters"] if "train" in data else \
                data["train_samples"] + data["test_samples"]
            require(found == expected, f"{name}: {data}")
            require(any("not from" in note and "which has the same name" in note for note in data["notes"]), data)

    # ---- names ----

    def shows_any_name(self):
        tag = "<img src=x onerror=y>.csv"
        for name in ("a b.csv", "it's.csv", 'a"b.csv', "back\\slash.csv", "ünï.csv", "semi;colon.csv", tag, "-dash.csv", "%41.csv"):
            self.write(name, table())
            data = json.loads(self.succeed("data", "info", f"./{name}", "--json").stdout)
            require(data["name"] == name[:-4], data)
        self.succeed("simulate", "--peers", "2", *SOFTMAX, "--data", tag, "--steps", "2", "--out", "odd")
        with open(self.path("odd/report.html"), encoding="utf-8") as file:
            require("<img src=x" not in file.read(), "the page has the name of the data as a tag")
        self.succeed("report", "odd", "--out", "odd.html", "--csv", "odd.csv")
        self.write("two\nlines.csv", table())
        self.refused("printable characters", "simulate", "--peers", "1", *SOFTMAX, "--data", "two\nlines.csv", "--steps", "2",
                     "--out", "lines")

    def reads_networks_of_other_editors(self):
        text = '\ufefflayers = [\r\n  { type = "linear", features = 5 },\r\n  "relu",\r\n  "linear",\r\n]\r\n'
        self.write("NET.TOML", text)
        self.succeed("model", "show", "NET.TOML", "--data", "my.csv")

    def refuses_endless_headers(self):
        self.write("huge.safetensors", struct.pack("<Q", 1 << 40) + b"{}")
        self.refused("huge.safetensors", "evaluate", "huge.safetensors", "--data", "my.csv")
        self.write("long.safetensors", struct.pack("<Q", (16 << 20) + 1) + b" " * ((16 << 20) + 1))
        self.refused("long.safetensors", "evaluate", "long.safetensors", "--data", "my.csv")

    # ---- places ----

    def computes_alike_everywhere(self):
        models = []
        places = {"LC_ALL": "C", "TZ": "UTC"}, {"LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"}
        for number, env in enumerate(places):
            out = f"place-{number}"
            done = self.succeed("simulate", "--peers", "2", *SOFTMAX, "--data", "my.csv", "--steps", "6", "--out", out, env=env)
            with open(self.path(f"{out}/model.safetensors"), "rb") as file:
                models.append((file.read(), re.sub(rb"results .*", b"", re.sub(rb" in [\d.]+ s", b"", done.stdout))))
        require(models[0] == models[1], f"a locale or a time zone changes a run: {models[0][1]}, {models[1][1]}")

    def says_numbers_as_they_are(self):
        said = self.succeed("data", "info", "my.csv").stdout.decode()
        require("1700000000 0" in said and "mean 1700000029 " in said, said)

    def divides_documents_before_the_launch(self):
        for name in ("a", "b"):
            self.write(f"books/{name}.txt", "abcd efgh " * 40)
        self.write("gpt.toml", 'type = "gpt"\nlayers = 1\nheads = 1\nfeatures = 8\ncontext = 16\n')
        self.refused("document", "swarm", "--peers", "4", "--model", "gpt.toml", "--data", "books", "--partition", "by-document",
                     "--steps", "2", "--out", "divided")

    def notices_lost_answers(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [*PEER, "--data", "my.csv", "--pace", "20ms", "--epochs", "100000", "--http", f"127.0.0.1:{port}"]
        peer = subprocess.Popen([self.program, *words], cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        try:
            for command in ("status", "members"):
                words = [command, "--at", f"127.0.0.1:{port}"]
                suite.until(lambda w=words: self.starling(*w).returncode == 0, f"{command} does not answer")
                for more in ([], ["--json"]):
                    with open("/dev/full", "wb") as full:
                        done = subprocess.run([self.program, *words, *more], env=self.environment, stdout=full,
                                              stderr=subprocess.PIPE, timeout=suite.HANG, check=False)
                    require(done.returncode > 0 and done.stderr, f"{words}, {more}: {done.returncode}: {done.stderr}")
        finally:
            peer.terminate()
            peer.wait(suite.HANG)

    def run(self):
        self.case("a peer that resumes with other data says so", self.tells_changed_data)
        self.case("compressed tokens of 32 bits are refused without their width", self.reads_compressed_tokens)
        self.case("generated bytes are valid JSON", self.writes_any_bytes_as_json)
        self.case("pipes, loops and links that lead nowhere are named", self.names_what_is_no_file)
        self.case("files and folders that may not be read are named", self.names_what_is_not_readable)
        self.case("a path that exists is what it says, whatever the data root has", self.reads_the_file_that_is_named)
        self.case("any name of a file is shown as it is", self.shows_any_name)
        self.case("a network with a byte-order mark and CRLF is read", self.reads_networks_of_other_editors)
        self.case("a header without an end is refused", self.refuses_endless_headers)
        self.case("locales and time zones change nothing", self.computes_alike_everywhere)
        self.case("large numbers are shown with all their digits", self.says_numbers_as_they_are)
        self.case("a swarm with fewer documents than peers is refused before its launch", self.divides_documents_before_the_launch)
        self.case("an answer of a peer that cannot be printed is a failure", self.notices_lost_answers)


if __name__ == "__main__":
    sys.exit(suite.main(SeenTest))
