"""The build backend of the package (PEP 517): setuptools, on a copy of the sources in a temporary folder. A build of setuptools
leaves folders beside the sources, which it packs again the next time, also modules that the sources no longer have, and it
needs to write there."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile

import setuptools
from setuptools import build_meta

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("README.md", "build_copy.py")
# Versions before 77 read only the first form, and later ones will read only the second.
LICENSE = 'license = {text = "Apache-2.0"}' if int(setuptools.__version__.split(".")[0]) < 77 else 'license = "Apache-2.0"'


def _commit():
    """What the version of unreleased sources in a checkout, or in an archive of one, ends with: as cmake/Version.cmake finds it."""
    root = os.path.realpath(os.path.join(HERE, "..", ".."))
    try:
        with open(os.path.join(root, "cmake", "Version.cmake"), encoding="utf-8") as file:
            archived = re.search(r'set\(archived "([0-9a-f]+)"\)', file.read())
    except OSError:
        return ""  # a source distribution
    if archived:
        return "+" + archived[1][:12]
    if not os.path.exists(os.path.join(root, ".git")):
        return ""
    plain = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}

    def git(*words):
        return subprocess.run(["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", root, *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**plain, "GIT_OPTIONAL_LOCKS": "0"}).stdout

    try:
        commit, changes = git("rev-parse", "--verify", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    except OSError:
        return ""  # git is not installed
    return "+" + commit[:12] + (".dirty" if changes else "") if commit else ""


def _with_version(project, config_settings):
    """The text of pyproject.toml with the version that scripts/package gives, or else with the commit."""
    given = (config_settings or {}).get("version")
    version = re.search(r'(?m)^version = "(.*?)"', project)[1]
    if not given:
        given = version + _commit() if version.endswith(".dev0") else version
    return project.replace(f'version = "{version}"', f'version = "{given}"')


@contextlib.contextmanager
def _copy(config_settings=None):
    """Works in a copy. Its license is the repository's; a source distribution has it beside this file."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="starling-build-") as folder:
        for name in FILES:
            shutil.copyfile(os.path.join(HERE, name), os.path.join(folder, name))
        shutil.copytree(os.path.join(HERE, "starling"), os.path.join(folder, "starling"), copy_function=shutil.copyfile,
                        ignore=shutil.ignore_patterns("__pycache__"))
        for path in (os.path.join(HERE, "LICENSE"), os.path.join(HERE, "..", "..", "LICENSE")):
            if os.path.exists(path):
                shutil.copyfile(path, os.path.join(folder, "LICENSE"))
                break
        with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
            project = _with_version(re.sub(r"(?m)^(# )?license = .*$", LICENSE, file.read()), config_settings)
        with open(os.path.join(folder, "pyproject.toml"), "w", encoding="utf-8") as file:
            file.write(project)
        with open(os.path.join(folder, "MANIFEST.in"), "w", encoding="utf-8") as manifest:
            manifest.write("include build_copy.py\n")
        os.chmod(os.path.join(folder, "starling"), 0o755)  # also if that of the sources is read-only
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def get_requires_for_build_wheel(config_settings=None):
    with _copy(config_settings):
        return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings=None):
    with _copy(config_settings):
        return build_meta.get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    metadata_directory = os.path.abspath(metadata_directory)
    with _copy(config_settings):
        return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_directory = os.path.abspath(wheel_directory)
    with _copy(config_settings):
        return build_meta.build_wheel(wheel_directory, config_settings)


def build_sdist(sdist_directory, config_settings=None):
    sdist_directory = os.path.abspath(sdist_directory)
    with _copy(config_settings):
        return build_meta.build_sdist(sdist_directory, config_settings)


# `pip install -e` refers to these sources, so it works in their folder.
if hasattr(build_meta, "build_editable"):
    get_requires_for_build_editable = build_meta.get_requires_for_build_editable
    prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
    build_editable = build_meta.build_editable
