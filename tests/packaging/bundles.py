"""The cases of the packages that contain their libraries, as scripts/package makes them: tarballs and the wheel."""
import base64
import csv
import glob
import hashlib
import io
import os
import re
import socket
import subprocess
import tarfile
import zipfile

import elf
from suite import SOURCE, require

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # the distribution's, as scripts/package uses it


def check_trained(text):
    """Checks what a trainer (trainer.py) printed; returns the instant of its first step."""
    match = re.search(r"^first step ([\d.]+), exchanges (\d+), line ([-\d.]+) ([-\d.]+)$", text, re.MULTILINE)
    require(match, text)
    instant, exchanges, slope, offset = map(float, match.groups())
    require(exchanges > 0 and abs(slope - 3) < 0.2 and abs(offset + 1) < 0.2, text)
    return instant


class Bundles:
    """The packages of a build, made in a folder."""

    def __init__(self, build, folder, call):
        self.build, self.folder, self.call = build, folder, call
        self.made = f"{folder}/packages"
        self.version = call(f"{build}/starling", "--version").split()[1]
        self.python_version = self.version.replace("-dev", ".dev0")
        self.name = f"starling-{self.version}-linux-{os.uname().machine}"
        self.tree = f"{folder}/some where/{self.name}"

    def cases(self):
        return [("scripts/package makes tarballs and a wheel, whose names say what they need", self.makes_packages),
                ("the tarball has every file, and the license of every library", self.is_complete),
                ("every library is in the tarball, or of glibc or GCC", self.libraries_are_there),
                ("the releases since this one have every symbol that the tarball needs", self.symbols_exist),
                ("the tarball's program runs in any folder with an empty environment", self.runs_anywhere),
                ("the CUDA module is only in the tarball for CUDA, where the program finds it", self.has_cuda_module),
                ("the wheel's metadata describe its files", self.wheel_is_sound),
                ("an installed wheel starts the program and peers of trainers without PATH", self.wheel_trains)]

    def makes_packages(self):
        self.call(f"{SOURCE}/scripts/package", "--build", self.build, "--out", self.made, "tarball", "wheel")
        os.mkdir(f"{self.folder}/some where")
        with tarfile.open(f"{self.made}/{self.name}.tar.gz") as archive:
            require(all(member.name.split("/")[0] == self.name for member in archive.getmembers()), "it has another folder")
            archive.extractall(f"{self.folder}/some where")
        glibc = elf.newest(self.elf_files())["GLIBC"]
        wheel = f"starling-{self.python_version}-py3-none-manylinux_{glibc[0]}_{glibc[1]}_{os.uname().machine}.whl"
        require(wheel in os.listdir(self.made), f"there is no {wheel}, but {os.listdir(self.made)}")
        self.wheel = f"{self.made}/{wheel}"

    def libraries(self):
        return sorted(glob.glob(f"{self.tree}/lib/starling/*"))

    def elf_files(self):
        return [f"{self.tree}/bin/starling", *self.libraries()]

    def is_complete(self):
        for name in ("share/man/man1/starling.1", "share/doc/starling/README.md", "share/doc/starling/LICENSE",
                     "share/doc/starling/docs/INSTALL.md", "share/starling/experiments/one-straggler.toml",
                     "share/starling/fonts/DejaVuSans.ttf", "share/starling/fonts/fonts.conf"):
            require(os.path.isfile(f"{self.tree}/{name}"), f"{name} is missing")
        licenses = f"{self.tree}/share/doc/starling/licenses"
        table = dict(re.findall(r"^(\S+): (\S+), built from \S+ \S+$", open(f"{licenses}/README").read(), re.MULTILINE))
        libraries = {os.path.basename(path) for path in self.libraries()}
        require(table.keys() == libraries | {"DejaVuSans.ttf"}, f"the table has {table.keys() ^ libraries}")
        for package in table.values():
            text = open(f"{licenses}/{package}", encoding="utf-8").read()
            for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9]+(?:-[0-9.]*[0-9])?)", text):
                require(os.path.isfile(f"{licenses}/common/{name}"), f"{package} refers to {name}")

    def libraries_are_there(self):
        require(elf.dynamic(f"{self.tree}/bin/starling", "RPATH") == ["$ORIGIN/../lib/starling"], "another RPATH")
        names = {os.path.basename(path) for path in self.libraries()}
        require(not names & elf.OF_THE_SYSTEM, f"bundled: {names & elf.OF_THE_SYSTEM}")
        for path in self.elf_files():
            missing = set(elf.dynamic(path, "NEEDED")) - names - elf.OF_THE_SYSTEM
            require(not missing, f"{path} needs {missing}")
            # With a RUNPATH of its own, a library would not be searched for where the program's RPATH says.
            require(not elf.dynamic(path, "RUNPATH"), f"{path} has a RUNPATH")
        for line in self.alone(LD_TRACE_LOADED_OBJECTS="1").split("\n"):
            path = line.partition("=>")[2].split(" (")[0].strip()
            require(not path or path.startswith(self.tree) or os.path.basename(path) in elf.OF_THE_SYSTEM, line)

    def symbols_exist(self):
        needed = elf.newest(self.elf_files())
        require(needed.keys() == {"GLIBC", "GLIBCXX", "CXXABI", "GCC"}, f"{needed}")
        for release, has in elf.RELEASES.items():
            if has["GLIBC"] >= elf.own_glibc():
                lacking = {name: version for name, version in needed.items() if version > has[name]}
                require(not lacking, f"{release} lacks {lacking}")

    # What the program of the tarball prints, run in its folder with only these variables.
    def alone(self, *words, **variables):
        return self.call(f"{self.tree}/bin/starling", *words, cwd=self.tree, env=variables)

    def runs_anywhere(self):
        require(self.alone("--version", PATH="", LD_LIBRARY_PATH="") == f"starling {self.version}\n", "another version")
        os.symlink(f"{self.tree}/bin/starling", f"{self.folder}/link")
        require(self.call(f"{self.folder}/link", "--version", env={}) == f"starling {self.version}\n", "not by a link")
        run = f"{self.folder}/run"
        self.alone("swarm", "--peers", "2", "--model", "softmax", "--data", "glyphs",
                   "--epochs", "0.2", "--looks", "40", "--out", run)
        self.alone("report", run, "--out", f"{self.folder}/report.html")
        self.alone("plot", run, "--out", f"{self.folder}/figure.pdf")
        figure = open(f"{self.folder}/figure.pdf", "rb").read()
        require(re.search(rb"/FontName /\w+\+DejaVuSans\b", figure), "the figure has no text in the bundled font")

    def has_cuda_module(self):
        module = "lib/starling/libstarling_cuda.so"
        said = self.alone("doctor")
        require(f"{self.tree}/{module}" in said, said)
        if not os.path.exists(f"{self.build}/libstarling_cuda.so"):
            require(not os.path.exists(f"{self.made}/{self.name}-cuda.tar.gz"), "a tarball for CUDA without the module")
            return
        names = []
        for path in f"{self.made}/{self.name}-cuda.tar.gz", f"{self.made}/{self.name}.tar.gz":
            with tarfile.open(path) as archive:
                names.append(set(archive.getnames()))
        more = names[0] - names[1]
        require(more == {f"{self.name}/{module}"}, f"the tarball for CUDA also has {more}")

    def wheel_is_sound(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
            info = f"starling-{self.python_version}.dist-info"
            read = lambda name: archive.read(name).decode()  # noqa: E731
            for line in f"Version: {self.python_version}", "Name: starling", "Requires-Python: >=3.9":
                require(line in read(f"{info}/METADATA").split("\n"), f"{line} is not in METADATA")
            tag = os.path.basename(self.wheel)[:-len(".whl")].split("-", 2)[2]
            require(f"Tag: {tag}\n" in read(f"{info}/WHEEL") and "Root-Is-Purelib: false\n" in read(f"{info}/WHEEL"), tag)
            require("starling = starling.__main__:main" in read(f"{info}/entry_points.txt"), "no command")
            record = {name: digest for name, digest, _ in csv.reader(io.StringIO(read(f"{info}/RECORD")))}
            require(record.keys() == names, f"RECORD differs by {record.keys() ^ names}")
            for name in names - {f"{info}/RECORD"}:
                digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                require(record[name] == f"sha256={digest}", f"{name} has another hash")
            program = "starling/program/bin/starling"
            require(archive.getinfo(program).external_attr >> 16 & 0o111 == 0o111, "the program is not executable")
            require(archive.read(program) == open(f"{self.tree}/bin/starling", "rb").read(), "another program")
        bundled = {name.rpartition("/")[2] for name in names if name.startswith("starling/program/lib/starling/")}
        require(bundled == {os.path.basename(path) for path in self.libraries()}, "other libraries than the tarball")

    def wheel_trains(self):
        where = f"{self.folder}/site"
        self.call(PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", where, self.wheel)
        variables = {"PYTHONPATH": where, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
        for words in [f"{where}/bin/starling"], [PYTHON, "-m", "starling"]:
            require(self.call(*words, "--version", env=variables) == f"starling {self.version}\n", f"{words}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        peers = [subprocess.Popen([PYTHON, f"{HERE}/trainer.py", role, address], env=variables, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for role in ("listen", "join")]
        for peer in peers:
            check_trained(peer.communicate(timeout=120)[0])
