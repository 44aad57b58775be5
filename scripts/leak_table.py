#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many leaks are found, and what is taken for one by mistake: over places, speeds, sizes and lengths of run.

    scripts/leak_table.py [--fathom PROGRAM] [--python PYTHON] [--times 1] [--jobs 2] [--write]

Each program leaks in one known line, or in none, beside a line that churns. With --write the table goes into docs/memory-tests.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "memory-tests.md"
BEGIN, END = "<!-- leaks: scripts/leak_table.py --write -->", "<!-- leaks end -->"

# Line 1 leaks (or holds): one call of step() makes about SIZE bytes that stay.
PLACES: Dict[str, Tuple[str, str]] = {
    "a list": ("leak", "def step(i): kept.append(b'x' * SIZE)"),
    "a dictionary": ("leak", "def step(i): table[i] = (str(i), b'x' * SIZE)"),
    "one block in five": ("leak", "def step(i): kept.append([b'x' * SIZE for _ in range(5)][0])"),
    "parsed JSON": ("leak", "def step(i): table[i] = json.loads(TEXT)"),
    "a cycle without gc": ("leak", "def step(i): c = [bytearray(SIZE)]; c.append(c)"),
    "malloc": ("leak", "def step(i): libc.malloc(ctypes.c_size_t(SIZE))"),
    "a cache that is full": ("none", "def step(i): table[i % max(FULL, 1)] = b'x' * SIZE"),
    "a queue": ("none", "def step(i): queue.append(b'x' * SIZE)"),
    "sawtooth": ("none", "def step(i): (kept.clear() if i % max(WAVE, 1) == 0 else 0, kept.append(b'x' * SIZE))"),
    "loaded at the start": ("none", "def step(i): (i < FULL and kept.append(b'x' * SIZE), b'y' * SIZE)"),
}
REST = """
import collections, ctypes, gc, json, sys, time
SIZE, RATE, LENGTH = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
gc.disable()
kept, table, libc = [], {}, ctypes.CDLL(None)
TEXT = json.dumps({"a": ["%06d" % i for i in range(max(SIZE // 64, 1))]})
FULL, WAVE = int(RATE * LENGTH / SIZE / 5), int(RATE * 2 / SIZE)
queue = collections.deque(maxlen=max(FULL // 2, 1))
libc.malloc.restype = ctypes.c_void_p
def churn(): return [bytes(3000) for _ in range(4)]
begin, n = time.perf_counter(), 0
while True:
    now = time.perf_counter() - begin
    if now > LENGTH: break
    while n < now * RATE / SIZE:
        step(n); n += 1
    churn()
    time.sleep(0.004)
"""


class Case(NamedTuple):
    place: str
    size: int
    rate: float
    length: float


SPEEDS = (0.1e6, 1e6, 5e6)
SIZES = (100, 2000, 400000)
LENGTHS = (6.0, 15.0)


def cases() -> List[Case]:
    """Each place at each length with each speed at 2000 bytes, and each size at 1 MB/s: 5 by length."""
    pairs = [(2000, rate) for rate in SPEEDS] + [(size, 1e6) for size in SIZES if size != 2000]
    return [Case(place, size, rate, length) for place in PLACES for length in LENGTHS for size, rate in pairs]


def run(case: Case, fathom: str, python: str) -> Tuple[bool, int, int]:
    """Was the leak found? How many other places were named, and how many of them in the program's own line?"""
    with tempfile.TemporaryDirectory() as folder:
        program, profile = Path(folder) / "program.py", Path(folder) / "p.fathom"
        program.write_text(PLACES[case.place][1] + REST)
        command = [fathom, "record", "--memory", "-o", str(profile), "--", python, str(program)]
        command += [str(case.size), str(case.rate), str(case.length)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = subprocess.run([fathom, "report", "--json", profile], check=True, stdout=subprocess.PIPE).stdout
    leaks = [row for row in json.loads(text)["leaks"] if (row["file"] or "").endswith("program.py")]
    in_line = sum(row["line"] == 1 for row in leaks)
    # The loop's own numbers stay alive in a dictionary's keys: its line keeps them, and is no mistake there.
    keeps_numbers = case.place in ("a dictionary", "parsed JSON")
    others = sum(row["line"] != 1 and not keeps_numbers for row in leaks)
    return in_line > 0, others, in_line


def share(n: int, of: int) -> str:
    return "%d of %d" % (n, of)


def table(results: List[Tuple[Case, Tuple[bool, int, int]]], load: str) -> str:
    rows = ["| | found (leaks) | called a leak (none is) |", "|---|---|---|"]

    def row(title: str, chosen: List[Tuple[Case, Tuple[bool, int, int]]]) -> None:
        leaks = [found for case, (found, _, _) in chosen if PLACES[case.place][0] == "leak"]
        none = [found for case, (found, _, _) in chosen if PLACES[case.place][0] == "none"]
        rows.append(
            "| %s | %s | %s |"
            % (title, share(sum(leaks), len(leaks)) if leaks else "", share(sum(none), len(none)) if none else "")
        )

    for place in PLACES:
        row(place, [r for r in results if r[0].place == place])
    for rate in SPEEDS:
        row("%g MB/s, blocks of 2 kB" % (rate / 1e6), [r for r in results if r[0].rate == rate and r[0].size == 2000])
    for size in SIZES:
        row("blocks of %d bytes, 1 MB/s" % size, [r for r in results if r[0].size == size and r[0].rate == 1e6])
    for length in LENGTHS:
        row("%g s" % length, [r for r in results if r[0].length == length])
    row("**all**", results)
    found = sum(r[1][0] for r in results if PLACES[r[0].place][0] == "leak")
    wrong = sum(r[1][0] for r in results if PLACES[r[0].place][0] == "none") + sum(r[1][1] for r in results)
    n_leaks = sum(PLACES[r[0].place][0] == "leak" for r in results)
    rows.append("")
    rows.append(
        "Recall %.0f %%, precision %.0f %%: %d places were named that do not leak, %d of them in other lines of the program. %s"
        % (
            100 * found / max(n_leaks, 1),
            100 * found / max(found + wrong, 1),
            wrong,
            sum(r[1][1] for r in results),
            load,
        )
    )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", default=str(ROOT / "build" / "fathom"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="places that contain this word")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    chosen = [case for case in cases() if args.only in case.place] * args.times
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(zip(chosen, pool.map(lambda case: run(case, args.fathom, args.python), chosen)))
    for case, (found, others, _) in results:
        if found != (PLACES[case.place][0] == "leak") or others:
            print("%s: found %s, other lines %d" % (case, found, others), file=sys.stderr)
    version = ".".join(map(str, sys.version_info[:2]))
    load = "Python %s, sampled as it comes, each case %s, at a load of %.0f on %d CPUs." % (
        version,
        "once" if args.times == 1 else "%d times" % args.times,
        os.getloadavg()[0],
        os.cpu_count() or 1,
    )
    text = table(results, load)
    print(text)
    if args.write:
        page = PAGE.read_text()
        pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
        PAGE.write_text(re.sub(pattern, lambda _: BEGIN + "\n" + text + "\n" + END, page, flags=re.S))
    return 0


if __name__ == "__main__":
    sys.exit(main())
