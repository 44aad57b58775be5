#!/usr/bin/env python3
"""Runs programs that do what programs may do, bare and under Fathom, and sees that they cannot tell the difference.

A run is good if standard output, standard error and the way it ended are those of the bare run, it left no core, and it ended within a
limit of CPU time. No run is tried again. What fails leaves a folder; docs/chaos.md says what is in it.
"""

import argparse
import importlib.util
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
import guests  # noqa: E402
import watch  # noqa: E402
from guests import MODES, ROOT, Guest, Mode  # noqa: E402

BARE_LIMIT_S = 120.0  # of CPU: such a program has lost its way without us
CORE_BACKTRACE = "backtrace.txt"
PROGRESS_S = 60.0


class Python(NamedTuple):
    name: str
    minor: int
    path: str


class Cell(NamedTuple):
    guest: Guest
    python: Python
    mode: Mode

    def __str__(self) -> str:
        return f"{self.guest.name} {self.python.name} {self.mode.name}"


NATIVE = Python("native", 99, "")


def runs_needed(rate: float, confidence: float) -> int:
    """How many runs show a fault of this rate at least once with this probability: (1 - rate)^n <= 1 - confidence."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - rate))


def fault_distance(rng: random.Random) -> int:
    """Of reads that fault, to the next one: small and large ones alike, so that the first read of a sample meets it, and the last."""
    return int(2 ** rng.uniform(0, 12))


def find_pythons() -> List[Python]:
    spec = importlib.util.spec_from_file_location("find_pythons", ROOT / "scripts" / "find-pythons.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suffix = {"release": "", "debug": "d", "freethreaded": "t"}
    found = []
    for version, kind, path in module.find(one=True):
        minor = int(version.split(".")[1])
        found.append(Python(f"3.{minor}{suffix[kind]}", minor, path))
    return found


def chosen(text: Optional[str], name: str) -> bool:
    """By names with a comma between; a program's name stands for all of its cases."""
    return not text or any(name == word or name.startswith(word + ":") for word in text.split(","))


def normal(text: str) -> List[str]:
    """Lines without what differs from run to run: addresses and numbers of processes."""
    return [re.sub(r"0x[0-9a-f]+|\bpid \d+", "#", line) for line in text.splitlines()]


class Bare(NamedTuple):
    """What a program does without us, on one Python."""

    ending: Optional[watch.Ending]
    wrong: str  # why nothing can be compared with it; empty if all is well
    skipped: bool


def judge(guest: Guest, mode: Mode, bare: watch.Ending, ours: watch.Ending) -> str:
    """What is wrong with a run, in words; empty if nothing is."""
    if ours.cause:
        return ours.cause
    status = ours.status
    if bare.status < 0 and status == 128 - bare.status:
        status = bare.status  # `fathom record` ends as a shell does
    if status != bare.status:
        number = status - 128
        died = status < 0 or 0 < number < signal.NSIG
        name = watch.name_of(-number if status > 0 and died else status)
        return f"ends by {name} instead of {watch.name_of(bare.status)}"
    if ours.stdout != bare.stdout:
        return "another standard output"
    lines = (normal(bare.stderr), normal(ours.stderr))
    if (lines[0][:1] != lines[1][:1]) if guest.first_line else (lines[0] != lines[1]):
        return "another standard error"
    if ours.cores:
        return "left a core"
    return ""


