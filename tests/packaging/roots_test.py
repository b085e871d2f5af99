#!/usr/bin/env python3
"""Installs packages as a user would in a fresh root of each release, and uses them there: roots_test.py BUILD-FOLDER

BUILD-FOLDER is build/release. Needs root, mmdebstrap and the releases' archives; a root that cannot be made is skipped with a
line. Programs run in a network namespace with only the loopback interface. The last line is "N passed, N failed"."""
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import elf  # noqa: E402
import suite  # noqa: E402
from bundles import check_trained  # noqa: E402
from suite import SOURCE, require  # noqa: E402

# Name, suite, the archive, and the keyring that verifies it.
RELEASES = [("Debian 12", "bookworm", "http://deb.debian.org/debian", "debian-archive-keyring.gpg"),
            ("Debian 13", "trixie", "http://deb.debian.org/debian", "debian-archive-keyring.gpg"),
            ("Ubuntu 24.04", "noble", "http://archive.ubuntu.com/ubuntu", "ubuntu-archive-keyring.gpg")]
KEYRINGS = "/usr/share/keyrings"


class Skipped(Exception):
    """Its text is the reason."""


def call(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, **more)
    require(done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Root:
    """A minimal system in a folder, with the user `user`."""

    def __init__(self, folder, suite_name, archive, keyring):
        self.folder = folder
        if os.geteuid() != 0:
            raise Skipped("only root can make one")
        if not shutil.which("mmdebstrap"):
            raise Skipped("mmdebstrap is not installed")
        if not os.path.exists(f"{KEYRINGS}/{keyring}"):
            raise Skipped(f"{keyring} is not installed")
        made = subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--keyring={KEYRINGS}/{keyring}",
                               suite_name, folder, archive], capture_output=True, text=True, timeout=900)
        if made.returncode != 0:
            raise Skipped(f"mmdebstrap failed: {(made.stderr.strip() or 'no reason').splitlines()[-1]}")
        self.run("useradd --create-home user")

    def run(self, script, user="root", network=True):
        """Runs a shell script, in the user's home. Without network there is only the loopback interface."""
        inside = f"mount -t proc proc {self.folder}/proc && mount --rbind /dev {self.folder}/dev"
        if not network:
            inside += " && ip link set lo up"
        home = "/root" if user == "root" else f"/home/{user}"
        inside += (f" && exec chroot --userspec={user} {self.folder} /usr/bin/env -i HOME={home} "
                   'PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 sh -euc "cd; $0"')
        spaces = ["--mount", "--pid", "--fork", "--kill-child"] + ([] if network else ["--net"])
        return call("unshare", *spaces, "sh", "-c", inside, script)

    def put(self, *files):
        """Copies files into the user's home."""
        for file in files:
            shutil.copy(file, f"{self.folder}/home/user")


class Roots(suite.Suite):
    def __init__(self, build, folder):
        super().__init__(folder)
        self.build = build

    def run(self):
        self.case("the same build gives the same packages", self.are_reproducible)
        for name, suite_name, archive, keyring in RELEASES:
            if elf.RELEASES[name]["GLIBC"] < elf.own_glibc():
                print(f"skipped: {name}: it is older than this release, so packages of this build do not run there")
                continue
            try:
                root = Root(f"{self.folder}/{suite_name}", suite_name, archive, keyring)
            except Skipped as reason:
                print(f"skipped: {name}: {reason}")
                continue
            self.case(f"{name}: the tarball runs on a bare system", lambda: self.tarball_runs(root))
            self.case(f"{name}: pip installs the wheel, and trainers train", lambda: self.wheel_trains(root))
            if elf.RELEASES[name]["GLIBC"] == elf.own_glibc():
                self.case(f"{name}: apt installs the .deb", lambda: self.deb_runs(root))
            else:
                print(f"skipped: {name}: a .deb is only for the release that it was made on")
            shutil.rmtree(root.folder)

    def are_reproducible(self):
        self.made = f"{self.folder}/packages"
        again = f"{self.folder}/again"
        for out in self.made, again:
            call(f"{SOURCE}/scripts/package", "--build", self.build, "--out", out)
        names = sorted(os.listdir(self.made))
        require(names == sorted(os.listdir(again)), "other names")
        _, differ, errors = filecmp.cmpfiles(self.made, again, names, shallow=False)
        require(not differ and not errors, f"these differ: {differ + errors}")

    def made_one(self, pattern):
        [path] = [path for path in glob.glob(f"{self.made}/{pattern}") if "cuda" not in path]
        return path

    # A first session: a check of the machine, a swarm, its report, and a figure with text.
    def use(self, root, program):
        said = root.run(f"""
            {program} --version
            {program} doctor
            {program} swarm --peers 2 --model lenet --data glyphs --epochs 0.5 --looks 10 --out run
            {program} report run --out report.html
            {program} plot run --out figure.pdf""", "user", network=False)
        accuracy = float(re.search(r"accuracy +([\d.]+) %", said).group(1))
        require(accuracy > 90, said)
        home = f"{root.folder}/home/user"
        require("<svg" in open(f"{home}/report.html").read(), "the report has no plots")
        require(b"+DejaVuSans" in open(f"{home}/figure.pdf", "rb").read(), "the figure has no text")
        root.run("rm -r run report.html figure.pdf", "user")

    def tarball_runs(self, root):
        path = self.made_one("*.tar.gz")
        root.put(path)
        root.run(f"tar -xf {os.path.basename(path)}", "user")
        self.use(root, "./" + os.path.basename(path)[:-len(".tar.gz")] + "/bin/starling")

    def wheel_trains(self, root):
        root.run("apt-get update --quiet=2; apt-get install --yes --quiet=2 --no-install-recommends python3-venv")
        path = self.made_one("*.whl")
        root.put(path, f"{SOURCE}/tests/packaging/trainer.py")
        root.run("python3 -m venv env", "user")
        begun = time.time()
        said = root.run(f"""
            env/bin/pip install --quiet ./{os.path.basename(path)}
            env/bin/python trainer.py listen 127.0.0.1:7100 & listens=$!
            env/bin/python trainer.py join 127.0.0.1:7100
            wait $listens""", "user", network=False)
        steps = [check_trained(line) for line in said.splitlines() if line.startswith("first step")]
        require(len(steps) == 2, said)
        print(f"   {min(steps) - begun:.1f} s from the start of `pip install` to the first step of a peer")
        self.use(root, "env/bin/starling")

    def deb_runs(self, root):
        path = self.made_one("*.deb")
        root.put(path)
        root.run(f"apt-get install --yes --quiet=2 --no-install-recommends /home/user/{os.path.basename(path)}")
        self.use(root, "starling")


if __name__ == "__main__":
    sys.exit(suite.main(Roots))
