#!/usr/bin/env python3
"""What a build leaves for others: an installed tree, a .deb, and what starts peers on machines of other people.
packaging_test.py BUILD-FOLDER; the last line is "N passed, N failed"."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def call(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **more)
    require(done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def is_there(program):
    return shutil.which(program) is not None


class Suite:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.passed = self.failed = 0

    def case(self, name, work):
        try:
            work()
            self.passed += 1
        except Exception:  # whatever it is, the others are still worth a look
            self.failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)

    def files(self, root):
        return {os.path.relpath(path, root) for path in glob.glob(f"{root}/**", recursive=True) if os.path.isfile(path)}

    # Every file that an installation must have, under its prefix.
    def expected(self):
        names = {"bin/starling", "share/man/man1/starling.1", "share/bash-completion/completions/starling",
                 "share/fish/vendor_completions.d/starling.fish", "share/starling/starling.zsh",
                 "share/doc/starling/README.md"}
        names |= {"share/doc/starling/docs/" + name for name in os.listdir(f"{SOURCE}/docs")}
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
        require(re.fullmatch(r"starling \d+\.\d+\.\d+\n", call(program, "--version")), "it does not run")
        # The program finds its module there, or says that it was looked for there.
        places = call(program, "doctor")
        require(f"{prefix}/lib/starling/libstarling_cuda.so" in places or "lib/starling" in there, places)
        page = open(f"{prefix}/share/man/man1/starling.1").read()
        require(page == call(program, "man"), "the manual page is another program's")
        require("RPATH" not in call("readelf", "-d", program) and "RUNPATH" not in call("readelf", "-d", program),
                "the installed program looks for libraries in the build's folders")

    def makes_package(self):
        where = f"{self.folder}/deb"
        call("cpack", "-G", "DEB", "-B", where, cwd=self.build)
        version = call(f"{self.build}/starling", "--version").split()[1]
        [package] = glob.glob(f"{where}/starling_{version}_*.deb")
        fields = dict(re.findall(r"^ ?([A-Z][\w-]*): (.*)$", call("dpkg-deb", "--info", package), re.MULTILINE))
        require(fields["Package"] == "starling" and fields["Version"] == version, f"it is {fields}")
        require(fields["Architecture"] == call("dpkg", "--print-architecture").strip(), f"it is for {fields['Architecture']}")
        depends = fields["Depends"]
        # Every library of the distribution that the program is linked with has its package there.
        for library, name in (("libc.so", "libc6"), ("libstdc++", "libstdc++6"), ("libdnnl", "libdnnl"), ("libfmt", "libfmt"),
                              ("libspdlog", "libspdlog"), ("libz.so", "zlib1g"), ("libxxhash", "libxxhash0")):
            if library in call("readelf", "-d", f"{self.build}/starling"):
                require(re.search(rf"\b{re.escape(name)}", depends), f"{name} is not in Depends: {depends}")
        require("cudnn" not in depends and "cublas" not in depends, "the program itself needs no CUDA")
        root = f"{self.folder}/unpacked"
        call("dpkg-deb", "--extract", package, root)
        there = {name[len("usr/"):] for name in self.files(root) if name.startswith("usr/")}
        require(self.expected() <= there, f"not packed: {self.expected() - there}")
        require(call(f"{root}/usr/bin/starling", "--version").startswith("starling "), "it does not run")

    def run(self):
        self.case("an installation has every file in its place, and runs from there", self.installs)
        if is_there("dpkg-deb") and is_there("dpkg-shlibdeps"):
            self.case("the .deb depends on the packages of its libraries and unpacks to a program", self.makes_package)
        else:
            print("there is no dpkg-dev here, so no .deb is made")


def main():
    with tempfile.TemporaryDirectory(prefix="starling-packaging-", ignore_cleanup_errors=True) as folder:
        suite = Suite(os.path.abspath(sys.argv[1]), folder)
        suite.run()
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 0 if suite.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
