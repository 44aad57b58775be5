#!/usr/bin/env python3
"""Puts the shared libraries that the program needs into its wheel, so that it asks nothing of a machine but glibc and Python.

Usage: bundle_libraries.py WHEEL

WHEEL is replaced by one that has the libraries in fathom/_lib, unchanged and with their licences, where the program looks first
(docs/decisions/0008-the-wheel-brings-its-libraries.md). Its name says what is true: any Python 3, and the oldest glibc that has every
symbol asked for.
"""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Tuple

PROGRAM = Path("fathom", "_bin", "fathom")
LIBRARIES = Path("fathom", "_lib")

# Parts of glibc, which fit their own loader only.
GLIBC = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|util|pthread|resolv))\b[-.]")

LICENSES_HEAD = """\
The libraries in this folder are no part of Fathom. They lie here as the system that built this wheel has them, unchanged; another
build of a library may take its file's place. Their sources are the source packages named below, which the distribution offers.
"""


def run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode:
        sys.exit("bundle_libraries: %s: %s" % (" ".join(words), (done.stderr or done.stdout).strip()))
    return done.stdout


def needed(program: Path) -> Dict[str, Path]:
    """Every library that the loader brings in for it, by the name it is asked for; without glibc's own."""
    found = {}
    for line in run("ldd", program).splitlines():
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


def licenses(libraries: Dict[str, Path]) -> str:
    """What the system has to say on whose they are, and the texts of the licences that it refers to."""
    head, texts, missing = [LICENSES_HEAD], [], []
    common = set()
    for name, path in sorted(libraries.items()):
        package = package_of(path) if shutil.which("dpkg") else None
        copyright_file = Path("/usr/share/doc", package or "", "copyright")
        if not package or not copyright_file.exists():
            missing.append(name)
            continue
        source = run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package)
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


def bundle(tree: Path) -> List[Path]:
    """Copies the libraries into an unpacked wheel; returns every ELF file that is then in it."""
    libraries = needed(tree / PROGRAM)
    (tree / LIBRARIES).mkdir(exist_ok=True)
    for name, path in libraries.items():
        shutil.copy(str(path), str(tree / LIBRARIES / name))
    (tree / LIBRARIES / "LICENSES.txt").write_text(licenses(libraries), encoding="utf-8")
    for name, path in needed(tree / PROGRAM).items():
        if path.resolve().parent != (tree / LIBRARIES).resolve():
            sys.exit("bundle_libraries: the program takes %s from %s; was it built with -Dwheel=true?" % (name, path))
    return [tree / PROGRAM, tree / "fathom" / "_agent.abi3.so", *(tree / LIBRARIES / name for name in libraries)]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = Path(sys.argv[1]).resolve()
    tool = (sys.executable, "-m", "wheel")
    with tempfile.TemporaryDirectory() as folder:
        run(*tool, "unpack", "-d", folder, wheel)
        (tree,) = Path(folder).iterdir()
        glibc = oldest_glibc(bundle(tree))
        wheel.unlink()
        run(*tool, "pack", "-d", wheel.parent, tree)
    tag = "manylinux_%d_%d_%s" % (*glibc, platform.machine())
    print(
        run(*tool, "tags", "--remove", "--python-tag", "py3", "--abi-tag", "none", "--platform-tag", tag, wheel).strip()
    )


if __name__ == "__main__":
    main()
