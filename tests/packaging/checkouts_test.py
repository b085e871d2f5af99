#!/usr/bin/env python3
"""Tests what people do with a checkout before and after its build, on copies whose builds take seconds (checkouts.py).
checkouts_test.py PROGRAM, a built starling; the last line is "N passed, N failed"."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from checkouts import PLAIN, Workshop, errors, write  # noqa: E402
from suite import SOURCE, require  # noqa: E402

PYTHON = "/usr/bin/python3"  # the distribution's, which has setuptools
# What only the built program knows, relative to the prefix.
WRITTEN = ("share/man/man1/starling.1", "share/bash-completion/completions/starling",
           "share/fish/vendor_completions.d/starling.fish", "share/zsh/site-functions/_starling",
           "share/zsh/vendor-completions/_starling", "lib/systemd/system/starling@.service")


class CheckoutsTest(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.workshop = Workshop(program, folder)

    def succeed(self, *words, **more):
        done = self.workshop.run(*words, **more)
        require(done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-2000:]}")
        return done.stdout

    def demo_can_be_installed(self):
        checkout = self.workshop.copy(f"{self.folder}/installed")
        self.succeed("scripts/demo", cwd=checkout)
        prefix = f"{self.folder}/pre fix"
        for more, place in (({}, prefix), ({"DESTDIR": f"{self.folder}/stage"}, f"{self.folder}/stage{prefix}")):
            self.succeed("cmake", "--install", f"{checkout}/build/release", "--prefix", prefix, env=more)
            for name in ("bin/starling", "share/doc/starling/README.md", *WRITTEN):
                require(os.path.getsize(f"{place}/{name}") > 0, f"{name} is empty")
                require(os.stat(f"{place}/{name}").st_mode & 0o444 == 0o444, f"{name} cannot be read by everyone")
            unit = open(f"{place}/lib/systemd/system/starling@.service").read()
            require(f"{prefix}/bin/starling peer" in unit and "DESTDIR" not in unit, unit)
        manifest = open(f"{checkout}/build/release/install_manifest.txt").read().split("\n")
        require({f"{prefix}/{name}" for name in WRITTEN} <= set(manifest), f"the manifest lacks some: {manifest}")

    def builds_its_own_sources(self):
        first, second, third = (f"{self.folder}/{name}" for name in ("first", "second", "third"))
        self.workshop.copy(first)
        self.succeed("scripts/demo", cwd=first)
        said = self.succeed("scripts/demo", cwd=first)
        require("was configured for" not in said, said)
        subprocess.run(["cp", "-a", first, second], check=True)
        with open(f"{second}/base/hash.cc", "a", encoding="utf-8") as file:
            file.write("// changed\n")
        self.workshop.commands()
        said = self.succeed("scripts/demo", cwd=second)
        require(f"build/release was configured for {first}; it is configured again for {second}" in said, said)
        commands = self.workshop.commands()
        require(commands and not any(f"{first}/" in line for line in commands), f"the copy compiles {commands[:1]}")
        os.rename(first, third)
        said = self.succeed("scripts/demo", cwd=third)
        require(f"configured again for {third}" in said, said)
        require(not os.path.exists(first), "the renamed checkout is built in its old place")
        # A path to the same place is no other place.
        os.symlink(third, f"{self.folder}/link")
        said = self.succeed("scripts/demo", cwd=f"{self.folder}/link")
        require("was configured for" not in said, said)

    # Each script that builds, with a CMake that does nothing.
    def scripts_notice_moves(self):
        checkout = self.workshop.copy(f"{self.folder}/scripts")
        os.mkdir(f"{self.folder}/nothing")
        write(f"{self.folder}/nothing/cmake", "#!/bin/sh\nexit 1\n", executable=True)
        for name in ("python/axe_playwright_python/axe.min.js", "onnx/onnxruntime/__init__.py", "tokenizers/tiktoken/__init__.py"):
            os.makedirs(os.path.dirname(f"{checkout}/build/{name}"))
            write(f"{checkout}/build/{name}", "")
        path = f"{self.folder}/nothing:{os.environ['PATH']}"
        for script, folders in (("test", ("release", "asan", "tsan")), ("package tarball", ("release",)),
                                ("gpu-check", ("release",)), ("fuzz", ("fuzz",))):
            if script == "fuzz" and not shutil.which("clang++-16"):
                continue
            for folder in folders:
                os.makedirs(f"{checkout}/build/{folder}", exist_ok=True)
                write(f"{checkout}/build/{folder}/CMakeCache.txt",
                      f"CMAKE_HOME_DIRECTORY:INTERNAL=/else where\nCMAKE_CACHEFILE_DIR:INTERNAL=/else where/build/{folder}\n")
            done = self.workshop.run(*f"{checkout}/scripts/{script}".split(), env={"PATH": path})
            require(done.returncode != 0, f"scripts/{script} succeeded without CMake")
            for folder in folders:
                require(not os.path.exists(f"{checkout}/build/{folder}/CMakeCache.txt"),
                        f"scripts/{script} uses a build folder of another checkout: {done.stdout[-1000:]}")
                require("was configured for /else where; it is configured again" in done.stdout, done.stdout[-1000:])

    # The version of what is built in a checkout, and the sources that this build compiles.
    def named(self, checkout):
        self.workshop.commands()
        self.succeed("cmake", "--build", f"{checkout}/build", "--target", "starling_base")
        with open(f"{checkout}/build/generated/base/version.cc", encoding="utf-8") as file:
            version = re.search(r'version_text\[\] = "(.*)"', file.read())[1]
        client = self.made_by_client("build_wheel", f"{checkout}/clients/python", f"{self.folder}/of {os.path.basename(checkout)}")
        require(f"/starling-{version.replace('-dev', '.dev0')}-py3" in client, f"{version}, and the client's is {client}")
        return version, sorted(os.path.basename(line.split()[-1]) for line in self.workshop.commands())

    def names_its_commit(self):
        checkout = self.workshop.copy(f"{self.folder}/named")
        plain = {"GIT_CONFIG_GLOBAL": "/dev/null", **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
        git = lambda *words: self.succeed("git", *words, cwd=checkout, env=plain).strip()  # noqa: E731
        self.succeed("cmake", "-S", checkout, "-B", f"{checkout}/build", *PLAIN)
        [release] = re.findall(r"^project\(starling VERSION (\S+)", open(f"{checkout}/CMakeLists.txt").read(), re.MULTILINE)
        require(self.named(checkout)[0] == f"{release}-dev", "sources without a commit name one")
        git("init", "--quiet")
        git("add", "--all", ".")
        git("commit", "--quiet", "--message", "one")
        # CMake finds out that there is a repository.
        os.remove(f"{checkout}/build/generated/base/version.cc")
        commit = git("rev-parse", "HEAD")[:12]
        require(self.named(checkout) == (f"{release}-dev+{commit}", ["version.cc"]), f"{self.named(checkout)}, not {commit}")
        said = self.succeed("cmake", "--build", f"{checkout}/build", "--target", "starling_base")
        require("no work to do" in said, f"the next build is not empty: {said}")
        with open(f"{checkout}/README.md", "a", encoding="utf-8") as file:
            file.write("changed\n")
        require(self.named(checkout) == (f"{release}-dev+{commit}.dirty", ["version.cc"]), "a changed file is not named")
        git("commit", "--quiet", "--all", "--message", "two")
        second = git("rev-parse", "HEAD")[:12]
        require(second != commit and self.named(checkout) == (f"{release}-dev+{second}", ["version.cc"]), "not the new commit")
        # An archive of it, in a repository of somebody else.
        git("archive", "--prefix", "archived/", "--output", f"{self.folder}/archived.tar", "HEAD")
        git("init", "--quiet", f"{self.folder}/archived")
        with tarfile.open(f"{self.folder}/archived.tar") as archive:
            archive.extractall(self.folder)
        archived = f"{self.folder}/archived"
        self.succeed("cmake", "-S", archived, "-B", f"{archived}/build", *PLAIN)
        require(self.named(archived)[0] == f"{release}-dev+{second}", f"an archive names {self.named(archived)}")

    def is_no_release_with_later_changes(self):
        text = open(f"{SOURCE}/CHANGELOG.md", encoding="utf-8").read()
        titles = re.findall(r"^## ([\w.]+)", text, re.MULTILINE)
        unreleased = titles[0] == "Unreleased"
        released = titles[unreleased]
        build = open(f"{SOURCE}/CMakeLists.txt", encoding="utf-8").read()
        version, stage = re.search(r"VERSION (\S+) LANGUAGES", build)[1], re.search(r"set\(STARLING_STAGE ?(\w*)\)", build)[1]
        client = re.search(r'^version = "(\S+)"', open(f"{SOURCE}/clients/python/pyproject.toml").read(), re.MULTILINE)[1]
        cited = re.search(r"^version: (\S+)", open(f"{SOURCE}/CITATION.cff").read(), re.MULTILINE)[1]
        require(cited == released, f"CITATION.cff has {cited}, and the last release is {released}")
        require((version != released and stage == "dev") if unreleased else (version == released and not stage),
                f"CMakeLists.txt has {version} {stage}, and the last release is {released}")
        require(client == version + (".dev0" if stage else ""), f"pyproject.toml has {client}")

    # In one folder with ccache, if it is installed, which gives the compiler relative paths.
    def objects_are_equal(self):
        made = []
        for name, variables in (("equal", {}), ("equal elsewhere", {"CMAKE_CXX_COMPILER_LAUNCHER": "", "CCACHE_DIR": f"{self.folder}/cc"})):
            checkout = self.workshop.copy(f"{self.folder}/{name}")
            build = f"{checkout}/build/here"
            self.succeed("cmake", "-S", checkout, "-B", build, *PLAIN, "-DCMAKE_BUILD_TYPE=Release", "-DSTARLING_UNITY=OFF",
                         "-DSTARLING_PRECOMPILE=OFF", env=variables)
            for source in ("base/random.cc", "wire/frame.cc"):
                target = f"CMakeFiles/starling_{source.split('/')[0]}.dir/{source}.o"
                self.succeed("cmake", "--build", build, "--target", target, env={**variables, "REAL": source})
                made.append(open(f"{build}/{target}", "rb").read())
                require(f"./{source}".encode() in made[-1], f"{source} does not name itself, so this test proves nothing")
                require(self.folder.encode() not in made[-1], f"the object of {source} has the path of the builder")
        require(made[:2] == made[2:], "the objects of equal sources in two folders differ")

    # The .deb of an empty build, whose program is a script.
    def package_follows_policy(self):
        if not shutil.which("dpkg-deb") or not shutil.which("dpkg-shlibdeps"):
            raise suite.Skipped("dpkg-dev is not installed")
        build, made = f"{self.folder}/build-deb", f"{self.folder}/deb"
        self.succeed("cmake", "-S", SOURCE, "-B", build, *PLAIN)
        self.succeed("cmake", "--build", build, "--target", "starling")
        self.succeed("cpack", "-G", "DEB", "-B", made, cwd=build, env={"SOURCE_DATE_EPOCH": "1764460800"})
        [package] = glob.glob(f"{made}/starling_*.deb")
        self.succeed("dpkg-deb", "--extract", package, f"{self.folder}/of deb")
        usr = f"{self.folder}/of deb/usr"
        for name in ("bin/starling", *WRITTEN[1:], "share/doc/starling/README.md", "share/starling/experiments/one-straggler.toml"):
            require(os.path.getsize(f"{usr}/{name}") > 0, f"{name} is empty")
        require(os.listdir(f"{usr}/share/man/man1") == ["starling.1.gz"], "the manual page is not compressed")
        page = self.succeed("gzip", "--decompress", "--stdout", f"{usr}/share/man/man1/starling.1.gz")
        require(page == self.succeed(f"{build}/starling", "man"), "it is another manual page")
        changes = self.succeed("gzip", "--decompress", "--stdout", f"{usr}/share/doc/starling/changelog.gz")
        require(re.fullmatch(r"starling \(\d+\.\d+\.\d+(~dev(\+[0-9a-f]{12}(\.dirty)?)?)?\) unstable; urgency=medium\n\n  \* .+\n\n -- .+ <.+>  "
                             r"Sun, 30 Nov 2025 00:00:00 \+0000\n", changes), f"the changelog is {changes!r}")
        notice = open(f"{usr}/share/doc/starling/copyright").read()
        require(re.search(r"^Copyright \d{4} The Starling authors$", notice, re.MULTILINE), notice)
        require("/usr/share/common-licenses/Apache-2.0" in notice and "END OF TERMS" not in notice, notice)
        if shutil.which("lintian"):
            done = self.workshop.run("lintian", "--fail-on", "error", package)
            require(done.returncode == 0, done.stdout)

    # Configures, which must fail with this one error and with nothing else.
    def refuse(self, expected, *words, **more):
        done = self.workshop.run("cmake", *words, **more)
        found = errors(done.stdout)
        require(done.returncode != 0 and len(found) == 1, f"{len(found)} errors: {found or done.stdout[-1000:]}")
        require(expected in found[0], found[0])
        return found[0]

    def is_no_part_of_another_project(self):
        host = f"{self.folder}/host"
        os.mkdir(host)
        write(f"{host}/CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(host LANGUAGES CXX)\n"
              f"add_subdirectory({SOURCE} starling)\n")
        said = self.refuse("cannot be part of another CMake project", "-S", host, "-B", f"{host}/out", *PLAIN)
        require(f"cmake -S {SOURCE} -B" in said, said)

    def is_not_built_among_its_sources(self):
        checkout = self.workshop.copy(f"{self.folder}/in source")
        said = self.refuse("not built among its sources", "-S", checkout, "-B", checkout, *PLAIN)
        left = sorted(set(os.listdir(checkout)) - set(os.listdir(SOURCE)))
        require(left and all(name in said for name in left), f"CMake left {left}, and the error is: {said}")

    # Configures this checkout with a compiler that is a script: `call` are the words that start the real one.
    def with_compiler(self, call, name):
        write(f"{self.folder}/{name}", f'#!/usr/bin/env bash\n{call} "$@"\n', executable=True)
        return ["-S", SOURCE, "-B", f"{self.folder}/build-{name}", f"-DCMAKE_CXX_COMPILER={self.folder}/{name}", *PLAIN]

    def refuses_old_compilers(self):
        said = self.refuse("needs GCC 12 or newer, or Clang 16 or newer",
                           *self.with_compiler("exec g++ -U__GNUC__ -D__GNUC__=11", "old-g++"))
        require(f"{self.folder}/old-g++ is GNU 11." in said, said)
        if shutil.which("clang++-16"):
            said = self.refuse("needs GCC 12 or newer, or Clang 16 or newer",
                               *self.with_compiler("exec clang++-16 -U__clang_major__ -D__clang_major__=15", "old-clang++"))
            require(f"{self.folder}/old-clang++ is Clang 15." in said, said)

    def names_package_of_openmp(self):
        without = "for word; do case $word in -fopenmp*) exit 1 ;; esac; done; exec"
        said = self.refuse("The OpenMP of", *self.with_compiler(f"{without} g++", "closed-g++"))
        require("install libgomp1 and g++" in said, said)
        if shutil.which("clang++-16"):
            said = self.refuse("The OpenMP of", *self.with_compiler(f"{without} clang++-16", "closed-clang++"))
            require("install libomp-16-dev" in said, said)

    # With every warning an error; OpenMP is GCC's, because Clang's is another package.
    def clang_compiles(self):
        if not shutil.which("clang++-16"):
            raise suite.Skipped("there is no clang++-16")
        openmp = subprocess.run(["g++", "-print-file-name=libgomp.so"], capture_output=True, text=True, check=True).stdout.strip()
        build = f"{self.folder}/build-clang"
        self.succeed("cmake", "-S", SOURCE, "-B", build, "-DCMAKE_CXX_COMPILER=clang++-16", *PLAIN, "-DSTARLING_UNITY=OFF",
                     "-DSTARLING_PRECOMPILE=OFF", "-DOpenMP_CXX_FLAGS=-fopenmp=libgomp", "-DOpenMP_CXX_LIB_NAMES=gomp",
                     f"-DOpenMP_gomp_LIBRARY={openmp}")
        sources = ["base/hash_avx512.cc", "kernels/cpu/vectors/vector_loops.cc", "transport/links/link.cc"]
        for source in sources:
            target = f"CMakeFiles/starling_{source.split('/')[0]}.dir/{source}.o"
            self.succeed("cmake", "--build", build, "--target", target, env={"REAL": source})
            require(os.path.getsize(f"{build}/{target}") > 0, f"{source} is not compiled")

    # What the client's build backend makes with the distribution's Python: `hook` is build_wheel or build_sdist.
    def made_by_client(self, hook, client, out):
        os.makedirs(out, exist_ok=True)
        said = self.succeed(PYTHON, "-B", "-c", f"import build_copy; print(build_copy.{hook}({out!r}))", cwd=client)
        return f"{out}/{said.strip().splitlines()[-1]}"

    def client_is_built_beside_its_sources(self):
        tree = f"{self.folder}/tree"
        client = f"{tree}/clients/python"
        shutil.copytree(f"{SOURCE}/clients/python", client, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        shutil.copy(f"{SOURCE}/LICENSE", tree)
        write(f"{client}/starling/removed_later.py", "")
        # What an earlier version left there.
        os.makedirs(f"{client}/build/lib/starling")
        write(f"{client}/build/lib/starling/old.py", "")
        files = lambda: sorted(os.path.join(at, name) for at, _, names in os.walk(tree) for name in names)  # noqa: E731
        before, names = files(), lambda wheel: set(zipfile.ZipFile(wheel).namelist())
        first = names(self.made_by_client("build_wheel", client, f"{self.folder}/one"))
        source = self.made_by_client("build_sdist", client, f"{self.folder}/one")
        require(files() == before, f"the build left {set(files()) - set(before)}")
        require("starling/removed_later.py" in first and "starling/old.py" not in first, f"the wheel has {first}")
        os.remove(f"{client}/starling/removed_later.py")
        wheel = self.made_by_client("build_wheel", client, f"{self.folder}/two")
        sources = {f"starling/{name}" for name in os.listdir(f"{SOURCE}/clients/python/starling") if name != "__pycache__"}
        got = {name for name in names(wheel) if not name.split("/")[0].endswith(".dist-info")}
        require(got == sources and "starling/py.typed" in got, f"the wheel differs by {got ^ sources}")
        with tarfile.open(source) as archive:
            archive.extractall(f"{self.folder}/unpacked")
        again = self.made_by_client("build_wheel", source.replace("/one/", "/unpacked/")[:-len(".tar.gz")], f"{self.folder}/three")
        require(names(again) == first, f"the wheel of the source distribution differs by {names(again) ^ first}")
        with zipfile.ZipFile(again) as archive:
            [info] = {name.split("/")[0] for name in first if ".dist-info/" in name}
            metadata = archive.read(f"{info}/METADATA").decode()
            license_file = [name for name in first if name.startswith(f"{info}/") and name.endswith("LICENSE")]
            require(license_file and archive.read(license_file[0]) == open(f"{SOURCE}/LICENSE", "rb").read(), "no license")
        for line in ("License: Apache-2.0|License-Expression: Apache-2.0", "Description-Content-Type: text/markdown",
                     "# Starling's client for Python"):
            require(set(line.split("|")) & set(metadata.split("\n")), f"METADATA has no {line}: {metadata}")

    # As user 65534 from folders in which only root may write.
    def client_installs_from_read_only_sources(self):
        if os.getuid() != 0:
            raise suite.Skipped("only root can try it as another user")
        os.chmod(self.folder, 0o755)
        client = f"{self.folder}/read-only/python"
        shutil.copytree(f"{SOURCE}/clients/python", client, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        subprocess.run(["chmod", "--recursive", "a+rX,a-w", f"{self.folder}/read-only"], check=True)
        target = f"{self.folder}/target"
        os.mkdir(target)
        os.chown(target, 65534, 65534)
        self.succeed(PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir",
                     "--target", target, client, env={"HOME": target, "TMPDIR": "/tmp"}, cwd="/", user=65534, group=65534,
                     extra_groups=[])
        require(os.path.exists(f"{target}/starling/peer.py"), "the client is not installed")

    def run(self):
        self.case("what scripts/demo has built can be installed", self.demo_can_be_installed)
        self.case("a copied or renamed checkout builds its own sources with scripts/demo", self.builds_its_own_sources)
        self.case("every script that builds configures a copied or renamed build folder again", self.scripts_notice_moves)
        self.case("add_subdirectory is refused in one sentence", self.is_no_part_of_another_project)
        self.case("a build among the sources is refused in one sentence", self.is_not_built_among_its_sources)
        self.case("a build of unreleased sources names its commit, and a new commit compiles one source", self.names_its_commit)
        self.case("equal sources give equal objects in every folder, without its path", self.objects_are_equal)
        self.case("sources with unreleased changes are of another version than the last release",
                  self.is_no_release_with_later_changes)
        self.case("compilers that are too old are refused in one sentence", self.refuses_old_compilers)
        self.case("without OpenMP the configuration names its package", self.names_package_of_openmp)
        self.case("Clang compiles what needs options of its own", self.clang_compiles)
        self.case("the .deb follows Debian's policy", self.package_follows_policy)
        self.case("the client's wheel and source distribution have its sources of now and leave nothing beside them",
                  self.client_is_built_beside_its_sources)
        self.case("pip installs the client from sources that are read-only", self.client_installs_from_read_only_sources)


if __name__ == "__main__":
    sys.exit(suite.main(CheckoutsTest))
