"""The programs of tests/chaos/programs, what each says of itself in its first lines, and the ways to run them.

    chaos: needs NAME ...                 C files of that folder, compiled to CHAOS_HELPERS/NAME.so
    chaos: case NAME [WORD ...]           one row: arguments; A=B is a variable, ends=SIGNAL what its end has to be, from=3.9 as below
    chaos: limited                        with the usual --max-overhead: the program is about time
    chaos: stderr first line              of the rest, addresses and paths differ from run to run
    chaos: from 3.9                       the first Python that has what it needs
    chaos: wants NAME ...                 packages, installed where there are wheels of them
    chaos: venv                           may use the packages of .venv, on the Python of that
    chaos: not MODE ...                   modes in which it says something else, for a reason that stands beside

A program gets the scale of its work as the first argument. It exits by 77 where it cannot run.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
HEAD_LINES = 25
LIBRARIES = [
    Path("/usr/lib/x86_64-linux-gnu"),
    Path("/usr/lib/aarch64-linux-gnu"),
    Path("/usr/lib"),
    Path("/usr/local/lib"),
]
SKIPPED = 77


class Guest(NamedTuple):
    name: str
    source: Path
    arguments: Tuple[str, ...]
    env: Dict[str, str]
    status: int
    helpers: Tuple[str, ...]
    limited: bool
    first_line: bool
    since: int  # minor version of Python
    wants: Tuple[str, ...]
    venv: bool
    not_in: Set[str]

    @property
    def is_python(self) -> bool:
        return self.source.suffix == ".py"


class Mode(NamedTuple):
    name: str
    form: str  # record, run, module
    options: Tuple[str, ...]
    factor: float  # of the bare run's CPU time, which is the limit
    python_only: bool = False


# A limit is no measurement: it is far above what a run costs, and far below what a program that makes no progress takes.
MODES = [
    Mode("ticker-1k", "record", ("--engine", "ticker", "-r", "1k"), 5),
    Mode("ticker-10k", "record", ("--engine", "ticker", "-r", "10k"), 8),
    Mode("perf-1k", "record", ("--engine", "perf", "-r", "1k"), 5),
    Mode("perf-10k", "record", ("--engine", "perf", "-r", "10k"), 8),
    Mode("memory", "record", ("--memory",), 10),
    Mode("memory-10k", "record", ("--memory", "--precision", "10", "-r", "10k"), 20),
    Mode("exact", "record", ("--memory=exact",), 30),
    Mode("log", "record", ("--memory-log=64M",), 40),
    Mode("trace", "module", (), 40, True),
    Mode("lines", "module", ("-l",), 80, True),
    Mode("calls", "module", ("--calls", "c"), 80, True),
    Mode("run", "run", (), 15),
    Mode("run-trace", "run", ("--trace",), 40, True),
]


def first_lines(source: Path) -> List[str]:
    with open(source) as lines:
        return [line for _, line in zip(range(HEAD_LINES), lines)]


def read_guest(source: Path) -> List[Guest]:
    helpers: List[str] = []
    not_in: Set[str] = set()
    cases: List[List[str]] = []
    limited = first_line = venv = False
    since = 0
    wants: List[str] = []
    for line in first_lines(source):
        match = re.match(r"\W*chaos: (\w+) ?(.*)", line)
        if not match:
            continue
        key, words = match[1], match[2].split()
        if key == "needs":
            helpers += words
        elif key == "case":
            cases.append(words)
        elif key == "limited":
            limited = True
        elif key == "stderr":
            first_line = True
        elif key == "venv":
            venv = True
        elif key == "wants":
            wants += words
        elif key == "from":
            since = int(words[0].split(".")[1])
        elif key == "not":
            not_in.update(word for word in words if any(word == mode.name for mode in MODES))
        else:
            raise SystemExit(f"{source}: no such word: chaos: {key}")
    found = []
    for case in cases or [[""]]:
        arguments, env, status, since_case = [], {}, 0, since
        for word in case[1:]:
            name, equals, value = word.partition("=")
            if name == "ends":
                status = -signal.Signals[value]
            elif name == "from":
                since_case = int(value.split(".")[1])
            elif equals:
                env[name] = value
            else:
                arguments.append(word)
        name = source.stem + (":" + case[0] if case[0] else "")
        said = (tuple(helpers), limited, first_line, since_case, tuple(wants), venv, not_in)
        found.append(Guest(name, source, tuple(arguments), env, status, *said))
    return found


def all_guests() -> List[Guest]:
    sources = sorted(PROGRAMS.glob("*.py")) + sorted(PROGRAMS.glob("*.c"))
    guests = [guest for source in sources for guest in read_guest(source)]
    helpers = {name for guest in guests for name in guest.helpers}
    return [guest for guest in guests if guest.is_python or guest.source.stem not in helpers]


def compile_c(source: Path, out: Path, *flags: str) -> None:
    if out.exists() and out.stat().st_mtime > source.stat().st_mtime:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wno-infinite-recursion", *flags]
    subprocess.run([*command, str(source), "-o", str(out), "-ldl", "-lpthread", "-lrt", "-lm"], check=True)


def build(guest: Guest, folder: Path) -> None:
    for helper in guest.helpers:
        compile_c(PROGRAMS / (helper + ".c"), folder / (helper + ".so"), "-shared", "-fPIC")
    if not guest.is_python:
        compile_c(guest.source, folder / guest.source.stem)


def find_library(name: str) -> Optional[str]:
    """Of an allocator to preload, by the beginning of its file's name."""
    found = [str(path) for folder in LIBRARIES for path in sorted(folder.glob(f"lib{name}.so*"))]
    return found[0] if found else None