class Session:
    """One run of the runner: what it may use, what it has found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.folder
        self.helpers = self.folder / "helpers"
        self.failures = self.folder / "failures"
        self.lock = threading.Lock()
        self.bare_locks: Dict[Tuple[str, str], threading.Lock] = {}
        self.bare_runs: Dict[Tuple[str, str], Bare] = {}
        self.counts: Dict[Tuple[str, str], List[int]] = {}  # by program and Python: good, failed
        self.by_mode: Dict[str, List[int]] = {}
        self.skipped: Dict[str, str] = {}
        self.broken: Dict[str, str] = {}  # programs that fail without us
        self.causes: List[str] = []
        self.cpu_s = 0.0
        self.n_started = 0
        self.rng = random.Random(options.seed)

    def packages(self, python: Python) -> Path:
        return self.folder / "packages" / python.name

    def place(self) -> Path:
        with self.lock:
            self.n_started += 1
            folder = self.folder / "runs" / str(self.n_started)
        folder.mkdir(parents=True)
        return folder

    def bare(self, guest: Guest, python: Python) -> Bare:
        key = (guest.name, python.name)
        with self.lock:
            lock = self.bare_locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.bare_runs:
                self.bare_runs[key] = self.run_bare(guest, python)
            return self.bare_runs[key]

    def run_bare(self, guest: Guest, python: Python) -> Bare:
        if guest.wants:
            guests.install(guest.wants, python.path, python.minor, self.packages(python))
        env = guests.environment(guest, self.helpers, self.packages(python), python.minor)
        if env is None:
            return Bare(None, "", True)
        folder = self.place()
        command = guests.bare_command(guest, python.path, self.helpers, self.options.scale)
        ending = watch.run(command, folder, env, BARE_LIMIT_S, self.options.idle, cores=False)
        shutil.rmtree(folder, ignore_errors=True)
        with self.lock:
            self.cpu_s += ending.cpu_s
        if ending.status == guests.SKIPPED:
            return Bare(ending, "", True)
        if ending.cause or ending.status != guest.status:
            what = ending.cause or watch.name_of(ending.status)
            return Bare(ending, f"without Fathom: {what}\n{ending.stdout}{ending.stderr}", False)
        return Bare(ending, "", False)

    def run(self, cell: Cell) -> None:
        guest, python, mode = cell
        bare = self.bare(guest, python)
        if bare.skipped or bare.wrong or bare.ending is None:
            with self.lock:
                if bare.wrong and f"{guest.name} {python.name}" not in self.broken:
                    self.broken[f"{guest.name} {python.name}"] = bare.wrong
                    print(f"BROKEN {guest.name} {python.name}: {bare.wrong}", flush=True)
                elif bare.skipped:
                    self.skipped[f"{guest.name} {python.name}"] = "it cannot run here"
            return
        folder = self.place()
        command, env = self.command(cell, folder)
        limit_s = mode.factor * bare.ending.cpu_s + self.options.extra
        ending = watch.run(command, folder, env, limit_s, self.options.idle, cores=guest.status >= 0)
        cause = judge(guest, mode, bare.ending, ending)
        with self.lock:
            self.cpu_s += ending.cpu_s
            for counts in (
                self.counts.setdefault((guest.name, python.name), [0, 0]),
                self.by_mode.setdefault(mode.name, [0, 0]),
            ):
                counts[1 if cause else 0] += 1
        if cause:
            self.keep(cell, folder, command, env, bare.ending, ending, cause)
        elif self.options.verbose:
            print(f"ok     {cell}: {ending.cpu_s:.2f} s of CPU, bare {bare.ending.cpu_s:.2f} s", flush=True)
        shutil.rmtree(folder, ignore_errors=True)

    def command(self, cell: Cell, folder: Path) -> Tuple[List[str], Dict[str, str]]:
        guest, python, mode = cell
        env = guests.environment(guest, self.helpers, self.packages(python), python.minor)
        assert env is not None
        bare = guests.bare_command(guest, python.path, self.helpers, self.options.scale)
        if mode.form == "module":
            parts = [str(ROOT / "python"), env["PYTHONPATH"]]
            env["PYTHONPATH"] = os.pathsep.join(part for part in parts if part)
        env["XDG_CACHE_HOME"] = str(self.folder / "cache")
        if self.options.inject:
            env["FATHOM_FAULT_NTH"] = str(fault_distance(self.rng))
        return guests.fathom_command(mode, guest, python.path, bare, self.options.fathom, folder), env

    def keep(
        self,
        cell: Cell,
        folder: Path,
        command: List[str],
        env: Dict[str, str],
        bare: watch.Ending,
        ours: watch.Ending,
        cause: str,
    ) -> None:
        """Everything that helps to find out why. Diagnosis only: the run has failed, whatever comes of this."""
        with self.lock:
            self.causes.append(f"{cell}: {cause}")
            number = len(self.causes)
            print(f"FAILED {cell}: {cause} (failure {number})", flush=True)
        out = self.failures / re.sub(r"[^\w.-]+", "-", f"{number:03d}-{cell}")
        out.mkdir(parents=True, exist_ok=True)
        differs = {k: v for k, v in sorted(env.items()) if os.environ.get(k) != v}
        words = [f"{k}={v}" for k, v in differs.items()] + command
        (out / "command").write_text(" ".join("'%s'" % w if " " in w else w for w in words) + "\n")
        (out / "cause").write_text(
            f"{cell}: {cause}\nstatus {ours.status}, bare {bare.status}; CPU {ours.cpu_s:.2f} s, bare {bare.cpu_s:.2f} s; "
            f"wall {ours.wall_s:.1f} s\n"
        )
        for name, text in (("stdout", ours.stdout), ("stderr", ours.stderr), ("stdout-bare", bare.stdout)):
            (out / name).write_text(text)
        (out / "stderr-bare").write_text(bare.stderr)
        default = Path(cell.python.path) if cell.guest.is_python else self.helpers / cell.guest.source.stem
        trace = ours.trace + "".join(watch.trace_of_core(core, default) for core in ours.cores[:3])
        if trace:
            (out / CORE_BACKTRACE).write_text(trace)
        for core in ours.cores[:1] if self.options.keep_cores else []:
            shutil.move(str(core), str(out / "core"))
        if (folder / "profile.fathom").exists():
            shutil.move(str(folder / "profile.fathom"), str(out / "profile.fathom"))


def cells_of(options: argparse.Namespace, pythons: List[Python]) -> Dict[str, List[Cell]]:
    """By program: every Python and mode that it fits."""
    modes = [mode for mode in MODES if chosen(options.modes, mode.name) and (options.perf or "perf" not in mode.name)]
    rows: Dict[str, List[Cell]] = {}
    for guest in guests.all_guests():
        if not chosen(options.programs, guest.name):
            continue
        homes = pythons if guest.is_python else [NATIVE]
        cells = [Cell(guest, p, m) for p in homes for m in modes if guests.fits(guest, m, p.minor)]
        if cells:
            rows[guest.name] = cells
    return rows


def plan(rows: Dict[str, List[Cell]], options: argparse.Namespace, rng: random.Random) -> Iterator[Cell]:
    """Without an end for a budget of time; else every program so often, in random order."""
    if options.short:  # each program, each time in other places of its row; there are more of these if it has Pythons
        once = [
            cell
            for cells in rows.values()
            for cell in rng.sample(cells, min(len(cells), 2 if cells[0].guest.is_python else 1))
        ]
        rng.shuffle(once)
        yield from once
        return
    every = [cell for cells in rows.values() for cell in cells]
    while options.seconds and not options.runs:
        rng.shuffle(every)
        yield from every
    decks: List[Cell] = []
    for cells in rows.values():
        n = options.each * len(cells) if options.each else options.runs
        deck: List[Cell] = []
        while len(deck) < n:
            rng.shuffle(cells)
            deck += cells
        decks += deck[:n]
    rng.shuffle(decks)
    yield from decks


def perf_works(fathom: Path) -> bool:
    done = subprocess.run([str(fathom), "doctor"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return any(line.startswith("ok") and "perf events" in line for line in done.stdout.decode().splitlines())


def print_table(session: Session, pythons: List[Python]) -> None:
    names = [p.name for p in pythons] + [NATIVE.name]
    used = [name for name in names if any(key[1] == name for key in session.counts)]
    rows = sorted({key[0] for key in session.counts})
    width = max([len(row) for row in rows] + [7])
    print("\nruns/failures")
    print(" " * width, *(f"{name:>9}" for name in used))
    for row in rows:
        counts = [session.counts.get((row, name)) for name in used]
        print(row.ljust(width), *("%9s" % (f"{c[0] + c[1]}/{c[1]}" if c else "-") for c in counts))
    print("by mode:", ", ".join(f"{name} {c[0] + c[1]}/{c[1]}" for name, c in sorted(session.by_mode.items())))
    for name in sorted(session.skipped):
        print(f"skipped: {name}: {session.skipped[name]}")
    for cause in session.causes:
        print("failed:", cause)


def work_through(session: Session, cells: Iterator[Cell], end: List[float]) -> None:
    """Until the cells or the time is used up; a signal handler may bring the end nearer."""

    def worker() -> None:
        while time.monotonic() < end[0]:
            with session.lock:
                cell = next(cells, None)
            if cell is None:
                return
            try:
                session.run(cell)
            except Exception as error:  # the runner's own fault must not look like a pass
                with session.lock:
                    session.causes.append(f"{cell}: the runner: {error!r}")
                    session.counts.setdefault((cell.guest.name, cell.python.name), [0, 0])[1] += 1
                print(f"FAILED {cell}: the runner: {error!r}", flush=True)

    threads = [threading.Thread(target=worker) for _ in range(session.options.jobs)]
    for thread in threads:
        thread.start()
    begin = said = time.monotonic()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)  # so that a signal to us is heard
            if time.monotonic() > said + PROGRESS_S:
                said = time.monotonic()
                passed = sum(counts[0] for counts in session.counts.values())
                print(
                    f"chaos: {passed} passed, {len(session.causes)} failed in {(said - begin) / 60:.0f} min", flush=True
                )


def parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sure = runs_needed(0.01, 0.99)
    parser.add_argument(
        "--runs",
        type=int,
        help=f"of each program, spread over Pythons and modes (default {sure}: a fault of one in 100 shows with 99 %%)",
    )
    parser.add_argument("--each", type=int, help="runs of each program on each Python in each mode, instead")
    parser.add_argument(
        "--seconds",
        type=float,
        help="a budget on the clock; alone, over the whole matrix in random order until it is used",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="each program once, those in Python twice, on Pythons and in modes that the seed chooses",
    )
    parser.add_argument("--pythons", help="3.11,3.14 (default: all)")
    parser.add_argument("--programs", help="names, with or without the case (default: all)")
    parser.add_argument("--modes", help=", ".join(mode.name for mode in MODES))
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="runs at a time")
    parser.add_argument("--scale", type=float, default=1.0, help="of each program's work")
    parser.add_argument("--seed", type=int, help="of the order (default: another one each time; it is printed)")
    parser.add_argument(
        "--inject",
        action="store_true",
        help="of a build with -Dinject_faults=true: every nth read faults, another n for each run",
    )
    parser.add_argument("--idle", type=float, default=20.0, help="seconds without CPU time after which a program hangs")
    parser.add_argument(
        "--extra",
        type=float,
        default=10.0,
        help="seconds of CPU that any run may take beside its limit: start, report, symbols",
    )
    parser.add_argument("--fathom", type=Path, default=ROOT / "build" / "fathom", help="the program under test")
    parser.add_argument("--programs-from", type=Path, default=guests.PROGRAMS, help="a folder of other programs")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "chaos", help="for helpers, packages and failures"
    )
    parser.add_argument("--result", type=Path, help="where to write the counts as JSON")
    parser.add_argument("--install", help="packages, with commas, for each Python that has wheels of them, and no run")
    parser.add_argument("--keep-cores", action="store_true", help="keep the core of a failure beside its backtrace")
    parser.add_argument("--list", action="store_true", help="print programs, Pythons and modes, and no run")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each run")
    options = parser.parse_args(arguments)
    guests.PROGRAMS = options.programs_from.resolve()
    options.folder, options.fathom = options.folder.resolve(), options.fathom.resolve()
    if not (options.runs or options.each or options.seconds or options.short):
        options.runs = sure
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    return options


def main(arguments: List[str]) -> int:
    options = parse(arguments)
    wanted = [guest for guest in guests.all_guests() if chosen(options.programs, guest.name)]
    if not wanted:
        sys.exit(f"chaos: there is no program {options.programs}; --list names them")
    found = find_pythons() if options.install or any(guest.is_python for guest in wanted) else []
    pythons = [p for p in found if chosen(options.pythons, p.name)]
    session = Session(options)
    if options.install:
        for python in pythons:
            done = guests.install(options.install.split(","), python.path, python.minor, session.packages(python))
            print(python.name, "installed" if done else "has no wheels of that")
        return 0
    options.perf = perf_works(options.fathom)
    rows = cells_of(options, pythons)
    if options.list:
        for name, cells in rows.items():
            print(f"{name:28} {len({c.python.name for c in cells})} Pythons, {len({c.mode.name for c in cells})} modes")
        print("Pythons:", ", ".join(p.name for p in pythons))
        print("modes:", ", ".join(m.name for m in MODES if options.perf or "perf" not in m.name))
        return 0
    for old in (session.failures, session.folder / "runs"):
        shutil.rmtree(old, ignore_errors=True)
    for guest in guests.all_guests():
        if guest.name in rows:
            guests.build(guest, session.helpers)
    begin = time.monotonic()
    end = [begin + (options.seconds or math.inf)]

    def stop(number: int, frame: object) -> None:
        """What was run is told; a second signal ends at once."""
        if end[0] == begin:
            watch.stop_all_and_exit(128 + number)
        end[0] = begin

    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, stop)
    print(f"chaos: {len(rows)} programs, {len(pythons)} Pythons, seed {options.seed}", flush=True)
    work_through(session, plan(rows, options, random.Random(options.seed)), end)
    wall_s = time.monotonic() - begin
    print_table(session, pythons)
    failed = len(session.causes) + len(session.broken)
    passed = sum(counts[0] for counts in session.counts.values())
    print(
        f"{passed + failed} runs, {wall_s / 3600:.2f} hours on the clock, {session.cpu_s / 3600:.2f} machine hours of CPU, "
        f"seed {options.seed}"
    )
    if failed:
        print(f"see {os.path.relpath(session.failures)}")
    print(f"{passed} passed, {failed} failed")
    if options.result:
        result = {"passed": passed, "failed": failed, "skipped": len(session.skipped), "seed": options.seed}
        options.result.write_text(json.dumps(result) + "\n")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
