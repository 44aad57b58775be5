#!/usr/bin/env python3
"""How often the ± of a function holds: many runs of a program that knows its own split.

    python3 bench/intervals.py                                  # 1 and 10 kHz, both engines, short and long turns, 30 runs each, by turns
    python3 bench/intervals.py --runs 10 --rates 10000 --engines ticker --turns 0.05:0.2

tests/targets/truth_parts.py spends its time in native_part() and python_part() by turns and measures both by its thread's CPU clock. Each run is one
comparison for each of both: shown less true, against the half interval that the report prints. Columns: coverage, the share of comparisons within their ±
(95 % is what ± promises); error, the mean of shown less true in percent of the true time, with its own standard error; z, the mean and the
standard deviation of the error in standard errors (±/1.96), which are 0 and 1 if the ± is chance and nothing else (less than 1 if it is wider);
±, its mean in percent; free, the share of the run in which a CPU was to be had. On a crowded machine the ± is wide, and all of them hold; --quiet 0.9 waits for
moments without other tasks, and counts only runs that had a CPU for nine tenths of their time.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "tests" / "targets" / "truth_parts.py"
PARTS = ("native_part", "python_part")


class Row(NamedTuple):
    part: str
    true_s: float
    shown_s: float
    plus_minus_s: float

    @property
    def z(self) -> float:
        return (self.shown_s - self.true_s) / (self.plus_minus_s / 1.96)


class Run(NamedTuple):
    rows: List[Row]
    samples_per_s: float
    free: float


def run_once(options: argparse.Namespace, engine: str, rate: int, turn: str, folder: Path) -> Optional[Run]:
    out, truth = folder / "p.fathom", folder / "truth.json"
    command = [
        options.fathom,
        "record",
        "--engine",
        engine,
        "--rate",
        str(rate),
        "--max-overhead",
        "0",
        "-o",
        str(out),
        "--",
    ]
    command += [options.python, str(TARGET), str(truth), str(options.seconds), *turn.split(":")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = subprocess.run([options.fathom, "report", "--json", str(out)], check=True, stdout=subprocess.PIPE).stdout
    report, true = json.loads(text), json.loads(truth.read_text())
    if report["engine"] != engine:
        return None
    found = {f["name"]: f for f in report["functions"] if f["kind"] == "python" and f["name"] in PARTS}
    rows = [Row(part, true[part], found[part]["total_s"], found[part]["total_plus_minus_s"]) for part in PARTS]
    free = 1 - report["no_cpu_s"] / report["wall_s"]
    return Run(rows, report["samples"] / report["cpu_s"], free)


def wait_for_quiet(end: float) -> None:
    """Until nothing else has wanted a CPU for a moment."""
    n = 0
    while n < 5 and time.monotonic() < end:
        others = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
        n = n + 1 if others <= 0 else 0
        time.sleep(0.02)


def summary(runs: List[Run]) -> str:
    rows = [row for run in runs for row in run.rows]
    inside = sum(abs(row.shown_s - row.true_s) <= row.plus_minus_s for row in rows)
    text = "%4d %6.0f %5.0f%%  %4d/%-4d %4.0f%%" % (
        len(runs),
        statistics.mean(run.samples_per_s for run in runs),
        100 * statistics.mean(run.free for run in runs),
        inside,
        len(rows),
        100 * inside / len(rows),
    )
    for part in PARTS:
        mine = [row for row in rows if row.part == part]
        errors = [100 * (row.shown_s - row.true_s) / row.true_s for row in mine]
        z = [row.z for row in mine]
        spread = [statistics.stdev(x) if len(x) > 1 else math.nan for x in (errors, z)]
        wide = statistics.mean(100 * row.plus_minus_s / row.true_s for row in mine)
        text += "   %+6.2f ±%.2f%% ±%5.2f%% %+5.2f %4.2f" % (
            statistics.mean(errors),
            spread[0] / math.sqrt(len(mine)),
            wide,
            statistics.mean(z),
            spread[1],
        )
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rates", default="1000,10000")
    parser.add_argument("--engines", default="ticker,perf")
    parser.add_argument("--turns", default="0.05:0.2,1:10", help="shortest and longest turn in ms; several by commas")
    parser.add_argument("--python", default=os.path.realpath(sys.executable))
    parser.add_argument("--fathom", default=str(ROOT / "build" / "fathom"))
    parser.add_argument(
        "--quiet", type=float, metavar="SHARE", help="count runs that had a CPU for that share of their time"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="stop then, with what there is")
    parser.add_argument("--json", metavar="FILE", help="every comparison")
    options = parser.parse_args()
    cases = list(
        itertools.product(options.engines.split(","), map(int, options.rates.split(",")), options.turns.split(","))
    )
    found: Dict[str, List[Run]] = {}
    print("load %.1f on %d CPUs" % (os.getloadavg()[0], os.cpu_count() or 1), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        end, n_left = time.monotonic() + 60 * options.minutes, {case: options.runs for case in cases}
        while any(n_left.values()) and time.monotonic() < end:
            for case in [case for case in cases if n_left[case]]:
                if options.quiet:
                    wait_for_quiet(end)
                one = run_once(options, *case, Path(folder))
                if one and options.quiet and one.free < options.quiet:
                    continue
                n_left[case] -= 1
                if one:
                    found.setdefault("%-6s %5d Hz %9s ms" % case, []).append(one)
    print("%-25s %4s %6s %6s  %9s %5s   " % ("", "runs", "got/s", "free", "in ±", ""), end="")
    print("   ".join("%-15s %7s %5s %4s" % (part, "±", "z", "sd") for part in PARTS))
    for name in sorted(found):
        print("%-25s %s" % (name, summary(found[name])))
    if options.json:
        Path(options.json).write_text(json.dumps({k: [r._asdict() for r in v] for k, v in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
