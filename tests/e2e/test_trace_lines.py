# SPDX-License-Identifier: Apache-2.0
"""Lines of chosen functions only, from the command line and from the program; and no lines of functions that are left out."""

import csv
import os
import subprocess
from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from capture import BUILD, ROOT, Python
from tracing import FEW, pythons, rows_of, source, trace

each_python = True  # tests name their Pythons themselves

MODULE = """
import threading
class Shape:
    def area(self, n):
        total = 0
        for i in range(n):
            total += other(i)
        return total
def other(i):
    j = i
    return j
def chosen(n):
    shape = Shape()
    for _ in range(n):
        shape.area(3)
def in_thread():
    thread = threading.Thread(target=chosen, args=(2,))
    thread.start()
    thread.join()
"""

PROGRAM = """
from package import shapes
def chosen(n):
    pass
shapes.chosen(5)
chosen(4)
shapes.in_thread()
"""


def program(tmp_path: Path) -> str:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("# empty\n")
    (tmp_path / "package" / "shapes.py").write_text(MODULE)
    return source(tmp_path, PROGRAM)


def hits_of(profile: Path, folder: Path) -> Dict[Tuple[str, str], Dict[str, int]]:
    """By file and function: the hits of each line, by its text."""
    command = [BUILD / "fathom", "export", "-f", "lines-csv", profile]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    found: Dict[Tuple[str, str], Dict[str, int]] = {}
    for row in csv.DictReader(text.splitlines()):
        path = Path(row["file"])
        if folder not in path.parents:
            continue
        line = path.read_text().splitlines()[int(row["line"]) - 1].strip()
        key = (path.name, row["function"].rpartition(".")[2])
        found.setdefault(key, {})[line] = int(row["hits"])
    return found


CHOICES: List[Tuple[List[str], List[Tuple[str, str]]]] = [
    (["--lines", "package.shapes:chosen"], [("shapes.py", "chosen")]),
    (
        ["--lines=package.shapes:Shape.area", "--lines", "__main__:chosen"],
        [("shapes.py", "area"), ("program.py", "chosen")],
    ),
    (["--lines", "package.shapes:*"], [("shapes.py", n) for n in ("area", "other", "chosen", "in_thread")]),
]


@pythons(FEW)
@pytest.mark.parametrize("options, functions", CHOICES, ids=["one", "two", "all of a module"])
def test_lines_of_chosen_functions(
    python: Python, tmp_path: Path, options: List[str], functions: List[Tuple[str, str]]
) -> None:
    trace(python, tmp_path / "t.fathom", options, [program(tmp_path)])
    hits = hits_of(tmp_path / "t.fathom", tmp_path)
    seen = {key: lines for key, lines in hits.items() if key[1] not in ("<module>", "Shape")}
    assert sorted(seen) == sorted(functions)
    if ("shapes.py", "chosen") in functions:
        assert seen["shapes.py", "chosen"]["shape.area(3)"] == 7
        assert seen["shapes.py", "chosen"]["shape = Shape()"] == 2
    if ("shapes.py", "area") in functions:
        assert seen["shapes.py", "area"]["total += other(i)"] == 21
    calls = {row["name"].rpartition(".")[2]: row["calls"] for row in rows_of(tmp_path / "t.fathom")}
    assert calls["other"] == 21 and calls["area"] == 7, "calls are traced whatever lines are"


API = """
import fathom
from package import shapes
def work(n):
    shapes.chosen(n)
first = fathom.Profiler("first.fathom", lines=[shapes.chosen, "package.shapes:other"])
with first:
    work(5)
first.close()
second = fathom.Profiler("second.fathom", lines=True)
with second:
    work(2)
second.close()
third = fathom.Profiler("third.fathom")
with third:
    work(2)
third.close()
try:
    fathom.Profiler(lines=["no colon"])
except ValueError as error:
    print(error)
try:
    fathom.Profiler(lines=[len])
except ValueError as error:
    print(error)
"""


@pythons(FEW)
def test_a_profiler_has_lines_of_its_own(python: Python, tmp_path: Path) -> None:
    program(tmp_path)
    script = source(tmp_path, API)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    run = subprocess.run(
        [python.path, script], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.returncode == 0 and run.stderr == ""
    assert "names no function" in run.stdout and "has no lines of Python" in run.stdout
    first = hits_of(tmp_path / "first.fathom", tmp_path)
    assert sorted(first) == [("shapes.py", "chosen"), ("shapes.py", "other")]
    assert first["shapes.py", "other"]["return j"] == 15
    second = hits_of(tmp_path / "second.fathom", tmp_path)
    assert {name for _, name in second} >= {"chosen", "other", "area", "work"}
    assert second["shapes.py", "area"]["total += other(i)"] == 6
    assert hits_of(tmp_path / "third.fathom", tmp_path) == {}, "nothing is left of the traces before"


@pythons(FEW)
def test_functions_that_are_left_out_have_no_lines(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", ["-l", "--exclude", "*/shapes.py"], [program(tmp_path)])
    hits = hits_of(tmp_path / "t.fathom", tmp_path)
    assert {file for file, _ in hits} - {"__init__.py"} == {"program.py"}
    lines = hits["program.py", "<module>"]
    assert set(lines) <= {line.strip() for line in PROGRAM.splitlines()}
    assert lines["shapes.chosen(5)"] == 1 and lines["chosen(4)"] == 1


def test_a_choice_that_is_none_is_refused(tmp_path: Path) -> None:
    run = trace(FEW[-1], tmp_path / "t.fathom", ["--lines", "nonsense"], [program(tmp_path)], status=2)
    assert "names no function" in run.stderr and len(run.stderr.splitlines()) == 1


RECURSION = """
def deep(n):
    if n:
        deep(n - 1)
    else:
        sum(range(3000000))
deep(20)
"""


@pythons(FEW)
def test_a_line_in_recursion_counts_once_per_stack(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", ["--lines", "__main__:deep"], [source(tmp_path, RECURSION)])
    command = [BUILD / "fathom", "export", "-f", "lines-csv", tmp_path / "t.fathom"]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = [row for row in csv.DictReader(text.splitlines()) if row["file"] == str(tmp_path / "program.py")]
    total = {int(row["line"]): int(row["total_ns"]) for row in rows}
    assert total[6] <= total[4], "the recursive line calls all of it"
    assert total[4] < 2 * total[6], "almost all of the time is in the sum"
