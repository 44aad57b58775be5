#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says what a wheel asks of a machine, and fails where its name promises more than is true.

Usage: check_wheel.py [--max-mb N] WHEEL

Looked at, in every ELF file of it: the youngest glibc symbol that it cannot do without (objdump -T) against the version in the wheel's name; that
the agent needs nothing but glibc, and takes every function of Python weakly, so that one file serves all of them; that the program finds each
library in the wheel. auditwheel has to agree with the name; `make wheel` brings it, and where it is not there, this says so.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Iterator, List, Set, Tuple

Version = Tuple[int, ...]

GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread))\.so\.\d+$")
# objdump -T: 0000000000000000  w   DF *UND*  0000000000000000 (GLIBC_2.34) dlopen
SYMBOL = re.compile(r"^[0-9a-f]+ (.{7}) \*UND\*\s+[0-9a-f]+ +(?:\(?([A-Za-z_]+)_([0-9.]+)\)? +)?(\S+)$")


def run(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, check=True, universal_newlines=True
    ).stdout


def undefined(file: Path) -> Iterator[Tuple[str, bool, Version]]:
    """(symbol, is it asked for weakly, version of glibc or () where it has none)"""
    for line in run("objdump", "-T", file).splitlines():
        found = SYMBOL.match(line)
        if found:
            flags, library, version, name = found.groups()
            number = tuple(map(int, version.split("."))) if library == "GLIBC" else ()
            yield name, "w" in flags, number


def needed(file: Path) -> Set[str]:
    return set(re.findall(r"NEEDED +(\S+)", run("objdump", "-p", file)))


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def text_of(version: Version) -> str:
    return ".".join(map(str, version))


def check(tree: Path, floor: Version) -> List[str]:
    wrong = []
    files = sorted(path for path in tree.rglob("*") if path.is_file() and is_elf(path))
    brought = {path.name for path in files if path.parent.name == "_lib"}
    for path in files:
        name = str(path.relative_to(tree))
        symbols = list(undefined(path))
        asked = [(version, symbol) for symbol, is_weak, version in symbols if version and not is_weak]
        youngest, symbol = max(asked, default=((), ""))
        print("%-36s %8d bytes, glibc %s (%s)" % (name, path.stat().st_size, text_of(youngest), symbol))
        if youngest > floor:
            wrong.append(
                "%s needs %s of glibc %s, and the name says %s" % (name, symbol, text_of(youngest), text_of(floor))
            )
        foreign = {library for library in needed(path) if not GLIBC.match(library)}
        if path.name == "_agent.abi3.so":
            if foreign:
                wrong.append("the agent needs %s" % ", ".join(sorted(foreign)))
            strong = [s for s, is_weak, _ in symbols if re.match("_?Py", s) and not is_weak]
            if strong:
                wrong.append("the agent cannot do without %s, which not every Python has" % ", ".join(strong))
        elif foreign - brought:
            wrong.append("%s needs %s, which the wheel does not bring" % (name, ", ".join(sorted(foreign - brought))))
    if not files:
        wrong.append("no program in it")
    return wrong


def ask_auditwheel(wheel: Path, floor: Version) -> List[str]:
    beside = Path(sys.executable).parent / "auditwheel"  # in the environment that runs this
    auditwheel = str(beside) if beside.exists() else shutil.which("auditwheel")
    if not auditwheel:
        print("auditwheel is not installed: its verdict is missing")
        return []
    told = re.search(r'platform\s+tag:\s+"manylinux_(\d+)_(\d+)_', run(auditwheel, "show", wheel))
    print("auditwheel: " + ("glibc %s.%s" % told.groups() if told else "no manylinux system"))
    if not told or tuple(map(int, told.groups())) > floor:
        return ["auditwheel finds that it asks for more than its name says; see 'auditwheel show'"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-mb", type=float)
    parser.add_argument("wheel", type=Path)
    options = parser.parse_args()
    wheel: Path = options.wheel
    tag = re.match(r"fathom_profiler-[^-]+-py3-none-(?:manylinux2014_\w+\.)?manylinux_(\d+)_(\d+)_", wheel.name)
    if not tag:
        print("check_wheel: the name %s does not say which glibc it needs, or ties it to one Python" % wheel.name)
        return 1
    floor = tuple(map(int, tag.groups()))
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(str(wheel)) as archive:
            archive.extractall(folder)
        wrong = check(Path(folder), floor)
    size_mb = wheel.stat().st_size / 1e6
    print("%s: %.2f MB, glibc %s" % (wheel.name, size_mb, text_of(floor)))
    if options.max_mb and size_mb > options.max_mb:
        wrong.append("it is %.2f MB, and at most %g are wanted" % (size_mb, options.max_mb))
    wrong += ask_auditwheel(wheel, floor)
    for line in wrong:
        print("check_wheel: " + line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
