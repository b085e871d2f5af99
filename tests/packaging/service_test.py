#!/usr/bin/env python3
"""Tests the systemd unit in scripts/deploy with its own command, variables and flags of peer.conf, where systemd need not run: as
root in a mount namespace whose only writable folders are the state folder and /tmp, as another user. The network, the model and
the data of peer.conf are replaced. service_test.py PROGRAM; the last line is "N passed, N failed"."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import SOURCE, require, until  # noqa: E402

NOBODY = 65534
EPOCHS = 50
REPLACED = ((r"--listen \S+", "--listen 127.0.0.1:0"), (r"--advertise \S+", ""), (r"--http \S+", ""), (r"--model \S+", "--model softmax"),
            (r"--data \S+", "--data glyphs"), (r"--epochs \S+", f"--epochs {EPOCHS}"))


class Service(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        os.chmod(folder, 0o755)
        self.program = shutil.copy(program, f"{folder}/starling")
        self.unit = open(f"{SOURCE}/scripts/deploy/starling@.service", encoding="utf-8").read().replace("\\\n", " ")
        self.process = None

    # What systemd makes of the unit's text for the instance `name`.
    def filled(self, text, name):
        for word, value in (("%S", f"{self.folder}/lib"), ("%i", name), ("${STATE_DIRECTORY}", self.state(name)),
                            ("/usr/bin/starling", self.program)):
            text = text.replace(word, value)
        return text

    def state(self, name):
        [folder] = re.findall(r"^StateDirectory=(.*)$", self.unit, re.MULTILINE)
        return f"{self.folder}/lib/{folder.replace('%i', name)}"

    def start(self, name, log, **variables):
        [flags] = re.findall(r"^PEER_FLAGS=(.*)$", open(f"{SOURCE}/scripts/deploy/peer.conf", encoding="utf-8").read(), re.MULTILINE)
        for old, new in REPLACED:
            flags, changed = re.subn(old, new, flags)
            require(changed == 1, f"peer.conf has no {old}")
        environment = {"PATH": "/usr/bin:/bin", "STATE_DIRECTORY": self.state(name), **variables}
        for line in re.findall(r"^Environment=(.*)$", self.unit, re.MULTILINE):
            environment.update(pair.split("=", 1) for pair in shlex.split(self.filled(line, name)))
        [command] = re.findall(r"^ExecStart=(.*)$", self.unit, re.MULTILINE)
        require(command.endswith(" $PEER_FLAGS"), command)
        words = shlex.split(self.filled(command.replace("$PEER_FLAGS", flags), name))
        os.makedirs(self.state(name), exist_ok=True)
        require("\nProtectSystem=strict\n" in self.unit, "the unit can write elsewhere")
        if os.getuid() == 0:
            os.chown(self.state(name), NOBODY, NOBODY)
            as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", *words]
            private = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$0" "$0"; mount --bind /tmp /tmp; mount -o remount,bind,ro /; exec "$@"',
                       self.state(name)]
            if subprocess.run([*private, "true"], capture_output=True).returncode == 0:
                as_user = private + as_user
            words = as_user
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(words, cwd="/", env=environment, stdout=out, stderr=out, start_new_session=True)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # The messages of a log, which the unit writes as JSON.
    def messages(self, log):
        with open(log, encoding="utf-8") as file:
            lines = file.read().split("\n")
        return [json.loads(line).get("message", "") for line in lines if line.startswith("{") and line.endswith("}")]

    def found(self, log, pattern):
        return [match for message in self.messages(log) for match in re.findall(pattern, message)]

    def ends_with_its_model(self, name, log):
        code = self.process.wait(timeout=suite.HANG)
        require(code == 0, f"it ended with {code}: {self.messages(log)[-5:]}")
        model = f"{self.state(name)}/{name}.safetensors"
        require(os.path.exists(model), f"no model in the state folder, which has {os.listdir(self.state(name))}")
        said = subprocess.run([self.program, "evaluate", model, "--data", "glyphs", "--json"], capture_output=True, text=True, timeout=suite.HANG)
        require(said.returncode == 0 and json.loads(said.stdout)["accuracy"] > 0.5, f"{said.stdout}{said.stderr}")
        kept = [line for line in self.messages(log) if "is not kept" in line]
        require(not kept, f"it says {kept}")

    def keeps_its_model(self):
        log = f"{self.folder}/north.log"
        self.start("north", log)
        self.ends_with_its_model("north", log)

    # The interval is shorter, so that the test is; the peer is killed as soon as it has written two checkpoints.
    def resumes_after_kill(self):
        before, after = f"{self.folder}/before.log", f"{self.folder}/after.log"
        written = r"checkpoint written: .*?\.(\d+)\.safetensors"
        self.start("south", before, STARLING_CHECKPOINT_EVERY="3000 steps")
        until(lambda: len(self.found(before, written)) >= 2 or self.process.poll() is not None, lambda: f"no checkpoints: {self.messages(before)}")
        self.process.kill()
        self.process.wait()
        checkpoints = self.found(before, written)
        require(len(checkpoints) >= 2, f"it ended without checkpoints: {self.messages(before)}")
        last = int(checkpoints[-1])
        self.start("south", after, STARLING_CHECKPOINT_EVERY="3000 steps")
        self.ends_with_its_model("south", after)
        resumed = self.found(after, r"resumes from \S+: (\d+) steps")
        require(resumed and int(resumed[0]) >= last, f"it had written {last} steps, and resumed from {resumed}: {self.messages(after)[:5]}")
        ended = self.found(after, r"training ends after (\d+) steps")
        require(ended, self.messages(after))
        north = self.found(f"{self.folder}/north.log", r"training ends after (\d+) steps")
        require(north, "the peer that was not killed did not end")
        whole = int(north[0])
        # What it consumed since the last checkpoint counts as lost, and is trained again.
        require(abs(int(ended[0]) - whole) <= 0.02 * whole, f"it ended after {ended[0]} steps, and without a kill after {whole}")

    def run(self):
        self.case(f"the unit's peer ends its {EPOCHS} epochs with the model in its state folder", self.keeps_its_model)
        self.case("SIGKILL loses no more than what it trained since its last checkpoint", self.resumes_after_kill)


if __name__ == "__main__":
    sys.exit(suite.main(Service))
