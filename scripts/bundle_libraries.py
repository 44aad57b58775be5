#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the shared libraries that the program needs into its wheel, so that it asks nothing of a machine but glibc and Python.

Usage: bundle_libraries.py [--from FOLDER] WHEEL

WHEEL is replaced by one that has the libraries in fathom/_lib, with their licences, where the program looks first
(docs/decisions/0008-the-wheel-brings-its-libraries.md). They are those of FOLDER (scripts/wheel_libraries.sh), or this system's. The wheel's name
says what is true: any Python 3, and the oldest glibc that has every symbol asked for.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Tuple

PROGRAM = Path("fathom", "_bin", "fathom")
LIBRARIES = Path("fathom", "_lib")

# Parts of glibc, which fit their own loader only.
GLIBC = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|util|pthread|resolv))\b[-.]")

LICENSES_HEAD = """\
The libraries in this folder are no part of Fathom. They lie here as %s; another
build of a library may take its file's place. Their sources are the source packages named below, which Debian offers.
"""
AS_SYSTEM_HAS = "the system that built this wheel has them, unchanged"
AS_BUILT = "built from these source packages, unchanged"


def run(*command: object, library_path: Optional[Path] = None) -> str:
    words = [str(word) for word in command]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library_path)} if library_path else None
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=environment
    )
    if done.returncode:
        sys.exit("bundle_libraries: %s: %s" % (" ".join(words), (done.stderr or done.stdout).strip()))
    return done.stdout


def needed(program: Path, library_path: Optional[Path] = None) -> Dict[str, Path]:
    """Every library that the loader brings in for it, by the name it is asked for; without glibc's own."""
    found = {}
    for line in run("ldd", program, library_path=library_path).splitlines():
        name, _, where = line.strip().partition(" => ")
        if GLIBC.match(Path(name).name):
            continue
        if not where.startswith("/"):
            sys.exit("bundle_libraries: %s is not on this machine" % name)
        found[name] = Path(where.rsplit(" (", 1)[0])
    return found


def oldest_glibc(files: Iterable[Path]) -> Tuple[int, int]:
    """A symbol asked for weakly is done without where it is not there."""
    oldest = (2, 17)
    for file in files:
        for line in run("readelf", "-W", "--version-info", file).splitlines():
            asked = re.search(r"Name: GLIBC_(\d+)\.(\d+)\S*\s+Flags: (.*?)\s+Version", line)
            if asked and "WEAK" not in asked.group(3):
                oldest = max(oldest, (int(asked.group(1)), int(asked.group(2))))
    return oldest


def package_of(library: Path) -> Optional[str]:
    """The Debian package that a file came with. /lib may be a link to /usr/lib, and packages know their files by either name."""
    real = str(library.resolve())
    for path in (real, real[len("/usr") :] if real.startswith("/usr/") else "/usr" + real):
        done = subprocess.run(["dpkg", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return done.stdout.decode().split(":")[0]
    return None


def source_of(library: Path) -> Tuple[str, Path]:
    """The source package of one of this system's libraries, and the file that says whose it is; "" where that is not known."""
    package = package_of(library) if shutil.which("dpkg") else None
    copyright_file = Path("/usr/share/doc", package or "", "copyright")
    if not package or not copyright_file.exists():
        return "", copyright_file
    return run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package), copyright_file


def sources(libraries: Dict[str, Path], built: Optional[Path]) -> Iterator[Tuple[str, str, Path]]:
    if not built:
        for name, path in sorted(libraries.items()):
            yield (name, *source_of(path))
        return
    for note in sorted((built / "licenses").glob("*.source")):  # also what is linked into the program
        yield note.stem, note.read_text().strip(), note.with_suffix(".copyright")


def licenses(libraries: Dict[str, Path], built: Optional[Path]) -> str:
    """What Debian has to say on whose they are, and the texts of the licences that it refers to."""
    head, texts, missing = [LICENSES_HEAD % (AS_BUILT if built else AS_SYSTEM_HAS)], [], []
    common = set()
    for name, source, copyright_file in sources(libraries, built):
        if not source:
            missing.append(name)
            continue
        head.append("%s: source package %s" % (name, source))
        text = copyright_file.read_text(encoding="utf-8", errors="replace")
        common |= set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text))
        texts.append("==== %s ====\n\n%s" % (name, text))
    for name in sorted(common):
        file = Path("/usr/share/common-licenses", name)
        if file.exists():
            texts.append("==== %s ====\n\n%s" % (file, file.read_text(encoding="utf-8", errors="replace")))
    if missing:
        print(
            "bundle_libraries: the licences of %s are not known here; add them before the wheel is given to others"
            % ", ".join(missing),
            file=sys.stderr,
        )
    return "\n".join(head) + "\n\n" + "\n\n".join(texts)


def bundle(tree: Path, built: Optional[Path]) -> List[Path]:
    """Copies the libraries into an unpacked wheel; returns every ELF file that is then in it."""
    libraries = needed(tree / PROGRAM, built / "prefix" / "lib" if built else None)
    (tree / LIBRARIES).mkdir(exist_ok=True)
    for name, path in libraries.items():
        if built and built.resolve() not in path.resolve().parents:
            sys.exit("bundle_libraries: %s was not built for this wheel; the program takes %s" % (name, path))
        shutil.copy(str(path), str(tree / LIBRARIES / name))
        if built:  # what was built here has symbols that nobody asks for
            run("strip", "--strip-unneeded", tree / LIBRARIES / name)
    if built:
        # Its linker knows DT_RUNPATH only; meson.build says why that will not do.
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../_lib", tree / PROGRAM)
    (tree / LIBRARIES / "LICENSES.txt").write_text(licenses(libraries, built), encoding="utf-8")
    for name, path in needed(tree / PROGRAM).items():
        if path.resolve().parent != (tree / LIBRARIES).resolve():
            sys.exit("bundle_libraries: the program takes %s from %s; was it built with -Dwheel=true?" % (name, path))
    return [tree / PROGRAM, tree / "fathom" / "_agent.abi3.so", *(tree / LIBRARIES / name for name in libraries)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="built", metavar="FOLDER", type=lambda text: Path(text).resolve())
    parser.add_argument("wheel", type=lambda text: Path(text).resolve())
    options = parser.parse_args()
    wheel: Path = options.wheel
    tool = (sys.executable, "-m", "wheel")
    with tempfile.TemporaryDirectory() as folder:
        run(*tool, "unpack", "-d", folder, wheel)
        (tree,) = Path(folder).iterdir()
        glibc = oldest_glibc(bundle(tree, options.built))
        wheel.unlink()
        run(*tool, "pack", "-d", wheel.parent, tree)
    cpu = options.built.name.partition("-")[0] if options.built else platform.machine()
    tag = "manylinux_%d_%d_%s" % (*glibc, cpu)
    if glibc == (2, 17):
        tag += ".manylinux2014_%s" % cpu  # the name that pip before 20.3 knows
    print(
        run(*tool, "tags", "--remove", "--python-tag", "py3", "--abi-tag", "none", "--platform-tag", tag, wheel).strip()
    )


if __name__ == "__main__":
    main()
