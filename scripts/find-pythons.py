#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the CPythons of this machine that Fathom supports, one line each: VERSION KIND PATH.

KIND is release, debug (Py_DEBUG) or freethreaded (Py_GIL_DISABLED). Looked at: PATH, pyenv's versions, and
.tools/pythons (scripts/get-debian-pythons.sh). Oldest first. --one prints only the newest patch release of each (minor,
KIND): what tests are parametrised over. Tests import this file for find().
"""

import argparse
import os
import re
import subprocess
import sys

OLDEST, NEWEST = (3, 8), (3, 15)
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = re.compile(r"python3(\.\d+)?(t|d|-dbg)?$")

# Asks the interpreter itself: a name says nothing, pyenv's shims are scripts, and a virtual environment is its base.
ASK = """
import sys, os, sysconfig, platform
kind = ("freethreaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else
        "debug" if sysconfig.get_config_var("Py_DEBUG") else "release")
print(platform.python_implementation(), platform.python_version(), kind,
      os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
"""


def candidates():
    folders = os.environ.get("PATH", "").split(os.pathsep)
    pyenv = os.path.join(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions")
    if os.path.isdir(pyenv):
        folders += [os.path.join(pyenv, name, "bin") for name in sorted(os.listdir(pyenv))]
    folders.append(os.path.join(os.environ.get("FATHOM_PYTHONS") or os.path.join(HERE, ".tools", "pythons"), "bin"))
    yield sys.executable
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if PROGRAM.match(name) and os.access(os.path.join(folder, name), os.X_OK):
                yield os.path.join(folder, name)


def ask(path):
    """(version, kind, real path), or None for what does not run or is no CPython."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        out = subprocess.run([path, "-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = out.stdout.decode(errors="replace").strip().split(None, 3)
    if out.returncode or len(words) != 4 or words[0] != "CPython":
        return None
    return words[1], words[2], words[3]


def version_key(version):
    return tuple(int(n) for n in re.findall(r"\d+", version))


def find(one=False):
    """[(version, kind, path)], oldest first; with one=True only the newest patch release of each (minor, kind)."""
    found, asked = {}, set()
    for path in candidates():
        real = os.path.realpath(path)
        if real in asked:
            continue
        asked.add(real)
        answer = ask(path)
        if answer and OLDEST <= version_key(answer[0])[:2] <= NEWEST:
            found[answer[2]] = answer
    pythons = sorted(found.values(), key=lambda p: (version_key(p[0]), p[1] != "release", p[1], p[2]))
    if one:
        pythons = list({(version_key(p[0])[:2], p[1]): p for p in pythons}.values())
    return pythons


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", action="store_true", help="only the newest of each minor version and kind")
    for version, kind, path in find(parser.parse_args().one):
        print(version, kind, path)


if __name__ == "__main__":
    main()
