#!/usr/bin/env python3
"""Other people's programs, without Fathom and under it: the same results, the same exit status, no crash and no hang.

    tests/wild/run.py                                      every part, until --seconds are over
    tests/wild/run.py --only import-line --runs 200        one case, often
    tests/wild/run.py --only cpython --bare                only the half without Fathom, for later
    tests/wild/run.py --report                             nothing is run: the table and docs/compatibility.md from what is known

What is known is kept in --state (one file a case), so a run goes on where the last one stopped; results of another build of Fathom do not count.
Several of these may run side by side, on different parts or Pythons.
"""

import argparse
import importlib
import os
import random
import re
import signal
import sys
import time
from pathlib import Path
from typing import Dict, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import launch  # noqa: E402
import processes  # noqa: E402
import summary  # noqa: E402
from cases import Case  # noqa: E402
from examine import Examiner  # noqa: E402
from ledger import Ledger  # noqa: E402
from places import ROOT, STORE, find_pythons  # noqa: E402

PARTS = {
    "import-line": "import_line",
    "imports": "imports",
    "suites": "suites",
    "benchmarks": "benchmarks",
    "programs": "programs",
    "cpython": "cpython",
}


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S ") + text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PARTS", help="of " + ",".join(PARTS))
    parser.add_argument("--pythons", default="", metavar="VERSIONS", help="3.11,3.12: just these")
    parser.add_argument("--match", default="", metavar="REGEX", help="only cases whose name has this")
    parser.add_argument("--runs", type=int, default=0, help="under Fathom, of each case (default: what its part says)")
    parser.add_argument("--seconds", type=float, default=0, help="start nothing new after so long (default: no end)")
    parser.add_argument("--seed", type=int, default=0, help="of the order (default: a new one)")
    parser.add_argument("--fathom", type=Path, default=ROOT / "build" / "fathom", help="the program to test")
    parser.add_argument("--state", type=Path, default=STORE / "state", help="what is known")
    parser.add_argument("--bare", action="store_true", help="only without Fathom")
    parser.add_argument("--again", action="store_true", help="run what is known for this build, too")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    return parser.parse_args()


def collect(args: argparse.Namespace) -> List[Case]:
    pythons = find_pythons()
    if args.pythons:
        pythons = {version: path for version, path in pythons.items() if version in args.pythons.split(",")}
    wanted = args.only.split(",") if args.only else list(PARTS)
    unknown = set(wanted) - set(PARTS)
    if unknown:
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    found: List[Case] = []
    for part in wanted:
        say(f"preparing {part}")
        found += importlib.import_module(PARTS[part]).cases(pythons)
    return [case for case in found if re.search(args.match, case.name)]


def work_list(args: argparse.Namespace, cases: List[Case], examiner: Examiner) -> List[Tuple[Case, int]]:
    """(case, number of the run); what is known is left out."""
    found = []
    build = "" if args.bare else examiner.builds.current()
    for case in cases:
        if args.bare:
            if args.again or not examiner.known_bare(case):
                found.append((case, 0))
            continue
        record = examiner.ledger.read("ours", case.key) or {}
        done = set() if args.again or record.get("build") != build else {run["number"] for run in record["runs"]}
        found += [(case, number) for number in range(args.runs or len(case.modes)) if number not in done]
    return found


def go(args: argparse.Namespace, examiner: Examiner, work: List[Tuple[Case, int]]) -> Dict[str, int]:
    """How often each verdict was given."""
    start = told = time.monotonic()
    counts: Dict[str, int] = {}
    for n_done, (case, number) in enumerate(work):
        now = time.monotonic()
        if args.seconds and now - start > args.seconds:
            say(f"time is over; {len(work) - n_done} runs are left for the next time")
            break
        if now - told > 60:
            told = now
            say(f"{n_done} of {len(work)} runs: " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
        if args.bare:
            how = "ran" if examiner.bare(case, args.again)["status"] == 0 else "failed"
        else:
            how = examiner.ours(case, number).how
        counts[how] = counts.get(how, 0) + 1
    return counts


def main() -> int:
    args = arguments()
    ledger = Ledger(args.state)
    fathom = args.fathom.resolve()
    failed = 0
    if not args.report:
        launch.become_subreaper()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        scratch = launch.fresh_folder()
        try:
            examiner = Examiner(fathom, ledger, scratch, say)
            work = work_list(args, collect(args), examiner)
            seed = args.seed or random.randrange(1, 1 << 30)
            random.Random(seed).shuffle(work)
            say(f"{len(work)} runs, order by --seed {seed}")
            counts = go(args, examiner, work)
        finally:
            processes.end_all(processes.descendants(os.getpid()))
            launch.remove(scratch)
        if args.bare:
            say("without Fathom: " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
            return 0
    failed = summary.tell(ledger, fathom, args.write)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
