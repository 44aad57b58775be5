#!/usr/bin/env python3
"""What a sample costs the program, with images found by _dl_find_object and, as before glibc 2.35, by the loader's list.

    python3 bench/handler.py                      # both by turns in one run
    python3 bench/handler.py --rounds 9 --python PATH --build DIR

A program 30 Python calls deep, half of its time in native code, is recorded at 1 kHz. `mean`: what all samples took by the cycle counter, divided by
their number. `median`: of the counter's buckets, which have steps of some per cent. Each round records both ways, the first one in turn; shown are the
best round and the median of the rounds. The search alone is measured by a unit test: build/tests/test_loaded prints it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
WAYS = {"_dl_find_object": {}, "the loader's list": {"FATHOM_LOADER_LIST": "1"}}
PROGRAM = """
import sys, time
def work(depth):
    if depth:
        return work(depth - 1)
    end = time.process_time() + float(sys.argv[1])
    numbers = list(range(2000, 0, -1))
    while time.process_time() < end:
        for _ in range(20):
            sorted(numbers, key=float)
        for _ in range(6000):
            pass
work(30)
"""


def record(build: Path, python: str, seconds: float, way: Dict[str, str], folder: Path) -> Tuple[float, float]:
    """(mean, median) of a sample, in us"""
    script, out = folder / "deep.py", folder / "p.fathom"
    script.write_text(PROGRAM)
    if out.exists():
        out.unlink()
    command = [build / "fathom", "record", "--max-overhead", "0", "-o", out, "--", python, script, str(seconds)]
    subprocess.run(list(map(str, command)), check=True, env={**os.environ, **way}, stderr=subprocess.DEVNULL)
    told = subprocess.run([str(build / "tests" / "dump_profile"), str(out)], stdout=subprocess.PIPE, check=True).stdout
    facts = {name: int(value) for name, value in re.findall(rb"^meta\|(\w+)\|(\d+)$", told, re.M)}
    report = subprocess.run([str(build / "fathom"), "report", "--json", str(out)], stdout=subprocess.PIPE, check=True)
    n_samples = json.loads(report.stdout)["samples"]
    return facts[b"overhead_ns"] / n_samples / 1e3, facts[b"handler_median_ns"] / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of one recording")
    options = parser.parse_args()
    got: Dict[str, List[Tuple[float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(options.rounds):
            for name in sorted(WAYS, reverse=bool(i % 2)):
                got[name].append(record(options.build, options.python, options.seconds, WAYS[name], Path(folder)))
    for name, rounds in got.items():
        means, medians = zip(*rounds)
        print(
            "%-18s mean %.2f us at best, %.2f in the middle; median %.2f us at best, %.2f in the middle"
            % (name, min(means), median(means), min(medians), median(medians))
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
