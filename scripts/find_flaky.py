#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs end-to-end tests many times and tells how often each failed, quiet and beside busy loops.

    scripts/find_flaky.py --runs 50 tests/e2e/test_rate.py                     as the machine is
    scripts/find_flaky.py --runs 50 --busy 4 -- tests/e2e/test_rate.py -k 1000   with four loops beside it that want a CPU each

Tests are taken one after the other, none is tried again. Prints a row for each that failed or was skipped at times, and how much of the time a CPU was wanted and not had.
Ends with 1 if one failed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent


def one_run(arguments: List[str], folder: Path) -> Dict[str, str]:
    """By test: passed, failed or skipped."""
    result = folder / "result.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--junitxml={result}", *arguments]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}")
    how: Dict[str, str] = {}
    for case in ElementTree.parse(result).iter("testcase"):
        kinds = {child.tag for child in case}
        verdict = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        how[f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"] = verdict
    for case in ElementTree.parse(result).iter("failure"):
        print((case.get("message") or "")[:400].replace("\n", " | "), file=sys.stderr, flush=True)
    return how


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--busy", type=int, default=0, metavar="LOOPS")
    parser.add_argument("--json", type=Path, help="write the counts there, too")
    parser.add_argument("arguments", nargs="+", help="for pytest")
    options = parser.parse_args()
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(options.busy)]
    counts: Dict[str, Counter[str]] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.runs):
                for name, verdict in one_run(options.arguments, Path(folder)).items():
                    counts.setdefault(name, Counter())[verdict] += 1
                if options.json:
                    options.json.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    failed = 0
    for name, count in sorted(counts.items()):
        failed += count["failed"]
        if count["failed"] or (count["skipped"] and count["passed"]):
            print(f"{count['failed']} of {options.runs} failed, {count['skipped']} skipped: {name}")
    print(f"{len(counts)} tests, {options.runs} runs each, {options.busy} busy loops beside: {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
