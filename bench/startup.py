#!/usr/bin/env python3
"""What a profiler adds to a program around it: seconds from the command to the prompt, beyond the program's own.

    python3 bench/startup.py                      # an empty script and the demo, by turns
    python3 bench/startup.py --rounds 15 --python PATH
    python3 bench/startup.py --also DIR           # py-spy and scalene from that bin folder (default: PATH, and .venv-bench)

Rows: the program alone; `fathom run` (its screen, the whole report and the page), `fathom run --cpu`, `fathom record`; py-spy and scalene where
they are installed. Rows run by turns; shown is what each took more than the program alone in the same round, the median of all rounds and the least. The
clock of a busy machine shows others' load, which its least round has least of; CPU seconds are of the whole tree of processes. "around": of both, what was
not the program itself, as its own report has it: what starts it, collects beside it and writes the report. (The rest of "more" is what sampling costs a
program that runs for seconds.) The bar: `fathom run` takes at most 0.15 s around the program, on the clock of a quiet machine and of CPU.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "log_digest.py"
BAR_S = 0.15


def find_peer(name: str, folders: List[Path]) -> Optional[str]:
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    return shutil.which(name)


def commands(python: str, fathom: str, folders: List[Path], out: Path) -> Dict[str, List[str]]:
    """By row: what comes before the script."""
    rows = {
        "alone": [python],
        "fathom run": [fathom, "run", "--output-dir", str(out / "results"), "--python", python],
        "fathom run --cpu": [fathom, "run", "--cpu", "--output-dir", str(out / "results"), "--python", python],
        "fathom record": [fathom, "record", "-o", str(out / "r.fathom"), "--", python],
    }
    py_spy, scalene = find_peer("py-spy", folders), find_peer("scalene", folders)
    if py_spy:
        rows["py-spy record"] = [py_spy, "record", "-f", "raw", "-o", str(out / "py-spy.txt"), "--", python]
    if scalene:
        rows["scalene"] = [scalene, "run", "-o", str(out / "scalene.json")]
    return rows


def measure(command: List[str], cwd: Path) -> Optional["Took"]:
    """Seconds on the clock, and of CPU in all processes; None when it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return None if done.returncode else (wall, cpu)


Took = Tuple[float, float]  # seconds on the clock, of CPU


def own(fathom: str, row: str, out: Path) -> Took:
    """What the program itself took in the last run of a row of fathom's, as its capture has it."""
    made = sorted((out / "results").glob("*/*/profile.fathom"), key=lambda path: path.stat().st_mtime)
    capture = out / "r.fathom" if row == "fathom record" else made[-1]
    report = json.loads(subprocess.run([fathom, "report", "--json", capture], stdout=subprocess.PIPE).stdout)
    return report["wall_s"], report["cpu_s"]


def less(a: Took, b: Took) -> Took:
    return a[0] - b[0], a[1] - b[1]


def medians(values: List[Took]) -> Took:
    return statistics.median(x[0] for x in values), statistics.median(x[1] for x in values)


def table(name: str, script: Path, rows: Dict[str, List[str]], rounds: int, out: Path) -> Took:
    """Prints it; gives what `fathom run` takes around the program."""
    alone: List[Took] = []
    more: Dict[str, List[Took]] = {}
    around: Dict[str, List[Took]] = {}
    for i in range(rounds):
        order = list(rows)
        took: Dict[str, Optional[Took]] = {}
        for row in order[i % len(order) :] + order[: i % len(order)]:
            one = took[row] = measure(rows[row] + [str(script)], out)
            if one and row.startswith("fathom "):
                around.setdefault(row, []).append(less(one, own(rows[row][0], row, out)))
        base = took.pop("alone")
        assert base, "the program fails by itself"
        alone.append(base)
        for row, one in took.items():
            if one:
                more.setdefault(row, []).append(less(one, base))
    print("\n%s (%.3f s, %.3f s of CPU)" % (name, *medians(alone)))
    print("%-20s %10s %8s %10s %8s %8s" % ("", "clock more", "least", "CPU more", "least", "rounds"), end="")
    print("%16s %8s" % ("around: clock", "CPU"))
    for row in rows:
        if row not in more:
            if row != "alone":
                print("%-20s %10s" % (row, "fails"))
            continue
        figures = [f(x[k] for x in more[row]) for k in (0, 1) for f in (statistics.median, min)]
        print("%-20s %8.3f s %6.3f s %8.3f s %6.3f s %8d" % (row, *figures, len(more[row])), end="")
        print("%14.3f s %6.3f s" % medians(around[row]) if row in around else "")
    return medians(around["fathom run"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--python", default=os.path.realpath(sys.executable))
    parser.add_argument("--fathom", default=str(ROOT / "build" / "fathom"))
    parser.add_argument("--also", action="append", default=[], metavar="DIR")
    parser.add_argument("--empty-only", action="store_true", help="without the demo, which takes some seconds a row")
    options = parser.parse_args()
    folders = [Path(x) for x in options.also] + sorted(ROOT.glob(".venv-bench/*/bin"))
    print("load %.1f on %d CPUs" % (os.getloadavg()[0], os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        empty = out / "empty.py"
        empty.write_text("")
        rows = commands(options.python, options.fathom, folders, out)
        found = {"empty script": table("empty script", empty, rows, options.rounds, out)}
        if not options.empty_only:
            found["the demo"] = table("the demo", DEMO, rows, max(1, options.rounds // 3), out)
    print()
    for name, around in found.items():
        kept = ["%.3f s %s" % (more, "kept" if more <= BAR_S else "over") for more in around]
        print("bar of %.2f s, %s: clock %s, CPU %s" % (BAR_S, name, *kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
