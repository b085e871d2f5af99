"""What ELF files need, read with readelf."""
import os
import re
import subprocess

# Not bundled: glibc with its loader, and GCC's libraries, which every Debian and Ubuntu has.
OF_THE_SYSTEM = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
                 "librt.so.1", "libresolv.so.2", "libstdc++.so.6", "libgcc_s.so.1"}

# The newest version of each symbol set in the releases' glibc and GCC libraries.
RELEASES = {
    "Debian 12": {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)},
    "Ubuntu 24.04": {"GLIBC": (2, 39), "GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0, 0)},
    "Debian 13": {"GLIBC": (2, 41), "GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0, 0)},
}


def own_glibc():
    """(2, 36) on Debian 12."""
    return numbers(os.confstr("CS_GNU_LIBC_VERSION").split()[1])


def numbers(text):
    return tuple(int(part) for part in text.split("."))


def read(flag, path):
    return subprocess.run(["readelf", "--wide", flag, path], capture_output=True, text=True, check=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def dynamic(path, tag):
    """The values of a tag in the dynamic section: NEEDED, RPATH, RUNPATH or SONAME."""
    return re.findall(rf"\({tag}\).*\[(.*)\]", read("--dynamic", path))


def newest(paths):
    """The newest version that the files need of each symbol set: {"GLIBC": (2, 36), ...}."""
    found = {}
    for path in paths:
        for name, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", read("--version-info", path)):
            found[name] = max(found.get(name, ()), numbers(version))
    return found
