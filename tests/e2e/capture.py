# SPDX-License-Identifier: Apache-2.0
"""Runs a program under Fathom and gives back what the profile holds: the report, and every raw sample."""

import functools
import importlib.util
import json
import math
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from hurt import check_end

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("FATHOM_BUILD", "build")
TARGETS = ROOT / "tests" / "targets"

CLASS_PYTHON, CLASS_NATIVE, CLASS_SYSTEM, CLASS_GC, CLASS_GIL_WAIT, CLASS_WAIT = range(6)
FRAME_NATIVE, FRAME_PYTHON, FRAME_ERROR = range(3)


class Python(NamedTuple):
    version: str
    kind: str
    path: str

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])

    @property
    def longer_head(self) -> int:
        """By how many bytes an object's head is longer than with a GIL."""
        return 16 if self.kind == "freethreaded" else 0

    def __str__(self) -> str:
        return self.version + {"release": "", "debug": "d", "freethreaded": "t"}[self.kind]


@functools.lru_cache(maxsize=None)  # it starts every Python of the machine, and most modules ask when they are imported
def every_python() -> List[Python]:
    """All of the machine, oldest first.

    FATHOM_TEST_FOUND names a file with what scripts/find-pythons.py printed: workers need not find out each for itself (scripts/e2e.sh), nor who
    runs single tests again and again (scripts/mutate.py).
    """
    listed = os.environ.get("FATHOM_TEST_FOUND")
    if listed:
        return [Python(*line.split(" ", 2)) for line in Path(listed).read_text().splitlines()]
    spec = importlib.util.spec_from_file_location("find_pythons", ROOT / "scripts" / "find-pythons.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [Python(*p) for p in module.find()]


def find_pythons() -> List[Python]:
    """The newest of each minor version and kind, oldest first; FATHOM_TEST_PYTHONS=3.8,3.14t narrows the list down."""
    found = list({(p.minor, p.kind): p for p in every_python()}.values())
    wanted = os.environ.get("FATHOM_TEST_PYTHONS")
    if wanted:
        found = [p for p in found if re.sub(r"\.\d+\+?(?=[dt]?$)", "", str(p)) in wanted.split(",")]
    return found


class Sample(NamedTuple):
    thread: int
    stack: int
    time_ns: int
    weight_ns: int
    cpu: int
    kind: int  # CLASS_*


class Frame(NamedTuple):
    kind: int  # FRAME_*
    ref: int
    value: int


class Code(NamedTuple):
    first_line: int
    name: str
    qualname: str
    file: str


def unescape(text: str) -> str:
    raw = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    return raw.decode("utf-8", "replace")


def fields(line: str) -> Dict[str, int]:
    return {k: int(v) for k, v in re.findall(r"(\w+)=(-?\d+)", line.partition("|")[0])}


class Capture:
    """One profile. The raw side comes from the C reader's dump, which tests/reader checks on its own."""

    def __init__(self, path: Path, run: "subprocess.CompletedProcess[str]") -> None:
        self.path, self.run = path, run

    @functools.cached_property
    def report(self) -> Dict[str, Any]:
        text = subprocess.run(
            [BUILD / "fathom", "report", "--json", self.path], stdout=subprocess.PIPE, check=True
        ).stdout
        report: Dict[str, Any] = json.loads(text)
        return report

    def collapsed(self, *options: str) -> List[Tuple[List[str], int]]:
        """[(frames, outermost first, samples)]"""
        command = [str(BUILD / "fathom"), "export", "-f", "collapsed", *options, str(self.path)]
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
        pairs = (line.rpartition(" ") for line in text.splitlines())
        return [(stack.split(";"), int(n)) for stack, _, n in pairs]

    @functools.cached_property
    def raw(self) -> Dict[str, List[str]]:
        dump = subprocess.run([BUILD / "tests" / "dump_profile", self.path], stdout=subprocess.PIPE, check=True).stdout
        lines: Dict[str, List[str]] = {}
        for line in dump.decode("ascii").splitlines():
            lines.setdefault(re.match(r"\w+", line)[0], []).append(line)  # type: ignore[index]
        return lines

    @functools.cached_property
    def all_samples(self) -> List[Sample]:
        return [Sample(*map(int, re.findall(r"=(\d+)", line))) for line in self.raw.get("sample", [])]

    @property
    def samples(self) -> List[Sample]:
        """of CPU time"""
        return [s for s in self.all_samples if s.kind < CLASS_GIL_WAIT]

    @property
    def waits(self) -> List[Sample]:
        return [s for s in self.all_samples if s.kind >= CLASS_GIL_WAIT]

    @functools.cached_property
    def frames(self) -> List[Frame]:
        return [Frame(*map(int, re.findall(r"=(-?\d+)", line))) for line in self.raw.get("frame", [])]

    @functools.cached_property
    def codes(self) -> List[Code]:
        rows = (line.split("|") for line in self.raw.get("code", []))
        return [Code(fields(r[0])["line"], unescape(r[1]), unescape(r[2]), unescape(r[3])) for r in rows]

    @functools.cached_property
    def stacks(self) -> List[Tuple[int, int]]:
        """By stack id: (parent stack, frame id). 0 is the empty stack; parents come before children."""
        return [(int(p), int(f)) for p, f in (re.findall(r"=(\d+)", line) for line in self.raw["stack"])]

    @functools.cached_property
    def thread_tids(self) -> List[int]:
        return [fields(line)["tid"] for line in self.raw.get("thread", [])]

    @functools.cached_property
    def innermost_code(self) -> List[Optional[Code]]:
        """By stack id: the code of the innermost Python frame."""
        found: List[Optional[Code]] = []
        for parent, frame_id in self.stacks:
            frame = self.frames[frame_id] if found else None
            if frame and frame.kind == FRAME_PYTHON and frame.ref >= 0:
                found.append(self.codes[frame.ref])
            else:
                found.append(found[parent] if found else None)
        return found

    def wait_ends_s(self, n: int = 1) -> float:
        """What n waits may be off by: a look at either end of each, and the profile says how long none was to be had."""
        meta = dict(line.split("|")[1:3] for line in self.raw["meta"])
        return n * (0.01 + 2e-9 * int(meta["waiting_gap_ns"]))

    def seconds(self, name: str, of: str = "total_s") -> float:
        """of every Python function of that name"""
        return sum(f[of] for f in self.report["functions"] if f["name"] == name and f["kind"] == "python")


def standard_error_s(part_s: float, samples: Sequence[Sample]) -> float:
    """Of a part's CPU time, estimated from these samples (the whole).

    Each sample stands for w seconds and falls into the part with probability p = part / whole. Were samples independent, the
    variance of the part's sum would be p (1 - p) sum(w^2), that is W^2 p (1 - p) / n with n = (sum w)^2 / sum(w^2): the
    effective number of samples, which is the plain one when all weigh the same. Samples at jittered equal distances over
    random slices are spread more evenly than independent ones, so this bound is on the safe side.
    """
    whole_s = sum(s.weight_ns for s in samples) * 1e-9
    squares = sum(s.weight_ns**2 for s in samples) * 1e-18
    p = min(max(part_s / whole_s, 0.0), 1.0) if whole_s else 0.0
    return math.sqrt(p * (1 - p) * squares)


def record(
    out: Path, target: Path, args: Sequence[str] = (), options: Sequence[str] = (), python: Optional[Python] = None
) -> Capture:
    """`fathom record` of a target (by python, or as a program of its own), which must end well."""
    command = [str(BUILD / "fathom"), "record", "-o", str(out), *options, "--"]
    command += ([python.path] if python else []) + [str(target), *map(str, args)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=600)
    check_end(run)
    assert run.returncode == 0, run.stdout
    return Capture(out, run)
