#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which line do I fix? On programs that nobody here wrote (pyperformance's benchmarks), whether what Fathom says first names the place.

bench/which_line.py --benchmarks FOLDER [--build DIR] [--seed N] [--count N] [NAME...]

The place is found by another tool: of the functions of the program's own file the one with the most time of its own by cProfile, calls of
C functions with it. Named by the verdict: one of its sentences stands at a line of that function. Named by the first line: the first of those
that the screen and the page tell to look at first is in it. Programs are drawn by the seed from those that need nothing but
Python and the stand-in for pyperf; those that do not run here are left out before anything is measured.
"""

import argparse
import ast
import json
import os
import pstats
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent
SECONDS = 300  # on the clock: a machine may have a fifteenth of a CPU for it
LOOPS = range(1, 20)  # powers of two: until a program runs for LEAST_S
LEAST_S = 2.0


class Truth(NamedTuple):
    name: str
    first: int
    last: int
    share: float  # of all that cProfile counted


def environment(loops: int) -> Dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE / "standin"), "FATHOM_BENCH_LOOPS": str(loops)}


def run(command: List[str], loops: int, folder: Path) -> bool:
    try:
        done = subprocess.run(
            command, env=environment(loops), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def loops_for(script: Path, folder: Path) -> Optional[int]:
    """As many as make it run for a while; None: it does not run here."""
    for loops in (2**k for k in LOOPS):
        before = os.times()
        if not run([sys.executable, str(script)], loops, folder):
            return None
        after = os.times()
        if after.children_user - before.children_user >= LEAST_S:
            return loops
    return loops


def bodies(script: Path) -> List[Tuple[str, int, int]]:
    tree = ast.parse(script.read_text())
    found = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    # cProfile and co_firstlineno count a function from its first decorator on.
    return [
        (
            getattr(n, "name", "<lambda>"),
            min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", []))]),
            n.end_lineno or n.lineno,
        )
        for n in found
    ]


def truth_of(script: Path, loops: int, folder: Path) -> Optional[Truth]:
    out = folder / "profile"
    if not run([sys.executable, "-m", "cProfile", "-o", str(out), str(script)], loops, folder):
        return None
    stats = pstats.Stats(str(out)).stats  # type: ignore[attr-defined]
    own: Dict[Tuple[str, int, str], float] = {}
    for place, (_, _, tottime, _, callers) in stats.items():
        if place[0] == "~" and callers:  # a C function's time is that of who called it
            for caller, (_, _, by_caller, _) in callers.items():
                own[caller] = own.get(caller, 0) + by_caller
        else:
            own[place] = own.get(place, 0) + tottime
    mine = {p: s for p, s in own.items() if Path(p[0]) == script and p[2] != "<module>"}
    if not mine:
        return None
    place = max(mine, key=lambda p: mine[p])
    for name, first, last in bodies(script):
        if first == place[1]:
            return Truth(
                place[2] if not place[2].startswith("<") else name, first, last, mine[place] / sum(own.values())
            )
    return Truth(place[2], place[1], place[1], mine[place] / sum(own.values()))


def is_in(truth: Truth, file: str, line: int, script: Path) -> bool:
    return Path(file) == script and truth.first <= line <= truth.last


def judge(fathom: Path, script: Path, truth: Truth, loops: int, folder: Path) -> Tuple[bool, bool, str]:
    capture = folder / "x.fathom"
    if not run([str(fathom), "record", "-o", str(capture), "--", sys.executable, str(script)], loops, folder):
        return False, False, "was not recorded"
    said = json.loads(subprocess.run([fathom, "report", "--json", capture], stdout=subprocess.PIPE, check=True).stdout)
    verdict = said["verdict"]
    naming = [v["text"] for v in verdict if is_in(truth, v["file"], v["line"], script)]
    rows = sorted(said["lines"], key=lambda r: -r["total_s"])
    by_line = bool(rows) and is_in(truth, rows[0]["file"], rows[0]["line"], script)
    return bool(naming), by_line, (naming or [v["text"] for v in verdict] or ["(nothing)"])[0]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmarks", type=Path, required=True, help="the folder that has bm_*/run_benchmark.py")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("names", nargs="*")
    o = parser.parse_args()
    order = o.names or sorted(p.parent.name[3:] for p in o.benchmarks.glob("bm_*/run_benchmark.py"))
    if not o.names:
        random.Random(o.seed).shuffle(order)
    print(
        "| program | its place, by cProfile | verdict | first line | the sentence |\n|---|---|---|---|---|", flush=True
    )
    n = named = 0
    for name in order:
        if n == o.count:
            break
        script = (o.benchmarks / f"bm_{name}" / "run_benchmark.py").resolve()
        with tempfile.TemporaryDirectory(prefix="which-line-") as folder:
            loops = loops_for(script, Path(folder))
            truth = truth_of(script, loops, Path(folder)) if loops else None
            if not loops or not truth:
                print(f"left out: {name}", file=sys.stderr)
                continue
            by_verdict, by_line, text = judge(o.build / "fathom", script, truth, loops, Path(folder))
        n += 1
        named += by_verdict or by_line
        yes = {True: "yes", False: "no"}
        print(
            f"| {name} | {truth.name}, line {truth.first} to {truth.last}, {100 * truth.share:.0f} % | {yes[by_verdict]} | "
            f"{yes[by_line]} | {text} |",
            flush=True,
        )
    print(f"\n{named} of {n} are named.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
