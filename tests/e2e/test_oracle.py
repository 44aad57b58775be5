# SPDX-License-Identifier: Apache-2.0
"""Not one impossible stack: in every sample every function stands under one that calls it, at a line that does, and none has lost them.

The programs (tests/targets/oracle_*.py) say in comments which line calls what; see tests/targets/oracle.py. FATHOM_TEST_SAMPLES is
how many samples are looked at over all Pythons and programs (100,000 unless told).
"""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Set

import pytest
from capture import FRAME_ERROR, FRAME_PYTHON, TARGETS, Capture, Frame, Python, find_pythons

each_frame_layout = True
PROGRAMS = sorted(p.name for p in TARGETS.glob("oracle_*.py"))
N_SAMPLES = int(os.environ.get("FATHOM_TEST_SAMPLES", 100000))
RATE_HZ = 10000
MAX_RUNS = 12
ERRORS = {5: "too deep", 7: "torn"}
# The code that oracle_subinterpreters.py runs in the other interpreter.
INNER_EDGES = {("sub_leaf", "sub_entry"), ("sub_entry", "<module>")}
INNER_NAMES = {callee for callee, _ in INNER_EDGES}


class Place(NamedTuple):
    """A Python frame of a stack, with the line it stands at."""

    name: str
    file: str
    line: int
    is_target: bool


class Oracle:
    """The legal edges of one program, and the line of every instruction as that Python tells it."""

    def __init__(self, program: str, tables: Path) -> None:
        self.path = TARGETS / program
        self.calls: Dict[int, Set[str]] = {}
        self.has_other_interpreters = "subinterpreters" in program  # while they are made, none of our frames is current
        self.from_library: Set[str] = set()
        for n, line in enumerate(self.path.read_text().splitlines(), 1):
            found = re.search(r"# (calls|from library): (.*)$", line)
            if found:
                names = set(found[2].split(", "))
                if found[1] == "calls":
                    self.calls[n] = names
                else:
                    self.from_library |= names
            words = line.split()
            if words[:1] == ["import"]:
                self.calls[n] = {"library"}
            elif words[:1] == ["class"]:
                self.calls.setdefault(n, set()).add(re.match(r"\w+", words[1])[0])  # type: ignore[index]
        self.tables: Dict[str, List[List[int]]] = json.loads(tables.read_text())

    def place(self, capture: Capture, frame: Frame) -> Place:
        if frame.ref < 0:
            return Place("(unknown)", "", 0, False)
        code = capture.codes[frame.ref]
        if code.file != str(self.path):
            return Place(code.name, code.file, 0, False)
        table = self.tables.get(f"{code.name}:{code.first_line}")
        assert table is not None, f"no such code in {self.path.name}: {code}"
        if frame.value == 0:
            return Place(code.name, code.file, code.first_line, True)
        assert frame.value in {line for _, line in table}, f"no such line in {code}: {frame.value}"
        return Place(code.name, code.file, frame.value, True)

    def wrong(self, caller: Optional[Place], callee: Place) -> Optional[str]:
        """What is wrong about this edge; None when it is legal."""
        if caller is None:
            legal = not callee.is_target or callee.name == "<module>"
        elif caller.is_target:
            names = self.calls.get(caller.line, set())
            legal = (callee.name if callee.is_target else "library") in names
        elif callee.is_target:
            legal = callee.name in self.from_library
        elif callee.name in INNER_NAMES:
            legal = (callee.name, caller.name) in INNER_EDGES
        else:
            legal = True
        return None if legal else f"{callee.name} under {caller and caller[:3]}"


def check(capture: Capture, oracle: Oracle, wrong: "Counter[str]") -> int:
    """Looks at every sample; returns how many stand in the program's own code. Errors of the walk count as wrong stacks."""
    # By stack id. A stack is its parent plus one frame, so each shared part is judged once.
    places: List[Optional[Place]] = []
    faults: List[Optional[str]] = []
    is_own: List[bool] = []
    cache: Dict[int, Place] = {}
    for stack_id, (parent, frame_id) in enumerate(capture.stacks):
        if stack_id == 0:
            places.append(None)
            faults.append(None)
            is_own.append(False)
            continue
        frame = capture.frames[frame_id]
        place, fault, own = places[parent], faults[parent], is_own[parent]
        if frame.kind == FRAME_PYTHON:
            if frame_id not in cache:
                cache[frame_id] = oracle.place(capture, frame)
            fault = fault or oracle.wrong(place, cache[frame_id])
            place = cache[frame_id]
            own = own or place.is_target or place.name in INNER_NAMES
        elif frame.kind == FRAME_ERROR and frame.value in ERRORS:
            fault = fault or ERRORS[frame.value]
        places.append(place)
        faults.append(fault)
        is_own.append(own)
    n = 0
    stray: "Counter[int]" = Counter()  # by thread: outside of the program's code since it was last in it
    begun: Set[int] = set()
    for sample in capture.samples:
        fault = faults[sample.stack]
        if fault:
            wrong[fault] += 1
        if is_own[sample.stack]:
            n += 1
            begun.add(sample.thread)
            if stray[sample.thread]:  # a thread comes into its code once, and leaves it once
                wrong["none of the program's frames"] += stray[sample.thread]
            stray[sample.thread] = 0
        elif sample.thread in begun and not oracle.has_other_interpreters:
            stray[sample.thread] += 1
    return n


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_impossible_stack(profile: Any, python: Python, program: str, tmp_path: Path, record_property: Any) -> None:
    wanted = -(-N_SAMPLES // (len(find_pythons()) * len(PROGRAMS)))
    tables = tmp_path / "lines.json"
    n, wrong = 0, Counter()  # type: ignore[var-annotated]
    for _ in range(MAX_RUNS):
        # Half as long again as it should take: another run costs more than that.
        seconds = min(max(0.05, (wanted - n) / RATE_HZ * 1.5), 10)
        options = ["--rate", str(RATE_HZ), "--max-overhead", "0"]
        capture: Capture = profile(program, [str(tables), str(seconds)], options, python)
        n += check(capture, Oracle(program, tables), wrong)
        if n >= wanted or wrong:
            break
    print(f"{program} {python}: {n} samples, {sum(wrong.values())} impossible")
    record_property("samples", n)
    assert not wrong, wrong.most_common(10)
    assert n >= wanted
