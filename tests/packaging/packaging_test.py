#!/usr/bin/env python3
"""Tests the deliverables of a build: an installed tree, its packages, and the deployment examples.
packaging_test.py BUILD-FOLDER; the last line is "N passed, N failed"."""

import contextlib
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import elf  # noqa: E402
import suite  # noqa: E402
from bundles import Bundles  # noqa: E402
from suite import SOURCE, require  # noqa: E402


def call(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **more)
    require(done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def is_there(program):
    return shutil.which(program) is not None


# An interactive zsh with a folder of completions.
class Zsh:
    def __init__(self, folder):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "dumb"})
        self.heard = ""
        self.say(f"PS1= PS2= RPS1=; unsetopt prompt_sp prompt_cr; bindkey -e; stty columns 1000; fpath=({folder} $fpath)\n")
        # The tab key prints the completed line and clears it.
        self.say("tell() { zle complete-word; print -r -- $((40 + 2))\"<$BUFFER>\"; BUFFER= }; zle -N tell; bindkey '^I' tell\n")
        self.say("autoload -Uz compinit; compinit -u -D; print -r -- READY$((1 + 1))\n")
        self.until(r"READY2")

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        os.close(self.terminal)
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def say(self, text):
        os.write(self.terminal, text.encode())

    def until(self, pattern):
        while not (found := re.search(pattern, self.heard)):
            is_there = select.select([self.terminal], [], [], suite.HANG)[0]
            require(is_there, f"zsh printed no {pattern}, but: {self.heard!r}")
            self.heard += os.read(self.terminal, 65536).decode(errors="replace")
        self.heard = self.heard[found.end():]
        return found

    # The command line after completing the words, without the trailing blank or =.
    def completed(self, words):
        self.say(f"{words}\t")
        return self.until(r"42<(.*?)(?: *|=)>").group(1)


