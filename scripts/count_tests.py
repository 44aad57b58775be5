#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the test stages of one `make test` left in the build folder, and prints the closing count.

A stage that left nothing did not run, and that is a failure, not a zero.
"""

import json
import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple
from xml.etree import ElementTree

N_DEAREST = 20


class Count(NamedTuple):
    passed: int
    failed: int
    skipped: int


def count_meson(log: Path) -> Count:
    """Cases of every unit test program ("5 passed, 0 failed"); a program without such a line counts as one case."""
    passed = failed = skipped = 0
    for line in log.read_text().splitlines():
        test = json.loads(line)
        cases = re.findall(r"^(\d+) passed, (\d+) failed$", test.get("stdout", ""), re.MULTILINE)
        n_failed = sum(int(n) for _, n in cases)
        if test["result"] == "SKIP":
            skipped += 1
        elif test["result"] == "OK":
            passed += sum(int(n) for n, _ in cases) or 1
        else:
            passed += sum(int(n) for n, _ in cases)
            failed += n_failed or 1  # a crash or a timeout may come without a failed case
    return Count(passed, failed, skipped)


def count_pytest(xml: Path) -> Count:
    suites = list(ElementTree.parse(xml).getroot().iter("testsuite"))
    total, bad, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites for name in names)
        for names in (["tests"], ["failures", "errors"], ["skipped"])
    )
    return Count(total - bad - skipped, bad, skipped)


def count_e2e(alone: Path) -> Count:
    """The stages of scripts/e2e.sh together."""
    count = Count(
        *(
            sum(column)
            for column in zip(*(count_pytest(alone.with_name(f"e2e-{name}.xml")) for name in ("shared", "alone")))
        )
    )
    again = alone.with_name("e2e-again.xml")
    if again.exists():
        second = count_pytest(again)
        tried = second.passed + second.failed
        print(f"end-to-end: {count.failed} failed, {tried} of them were tried again, {second.passed} passed then")
        count = Count(count.passed + second.passed, max(count.failed - second.passed, second.failed), count.skipped)
    return count


def print_dearest(build: Path) -> None:
    """Where the CPU time of the end-to-end tests went, by file: what to cut when they take too long."""
    files: Dict[str, float] = {}
    for name in ("shared", "alone"):
        for case in ElementTree.parse(build / f"e2e-{name}.xml").getroot().iter("testcase"):
            file = case.get("classname", "").rpartition(".")[2]
            for one in case.iter("property"):
                if one.get("name") == "cpu_s":
                    files[file] = files.get(file, 0) + float(one.get("value", "0"))
    dearest = sorted(files.items(), key=lambda pair: -pair[1])[:N_DEAREST]
    rows = ", ".join(f"{file} {seconds:.0f}" for file, seconds in dearest)
    print(f"end-to-end: {sum(files.values()):.0f} s of CPU; most of it in {rows}")


def count_chaos(result: Path) -> Count:
    counts = json.loads(result.read_text())
    return Count(*(counts[name] for name in ("passed", "failed", "skipped")))


def main() -> int:
    build = Path(sys.argv[1])
    counts: List[Count] = []
    for name, file, count in [
        ("unit", build / "meson-logs" / "testlog.json", count_meson),
        ("chaos", build / "chaos.json", count_chaos),
        ("end-to-end", build / "e2e-alone.xml", count_e2e),
    ]:
        if not file.exists():
            print(f"{name} tests did not run")
            counts.append(Count(0, 1, 0))
            continue
        counts.append(count(file))
        print("{}: {} passed, {} failed, {} skipped".format(name, *counts[-1]))
    if (build / "e2e-alone.xml").exists():
        print_dearest(build)
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    print(f"all tests: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
