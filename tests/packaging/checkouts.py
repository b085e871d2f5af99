"""Copies of this checkout whose builds take seconds: a launcher of the compiler writes empty objects instead, and a stand-in
for the program, which calls a real one."""
import os
import shutil
import subprocess

import suite
from suite import SOURCE

# The compiler's tests during the configuration are real, and so are the sources in $REAL, separated by blanks. Each command
# is a line of the file `commands`.
LAUNCHER = """#!/usr/bin/env bash
case $PWD in */CMakeFiles/CMakeScratch/* | */CMakeFiles/CMakeTmp) exec "$@" ;; esac
here=${0%/*} out='' dep='' before=''
printf '%s\\n' "$*" >>"$here/commands"
for word in "$@"; do
  for source in $REAL; do
    [[ $word != */$source ]] || exec "$@"
  done
  case $before in -o) out=$word ;; -MF) dep=$word ;; esac
  before=$word
done
[[ -n $out ]] || exit 0
if [[ ${out##*/} == starling ]]; then cp "$here/program" "$out"; else : >"$out"; fi
[[ -z $dep ]] || : >"$dep"
"""
# Its swarms end at once.
PROGRAM = """#!/usr/bin/env bash
[[ $1 != swarm ]] || exit 0
exec '{program}' "$@"
"""
PLAIN = ["-G", "Ninja", "-DSTARLING_CUDA=OFF", "-DSTARLING_TESTS=OFF"]


def write(path, text, executable=False):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if executable:
        os.chmod(path, 0o755)


class Workshop:
    """Where copies are configured and built. `program`: a built `starling`."""

    def __init__(self, program, folder):
        self.folder = folder
        self.tools = f"{folder}/tools"
        os.makedirs(self.tools)
        write(f"{self.tools}/launch", LAUNCHER, executable=True)
        write(f"{self.tools}/program", PROGRAM.format(program=program), executable=True)
        launch = f"{self.tools}/launch"
        # Variables of Starling would be warned of in what the program prints.
        plain = {name: value for name, value in os.environ.items() if not name.startswith("STARLING_")}
        self.environment = {**plain, "CMAKE_CXX_COMPILER_LAUNCHER": launch, "CMAKE_CXX_LINKER_LAUNCHER": launch}
        for name in ("REAL", "CXX", "CXXFLAGS", "DESTDIR", "CMAKE_GENERATOR"):
            self.environment.pop(name, None)

    def copy(self, path):
        """A copy of the sources; returns its path. Its scripts install no packages."""
        def skipped(folder, names):
            return {"__pycache__", *((".git", "build", "runs") if folder == SOURCE else ())} & set(names)

        shutil.copytree(SOURCE, path, symlinks=True, ignore=skipped)
        write(f"{path}/scripts/deps", "#!/bin/sh\n", executable=True)
        presets = open(f"{path}/CMakePresets.json", encoding="utf-8").read()
        write(f"{path}/CMakePresets.json", presets.replace(
            '"STARLING_BENCH": "ON"', '"STARLING_BENCH": "OFF", "STARLING_CUDA": "OFF", "STARLING_TESTS": "OFF"'))
        return path

    def run(self, *words, **more):
        """A finished process, whose output has both streams."""
        environment = {**self.environment, **more.pop("env", {})}
        return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                              timeout=suite.HANG, **more)

    def commands(self):
        """The compiler's and linker's commands since the last call."""
        path = f"{self.tools}/commands"
        lines = open(path, encoding="utf-8").read().split("\n") if os.path.exists(path) else []
        write(path, "")
        return [line for line in lines if line]


def errors(output):
    """CMake's errors, each as one line."""
    found, open_error = [], False
    for line in output.split("\n"):
        if line.startswith("CMake Error"):
            found.append(line)
            open_error = True
        elif open_error and line.startswith("  "):
            found[-1] += " " + line.strip()
        elif line.strip():
            open_error = False
    return found
