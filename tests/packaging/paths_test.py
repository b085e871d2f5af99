#!/usr/bin/env python3
"""Tests that a checkout can be configured, built and installed in a folder of any name, or that CMake refuses the name in one
sentence. paths_test.py PROGRAM [--all], where PROGRAM is a built starling; without --all some names are tried. The builds
take seconds (checkouts.py). The last line is "N passed, N failed"."""

import os
import shutil
import string
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from checkouts import PLAIN, Workshop, errors  # noqa: E402
from suite import require  # noqa: E402

# The first has nothing of regular expressions, so the others are compared with it.
FEW = ["a$b", "c++", "R&D's (1)", "Gänse ☃ " + "long " * 37, "a[b", "a;b"]
MANY = [f"a{mark}b" for mark in string.punctuation.replace("/", "")]
MANY += ["g+1", "name (1)", "R&D", "John's", "(copy)", "a.b.c", "-B", "--", "~", "a  b", " begins", "ends ", "tab\tb", "new\nline", "[1]", "{a,b}",
         "$(pwd)", "${HOME}", "$ENV{HOME}", "$<CONFIG>", "@PROJECT_NAME@", "%20", "CMakeFiles", "build", "x" * 200, "日本語",
         "e\u0301", "\u202e", "CON", "a+b+c(d)*e"]
# Names that CMake has no way to write in its lists, expressions or the files of the build.
REFUSED = set('"#;<>[]|\n')
UNREADABLE = {"a\\b"}  # CMake takes it for a/b before it reads anything


class PathsTest(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.workshop = Workshop(program, folder)
        self.workshop.environment["REAL"] = "base/check.cc"  # its dependencies are read again
        self.sources = None  # the number of them

    def is_refused(self, name):
        return bool(REFUSED & set(name)) or "$(" in name or "{" in name and name.startswith("$")

    def refuses(self, output):
        found = errors(output)
        require(len(found) == 1, f"{len(found)} errors, the first: {found[:1] or output[-500:]}")
        require("because its path contains" in found[0] and "move the checkout" in found[0], found[0])

    def works(self, name):
        run = self.workshop.run
        checkout = self.workshop.copy(f"{self.folder}/{name}")
        done = run("cmake", "-S", checkout, "-B", f"{checkout}/out", *PLAIN, "-DSTARLING_UNITY=OFF", "-DSTARLING_PRECOMPILE=OFF")
        if self.is_refused(name):
            require(done.returncode != 0, "it is not refused")
            return self.refuses(done.stdout)
        require(done.returncode == 0, f"it is not configured: {errors(done.stdout) or done.stdout[-500:]}")
        # A build in which no dependency is found works, and compiles everything again.
        warned = "each build may compile everything again" in " ".join(done.stdout.split())
        require(warned == bool(set("&'*?^`\t") & set(name)), f"it {'warns' if warned else 'does not warn'}")
        with open(f"{checkout}/out/compile_commands.json", encoding="utf-8") as file:
            sources = file.read().count('"file":')
        self.sources = self.sources or sources
        require(sources == self.sources, f"it has {sources} sources, and {self.sources} elsewhere")
        build = ["cmake", "--build", f"{checkout}/out", "--target", "starling_base", "starling_onnx", "starling_protocol_header",
                 "generated/node/web_files.cc", "generated/lab/web_files.cc"]
        done = run(*build)
        require(done.returncode == 0, f"it is not built: {done.stdout[-500:]}")
        for made in ("wire/protocol_generated.h", "node/web_files.cc", "lab/web_files.cc", "onnx/onnx.pb.h"):
            require(os.path.getsize(f"{checkout}/out/generated/{made}") > 0, f"{made} is empty")
        again = run(*build).stdout
        require(warned or "no work to do" in again, f"the next build is not empty: {again[-500:]}")
        shutil.copy(f"{self.workshop.tools}/program", f"{checkout}/out/starling")
        done = run("cmake", "--install", f"{checkout}/out", "--prefix", f"{checkout}/prefix")
        require(done.returncode == 0, f"it is not installed: {done.stdout[-500:]}")
        for made in ("bin/starling", "share/man/man1/starling.1", "share/doc/starling/docs/INSTALL.md"):
            require(os.path.getsize(f"{checkout}/prefix/{made}") > 0, f"{made} is empty")
        unit = open(f"{checkout}/prefix/lib/systemd/system/starling@.service", encoding="utf-8").read()
        require(f"{checkout}/prefix/bin/starling peer" in unit, f"the unit does not start this program: {unit}")

    def run(self):
        for name in FEW + (MANY if "--all" in sys.argv else []):
            if name in UNREADABLE:
                continue
            self.case(f"a folder with the name {name!r:.80}", lambda name=name: self.works(name))
            shutil.rmtree(f"{self.folder}/{name}", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(suite.main(PathsTest))
