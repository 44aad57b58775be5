# SPDX-License-Identifier: Apache-2.0
"""Runs a program with every allocation counted, and finds its sums by function."""

from pathlib import Path
from typing import Any, Dict, List, Sequence

from capture import Capture, fields
from guest import clean_env, run, under

MIB = 1 << 20
OBJ, MEM, RAW, MALLOC, MMAP, COPY = range(6)


def exact(tmp_path: Path, command: Sequence[object], option: str = "--memory=exact") -> Capture:
    profile = tmp_path / "exact.fathom"
    done = run([*under(profile, option), *map(str, command)], env=clean_env())
    assert done.returncode == 0, done.stdout + done.stderr
    return Capture(profile, done)


def coverage(capture: Capture) -> List[Any]:
    return [c["what"] for c in capture.report["coverage"]]


def sites(capture: Capture, function: str) -> List[Dict[str, int]]:
    """Those whose innermost Python function is this one."""
    all_of = [fields(line) for line in capture.raw.get("site", [])]
    codes = capture.innermost_code
    return [s for s in all_of if getattr(codes[s["stack"]], "name", "") == function]


def summed(found: List[Dict[str, int]], domain: int, what: str) -> int:
    return sum(s[what] for s in found if s["domain"] == domain)
