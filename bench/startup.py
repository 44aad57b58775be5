#!/usr/bin/env python3
"""What a profiler adds to a program around it: seconds from the command to the prompt, beyond the program's own.

    python3 bench/startup.py                      # an empty script and the demo, by turns
    python3 bench/startup.py --rounds 15 --python PATH
    python3 bench/startup.py --also DIR           # py-spy and scalene from that bin folder (default: PATH, and .venv-bench)

Rows: the program alone; `fathom run` (its screen, the whole report and the page), `fathom run --cpu`, `fathom record`; py-spy and scalene where
they are installed. The smallest of all rounds counts for the clock, as a busy machine only ever adds; CPU seconds are of the whole tree of
processes. The bar: `fathom run` of an empty script takes at most 0.15 s more than the script.
"""

import argparse
import os
import resource
import shutil
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


def measure(command: List[str], cwd: Path) -> Optional[Tuple[float, float]]:
    """Seconds on the clock, and of CPU in all processes; None when it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return None if done.returncode else (wall, cpu)


def table(name: str, script: Path, rows: Dict[str, List[str]], rounds: int, out: Path) -> float:
    took: Dict[str, List[Tuple[float, float]]] = {}
    for i in range(rounds):
        order = list(rows)
        for row in order[i % len(order) :] + order[: i % len(order)]:
            one = measure(rows[row] + [str(script)], out)
            if one:
                took.setdefault(row, []).append(one)
    wall_0, cpu_0 = (min(x[k] for x in took["alone"]) for k in (0, 1))
    print("\n%s (%.3f s, %.3f s of CPU)" % (name, wall_0, cpu_0))
    print("%-20s %12s %12s %8s" % ("", "clock more", "CPU more", "rounds"))
    for row in rows:
        if row == "alone":
            continue
        if row not in took:
            print("%-20s %12s" % (row, "fails"))
            continue
        wall, cpu = (min(x[k] for x in took[row]) for k in (0, 1))
        print("%-20s %10.3f s %10.3f s %8d" % (row, wall - wall_0, cpu - cpu_0, len(took[row])))
    return min(x[0] for x in took["fathom run"]) - wall_0


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
        more = table("empty script", empty, rows, options.rounds, out)
        if not options.empty_only:
            table("the demo", DEMO, rows, max(1, options.rounds // 3), out)
    print("\nbar: %.3f s of %.2f s: %s" % (more, BAR_S, "kept" if more <= BAR_S else "over"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