class Packages(suite.Suite):
    def __init__(self, build, folder):
        super().__init__(folder)
        self.build = build

    def files(self, root):
        return {os.path.relpath(path, root) for path in glob.glob(f"{root}/**", recursive=True) if os.path.isfile(path)}

    # Every file that an installation must contain, relative to its prefix.
    def expected(self):
        names = {"bin/starling", "share/man/man1/starling.1", "share/bash-completion/completions/starling",
                 "share/fish/vendor_completions.d/starling.fish", "share/zsh/site-functions/_starling",
                 "share/zsh/vendor-completions/_starling",
                 "share/doc/starling/README.md", "share/doc/starling/CITATION.cff", "share/doc/starling/LICENSE",
                 "share/doc/starling/copyright",
                 "lib/systemd/system/starling@.service"}
        names |= {"share/doc/starling/deploy/" + name for name in self.files(f"{SOURCE}/scripts/deploy")}
        names |= {"share/doc/starling/docs/" + name for name in self.files(f"{SOURCE}/docs")}
        names |= {"share/starling/experiments/" + name for name in os.listdir(f"{SOURCE}/experiments")}
        return names

    def installs(self):
        prefix = f"{self.folder}/prefix"
        call("cmake", "--install", self.build, "--prefix", prefix)
        there = self.files(prefix)
        require(self.expected() <= there, f"not installed: {self.expected() - there}")
        if os.path.exists(f"{self.build}/libstarling_cuda.so"):
            require("lib/starling/libstarling_cuda.so" in there, "the CUDA module is not installed")
        program = f"{prefix}/bin/starling"
        said = call(program, "--version")
        require(re.fullmatch(r"starling \d+\.\d+\.\d+(-dev(\+[0-9a-f]{12}(\.dirty)?)?)?\n", said), f"its version is {said}")
        built = open(program, "rb").read()
        require(b"./base/random.cc" in built, "the program does not name its sources")
        for place in {SOURCE, os.path.realpath(SOURCE), os.path.realpath(self.build)}:
            require(place.encode() + b"/" not in built, f"the program contains the builder's path {place}")
        # The program finds its module there, or reports that it searched there.
        places = call(program, "doctor")
        require(f"{prefix}/lib/starling/libstarling_cuda.so" in places or "lib/starling" in there, places)
        page = open(f"{prefix}/share/man/man1/starling.1").read()
        require(page == call(program, "man"), "the manual page belongs to another build")
        require(elf.dynamic(program, "RPATH") == ["$ORIGIN/../lib/starling"] and not elf.dynamic(program, "RUNPATH"),
                "the installed program searches for libraries elsewhere than beside itself")

    # The completions that fish offers, without descriptions.
    def fish_offers(self, words):
        home = f"{self.folder}/fish"
        os.makedirs(home, exist_ok=True)
        script = f"source {self.folder}/prefix/share/fish/vendor_completions.d/starling.fish; complete -C '{words}'"
        said = call("fish", "--no-config", "-c", script, env={"PATH": os.environ["PATH"], "HOME": home})
        return [line.split("\t")[0] for line in said.split("\n") if line]

    def fish_completes(self):
        open(f"{self.folder}/my-net.toml", "w").close()
        require(self.fish_offers("starling simul") == ["simulate"], self.fish_offers("starling simul"))
        commands = self.fish_offers("starling ")
        require({"peer", "swarm", "topology"} <= set(commands), commands)
        require(self.fish_offers("starling topology co") == ["compare"], self.fish_offers("starling topology co"))
        require(self.fish_offers("starling swarm --target-a") == ["--target-accuracy"], self.fish_offers("starling swarm --target-a"))
        require(self.fish_offers("starling topology show hyper") == ["hypercube"], self.fish_offers("starling topology show hyper"))
        require(self.fish_offers("starling peer --rule push") == ["push-sum"], self.fish_offers("starling peer --rule push"))
        require(self.fish_offers("starling log-level w") == ["warning"], self.fish_offers("starling log-level w"))
        require(self.fish_offers("starling peer --control") == [], "it offers hidden flags")
        mine = f"{self.folder}/my-"
        require(self.fish_offers(f"starling swarm {mine}") == [f"{mine}net.toml"], self.fish_offers(f"starling swarm {mine}"))
        require(self.fish_offers(f"starling peer {mine}") == [], "it offers files where none is expected")

    # zsh's command line after the words and a tab, each on its own terminal.
    def zsh_completes(self):
        open(f"{self.folder}/my-net.toml", "w").close()
        with Zsh(f"{self.folder}/prefix/share/zsh/site-functions") as zsh:
            for words, whole in (("starling simul", "starling simulate"),
                                 ("starling topology co", "starling topology compare"),
                                 ("starling swarm --target-a", "starling swarm --target-accuracy"),
                                 ("starling swarm --peers 4 --learn", "starling swarm --peers 4 --learning-rate"),
                                 ("starling topology show hyper", "starling topology show hypercube"),
                                 ("starling swarm --topology one", "starling swarm --topology one-peer-exponential"),
                                 ("starling peer --rule push", "starling peer --rule push-sum"),
                                 ("starling peer --rule=push", "starling peer --rule=push-sum"),
                                 ("starling peer --partition diri", "starling peer --partition dirichlet:alpha="),
                                 (f"starling simulate --model {self.folder}/my", f"starling simulate --model {self.folder}/my-net.toml"),
                                 (f"starling swarm {self.folder}/my", f"starling swarm {self.folder}/my-net.toml"),
                                 ("starling log-level w", "starling log-level warning"),
                                 ("starling peer --control", "starling peer --control"),
                                 ("starling swarm --peers ", "starling swarm --peers")):
                line = zsh.completed(words)
                require(line == whole, f"zsh completes '{words}' to '{line}'")

    def makes_package(self):
        where = f"{self.folder}/deb"
        call(f"{SOURCE}/scripts/package", "--build", self.build, "--out", where, "deb")
        version = call(f"{self.build}/starling", "--version").split()[1].replace("-", "~")
        [package] = glob.glob(f"{where}/starling_{version}_*.deb")
        fields = dict(re.findall(r"^ ?([A-Z][\w-]*): (.*)$", call("dpkg-deb", "--info", package), re.MULTILINE))
        require(fields["Package"] == "starling" and fields["Version"] == version, f"it is {fields}")
        maintainer = fields["Maintainer"]
        require(re.fullmatch(r"[^<>]+ <[^<>@ ]+@[^<>@ ]+\.[^<>@. ]+>", maintainer) and "localhost" not in maintainer,
                f"its maintainer is {maintainer}")
        require(fields["Architecture"] == call("dpkg", "--print-architecture").strip(), f"it is for {fields['Architecture']}")
        depends = fields["Depends"]
        # Every distribution library that the program links has its package in Depends.
        for library, name in (("libc.so", "libc6"), ("libstdc++", "libstdc++6"), ("libdnnl", "libdnnl"), ("libfmt", "libfmt"),
                              ("libspdlog", "libspdlog"), ("libz.so", "zlib1g"), ("libxxhash", "libxxhash0"),
                              ("libavahi-client", "libavahi-client3")):
            if library in call("readelf", "-d", f"{self.build}/starling"):
                require(re.search(rf"\b{re.escape(name)}", depends), f"{name} is not in Depends: {depends}")
        require("cudnn" not in depends and "cublas" not in depends, "the program depends on CUDA")
        root = f"{self.folder}/unpacked"
        call("dpkg-deb", "--extract", package, root)
        there = {name[len("usr/"):] for name in self.files(root) if name.startswith("usr/")}
        of_debian = {"share/man/man1/starling.1.gz", "share/doc/starling/changelog.gz"}
        expected = self.expected() - {"share/man/man1/starling.1"} | of_debian
        require(expected <= there, f"not packed: {expected - there}")
        require("share/man/man1/starling.1" not in there, "the manual page is there twice")
        require(call(f"{root}/usr/bin/starling", "--version").startswith("starling "), "it does not run")

    # All invocations of the program in a file, as words: "starling peer --listen ...", up to the end of the line or quote.
    def calls(self, text):
        text = text.replace("\\\n", " ")
        for match in re.finditer(r"\bstarling ((?:peer|status|members|doctor|data fetch)\b)([^\n`]*)", text):
            yield match.group(1), match.group(2).split("'")[0]

    # The flags in the words that the command does not have.
    def strange(self, command, words):
        [table] = [c for c in self.tables["commands"] if c["path"] == command]
        known = {f["name"] for f in table["flags"] if not f["hidden"]} | {f["name"] for f in self.tables["shared"]} | {"--help"}
        return [word for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", words) if word not in known]

    def flags_exist(self):
        self.tables = json.loads(call(f"{self.build}/starling", "tables"))
        seen = 0
        for name in sorted(self.files(f"{SOURCE}/scripts/deploy")):
            text = open(f"{SOURCE}/scripts/deploy/{name}").read()
            text = "\n".join(line for line in text.split("\n") if name.endswith(".md") or not line.startswith("#"))
            for command, words in self.calls(text):
                seen += 1
                strange = self.strange(command, words)
                require(not strange, f"{name}: starling {command} has no {strange}")
        require(seen >= 8, f"only {seen} invocations found")
        # Flags without the command: in the configuration, the pods' shell and the batch script.
        for name, pattern in (("peer.conf", r"PEER_FLAGS=(.*)"), ("kubernetes.yaml", r"set -- (.*)"), ("slurm.sh", r"own=\(([^)]*)\)")):
            found = re.findall(pattern, open(f"{SOURCE}/scripts/deploy/{name}").read())
            require(found, f"{name} sets no flags")
            for words in found:
                require(not self.strange("peer", words), f"{name}: starling peer has no {self.strange('peer', words)}")

    def unit_is_sound(self):
        text = open(f"{SOURCE}/scripts/deploy/starling@.service").read()
        for line in ("Type=notify", "WatchdogSec=30", "RestartPreventExitStatus=2 4", "DynamicUser=yes"):
            require(f"\n{line}\n" in text, f"the unit has no {line}")
        for name in ("OUT", "CHECKPOINTS", "RESUME"):  # nothing else can be written
            require(f"STARLING_{name}=%S/starling/%i" in text, f"the unit sets no STARLING_{name}")
        units = f"{self.folder}/prefix/lib/systemd/system"
        require(f"ExecStart={self.folder}/prefix/bin/starling peer " in open(f"{units}/starling@.service").read(),
                "the installed unit does not start the installed program")
        if not is_there("systemd-analyze"):
            return print("skipped: systemd-analyze is not installed, so the unit was not verified")
        # Only the messages about this instance; those about other units do not matter.
        shutil.copy(f"{units}/starling@.service", f"{self.folder}/starling@north.service")
        said = subprocess.run(["systemd-analyze", "verify", "--man=no", f"{self.folder}/starling@north.service"],
                              capture_output=True, text=True, timeout=suite.HANG)
        ours = [line for line in said.stderr.split("\n") if "starling" in line]
        require(not ours, "\n".join(ours))

    def containers_are_sound(self):
        dockerfile = open(f"{SOURCE}/scripts/deploy/Dockerfile").read().replace("\\\n", " ")
        steps = [line.split(None, 1) for line in dockerfile.split("\n") if line and not line.startswith("#")]
        known = {"FROM", "COPY", "WORKDIR", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
        require({step for step, _ in steps} <= known, f"unknown steps: {steps}")
        require(sum(step == "FROM" for step, _ in steps) == 2, "it does not have two stages")
        users = [value for step, value in steps if step == "USER"]
        require(users == ["10001:10001"], f"it runs as {users}")
        for value in (value for step, value in steps if step in ("ENTRYPOINT", "VOLUME") or (step == "CMD")):
            json.loads(value)
        [health] = [value for step, value in steps if step == "HEALTHCHECK"]
        require("/livez" in json.loads(health[health.index("CMD") + 3:])[-1], "its health is not /livez")
        for step, value in steps:
            if step == "RUN":
                subprocess.run(["bash", "-n", "-c", value], check=True, timeout=suite.HANG)

        try:
            import yaml
        except ImportError:
            return print("skipped: PyYAML is not installed, so the Kubernetes objects were not checked")
        service, swarm = yaml.safe_load_all(open(f"{SOURCE}/scripts/deploy/kubernetes.yaml"))
        require(service["kind"] == "Service" and service["spec"]["clusterIP"] == "None", "the service is not headless")
        require(service["spec"]["publishNotReadyAddresses"] is True, "joining peers could not dial peers that are not ready")
        require(swarm["kind"] == "StatefulSet" and swarm["spec"]["serviceName"] == service["metadata"]["name"], "not its service")
        pod = swarm["spec"]["template"]
        labels = pod["metadata"]["labels"]
        require(labels == swarm["spec"]["selector"]["matchLabels"] == service["spec"]["selector"], "the selectors differ")
        [peer] = pod["spec"]["containers"]
        require(peer["livenessProbe"]["httpGet"]["path"] == "/livez", "liveness is not /livez")
        require(peer["readinessProbe"]["httpGet"]["path"] == "/readyz", "readiness is not /readyz")
        require(pod["spec"]["securityContext"]["runAsNonRoot"] is True, "it may run as root")
        ports = {port["name"]: port["containerPort"] for port in peer["ports"]}
        require(ports == {port["name"]: port["port"] for port in service["spec"]["ports"]}, "the ports differ")
        volumes = {v["name"] for v in pod["spec"]["volumes"]} | {c["metadata"]["name"] for c in swarm["spec"]["volumeClaimTemplates"]}
        # The Pod Security Standard "restricted", and what else every container has.
        require(pod["spec"]["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "no seccomp profile")
        for container in pod["spec"]["containers"] + pod["spec"]["initContainers"]:
            own = container["securityContext"]
            require(own["allowPrivilegeEscalation"] is False and own["capabilities"]["drop"] == ["ALL"]
                    and own["readOnlyRootFilesystem"] is True, f"{container['name']} is not restricted: {own}")
            require({"cpu", "memory"} <= set(container["resources"]["requests"]), f"{container['name']} requests no resources")
            require({mount["name"] for mount in container["volumeMounts"]} <= volumes, "a volume is missing")
        for flag in ("--advertise", "--state", f"--http 0.0.0.0:{ports['http']}", f"--listen 0.0.0.0:{ports['gossip']}"):
            require(flag in peer["args"][0], f"{flag} is not given")
        subprocess.run(["sh", "-n", "-c", peer["args"][0]], check=True, timeout=suite.HANG)

    # Creates stand-in programs for a batch script; returns the environment in which it finds them first.
    def slurm(self, where, processors, **programs):
        os.makedirs(f"{where}/tools")
        programs["scontrol"] = "printf 'node1\\nnode2\\n'"
        for name, text in programs.items():
            with open(f"{where}/tools/{name}", "w") as file:
                file.write("#!/usr/bin/env bash\nset -euo pipefail\n" + text + "\n")
            os.chmod(f"{where}/tools/{name}", 0o755)
        return {"PATH": f"{where}/tools:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]",
                "SLURM_SUBMIT_DIR": where, "SLURM_CPUS_PER_TASK": str(processors)}

    # Runs the batch script with stand-ins for Slurm's programs: the first task starts the run, the others join it.
    def batch_script_starts_peers(self):
        script = f"{SOURCE}/scripts/deploy/slurm.sh"
        environment = self.slurm(self.folder, 8, starling='printf "%s " "$@"; echo', hostname="echo node$((SLURM_PROCID + 1))",
                                 srun='while [[ $1 == --* ]]; do shift; done; for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done')
        begun, joined = call("bash", script, "--model", "lenet", "--epochs", "3", env=environment).strip().split("\n")
        own = "peer --name {0} --listen 0.0.0.0:7100 --advertise {0}:7100 --workers 8 --state {1}/starling-7/state-{0} --out {1}/starling-7"
        require(begun.strip() == own.format("node1", self.folder) + " --model lenet --epochs 3", begun)
        require(joined.strip() == own.format("node2", self.folder) + " --join node1:7100", joined)
        require(os.path.isdir(f"{self.folder}/starling-7"), "there is no folder for the results")

    # How to simulate two hosts on this machine: namespaces, as root or with a user namespace.
    def way_to_two_hosts(self):
        for way in (["unshare"], ["unshare", "--user", "--map-root-user"]):
            way = way + ["--net", "--mount", "--uts"]
            can = ["sh", "-c", "ip link add probe type bridge && mount --bind /etc/hosts /etc/hosts && unshare --net --uts true"]
            with contextlib.suppress(FileNotFoundError):
                if subprocess.run(way + can, capture_output=True).returncode == 0:
                    return way
        return None

    # The batch script on two connected hosts with a key: the second joins the first by name, and they train together.
    def two_hosts_train(self, way):
        where = f"{self.folder}/two-hosts"
        os.makedirs(where)
        with open(f"{where}/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n10.79.0.1 node1\n10.79.0.2 node2\n")
        call(f"{self.build}/starling", "key", "new", f"{where}/swarm.key")
        environment = self.slurm(where, 1, starling=f'exec {self.build}/starling "$@"', srun="""
            while [[ $1 == --* ]]; do shift; done
            SLURM_PROCID=0 "$@" 2>"$SLURM_SUBMIT_DIR/node1.log" & node1=$!
            SLURM_PROCID=1 nsenter --net="/proc/$FAR/ns/net" --uts="/proc/$FAR/ns/uts" "$@" 2>"$SLURM_SUBMIT_DIR/node2.log"
            wait $node1""")
        call("timeout", "--kill-after=5", str(suite.HANG), *way, "bash", "-euo", "pipefail", "-c", """
            mount --bind "$SLURM_SUBMIT_DIR/hosts" /etc/hosts
            mkfifo "$SLURM_SUBMIT_DIR/there"
            unshare --net --uts sh -c 'echo >"$SLURM_SUBMIT_DIR/there"; exec sleep 1000' & export FAR=$!
            trap 'kill $FAR' EXIT
            read -r <"$SLURM_SUBMIT_DIR/there"
            far() { nsenter --net="/proc/$FAR/ns/net" --uts="/proc/$FAR/ns/uts" "$@"; }
            ip link add eth0 type veth peer name eth0 netns "$FAR"
            ip addr add 10.79.0.1/24 dev eth0
            far ip addr add 10.79.0.2/24 dev eth0
            for here in "" far; do
              for link in lo eth0; do $here ip link set "$link" up; done
            done
            hostname node1
            far hostname node2
            bash "$0" --model lenet --data glyphs --epochs 2""", f"{SOURCE}/scripts/deploy/slurm.sh",
             env={**environment, "STARLING_KEY": f"{where}/swarm.key"})
        for node, other in ("node1", "node2"), ("node2", "node1"):
            log = open(f"{where}/{node}.log").read()
            require(f"{node} listens at {node}:7100" in log, log)
            require(f"member {other} at {other}:7100" in log, f"{node} has not met {other}: {log}")
            its = json.loads(call(f"{self.build}/starling", "evaluate", "--checkpoint", f"{where}/starling-7/{node}.safetensors",
                                  "--data", "glyphs", "--json"))
            require(its["accuracy"] > 0.9, f"{node} reached only {its}")

    def run(self):
        self.case("an installation contains every file and runs from its prefix", self.installs)
        for shell, work in (("zsh", self.zsh_completes), ("fish", self.fish_completes)):
            if is_there(shell):
                self.case(f"{shell} completes commands, flags and known values", work)
            else:
                print(f"skipped: {shell} is not installed")
        if is_there("dpkg-deb") and is_there("dpkg-shlibdeps"):
            self.case("the .deb depends on the packages of its libraries and unpacks to a program", self.makes_package)
        else:
            print("skipped: dpkg-dev is not installed, so no .deb was built")
        for name, work in Bundles(self.build, self.folder, call).cases():
            self.case(name, work)
        self.case("every flag in scripts/deploy exists", self.flags_exist)
        self.case("the systemd unit is valid", self.unit_is_sound)
        self.case("Dockerfile and Kubernetes objects match each other and the program", self.containers_are_sound)
        self.case("the batch script starts one peer per node", self.batch_script_starts_peers)
        if way := self.way_to_two_hosts():
            self.case("on two hosts with a key the batch script's peers train together", lambda: self.two_hosts_train(way))
        else:
            print("skipped: network namespaces are not available, so two hosts were not simulated")


if __name__ == "__main__":
    sys.exit(suite.main(Packages))