def environment(guest: Guest, folder: Path, packages: Path, minor: int) -> Optional[Dict[str, str]]:
    """None if this machine lacks what the case needs."""
    shared = ROOT / ".venv" / "lib" / f"python3.{minor}" / "site-packages"
    paths = [path for path in [packages] + ([shared] if guest.venv else []) if path.is_dir()]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FATHOM"))}
    env["CHAOS_HELPERS"] = str(folder)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    for name, value in guest.env.items():
        if value.startswith("@"):
            library = find_library(value[1:])
            if not library:
                return None
            value = library
        env[name] = value
    return env


def bare_command(guest: Guest, python: str, folder: Path, scale: float) -> List[str]:
    arguments = [str(scale), *guest.arguments]
    return [python, str(guest.source), *arguments] if guest.is_python else [str(folder / guest.source.stem), *arguments]


def fathom_command(mode: Mode, guest: Guest, python: str, bare: List[str], fathom: Path, out: Path) -> List[str]:
    no_limit = ["--max-overhead", "0"] if "10k" in mode.name and not guest.limited else []
    if mode.form == "record":
        return [str(fathom), "record", "-o", str(out / "profile.fathom"), *mode.options, *no_limit, "--", *bare]
    if mode.form == "run":
        named = ["--python", python] if guest.is_python else []
        target = bare[1:] if guest.is_python else bare
        return [str(fathom), "run", "--quiet", *mode.options, *named, "--output-dir", str(out / "results"), *target]
    return [python, "-m", "fathom", "--quiet", "-o", str(out / "profile.fathom"), *mode.options, *bare[1:]]


def fits(guest: Guest, mode: Mode, minor: int) -> bool:
    return mode.name not in guest.not_in and (guest.is_python or not mode.python_only) and minor >= guest.since


def install(packages: Sequence[str], python: str, minor: int, folder: Path) -> bool:
    """Wheels for one Python, below a folder of their own. False if there are none for it; asked once only."""
    asked = [folder / (".asked-" + name) for name in packages]
    if all(path.exists() for path in asked):
        return all(path.read_text() == "installed" for path in asked)
    pip = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--upgrade", "--target", str(folder)]
    # A Python without pip is served by ours, which knows what fits another version.
    foreign = [sys.executable, *pip, "--python-version", f"3.{minor}"]
    good = False
    for command in ([python, *pip], foreign):
        try:
            said = subprocess.run(
                [*command, *packages], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1200
            )
        except subprocess.TimeoutExpired:
            continue
        good = good or said.returncode == 0
        if good:
            break
    folder.mkdir(parents=True, exist_ok=True)
    for path in asked:
        path.write_text("installed" if good else "no wheel")
    return good
