"""Traces: every call, counted exactly, on every Python; times that add up; nothing lost without a word."""

import csv
import json
import subprocess
from pathlib import Path

import pytest
from capture import BUILD, Python
from tracing import (
    ALL,
    FEW,
    TRUTH,
    called_from,
    check_truth,
    pythons,
    rows_of,
    source,
    stats_of,
    trace,
)

each_python = True  # tests name their Pythons themselves


@pythons(FEW)
@pytest.mark.parametrize(
    "what", ["recursion", "generators", "coroutines", "exceptions", "threads", "methods", "volume"]
)
def test_counts_are_exact(python: Python, tmp_path: Path, what: str) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), what])
    assert "lost" not in run.stderr
    check_truth(python, tmp_path / "t.fathom", run.stdout)


@pythons(FEW)
def test_own_times_add_up_to_the_wall_time(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "times"])
    wall_ns = json.loads(run.stdout)["wall_s"] * 1e9
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom") if row["file"] == str(TRUTH)}
    assert rows["times"]["total_ns"] == pytest.approx(wall_ns, rel=0.01)
    inside = sum(rows[name]["own_ns"] for name in ("times", "outer", "inner", "busy"))
    assert inside == pytest.approx(wall_ns, rel=0.01)
    # inner() is at least its 0.2 s of work and its 0.1 s of sleep, outer() 0.1 s more. Own and total differ by what is called.
    assert rows["inner"]["total_ns"] >= 0.3e9 and rows["outer"]["total_ns"] >= rows["inner"]["total_ns"] + 0.1e9
    assert rows["times"]["total_ns"] == rows["times"]["own_ns"] + rows["outer"]["total_ns"]
    assert rows["busy"]["calls"] == 2 and rows["busy"]["min_ns"] >= 0.1e9 and rows["busy"]["max_ns"] >= 0.2e9


@pythons(FEW)
def test_c_functions_are_called_by_their_own_names(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.prof", ["--calls", "c"], [str(TRUTH), "c_calls"])
    calls = called_from(stats_of(tmp_path / "t.prof"), "c_calls")
    assert calls["list.append"] == 300
    assert calls["_operator.index"] == 21
    assert calls["str.split"] == 1
    assert calls["builtins.isinstance"] == 20
    assert calls["builtins.len"] == 300


@pythons(FEW)
def test_lines_are_counted(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", ["-l"], [str(TRUTH), "lines"])
    text = subprocess.run(
        [BUILD / "fathom", "export", "-f", "lines-csv", tmp_path / "t.fathom"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    source = TRUTH.read_text().splitlines()
    hits = {
        source[int(row["line"]) - 1].split("#")[0].strip(): int(row["hits"])
        for row in csv.DictReader(text.splitlines())
        if row["file"] == str(TRUTH) and row["function"] == "lines"
    }
    assert hits["total += i"] == 200
    assert hits["leaf(i)"] == 50
    assert hits["if i % 4 == 0:"] == 200
    assert hits["for i in range(200):"] in (200, 201)  # versions differ in whether its end is a visit
    check_truth(python, tmp_path / "t.fathom", '{"leaf": 50}')


@pythons(FEW[-1:])
def test_short_threads_lose_nothing(python: Python, tmp_path: Path) -> None:
    """A thread may begin and end between two looks of the collector."""
    program = source(
        tmp_path,
        "import threading\n"
        "def leaf(): pass\n"
        "for _ in range(40):\n"
        "    threads = [threading.Thread(target=leaf) for _ in range(10)]\n"
        "    [t.start() for t in threads]\n"
        "    [t.join() for t in threads]\n",
    )
    trace(python, tmp_path / "t.fathom", [], [program])
    assert [row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["name"] == "leaf"] == [400]


@pythons(FEW)
def test_forked_children_are_traced(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "forks"])
    check_truth(python, tmp_path / "t.fathom", run.stdout)


@pythons(FEW[-1:])
def test_a_program_that_just_stops_leaves_its_trace(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "ends_abruptly"], status=7)
    check_truth(python, tmp_path / "t.fathom", run.stdout)


RECURSION = """
import sys
def down(n):
    global deepest
    deepest = n
    down(n + 1)
if len(sys.argv) > 1:
    sys.setrecursionlimit(int(sys.argv[1]))
try:
    down(0)
except RecursionError as error:
    print(deepest, error)
def again(n):
    return n and again(n - 1)
again(300)
"""


@pythons(FEW)
def test_recursion_ends_where_it_does_without_us(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, RECURSION)
    bare = subprocess.run([python.path, program], stdout=subprocess.PIPE, check=True, text=True).stdout
    traced = trace(python, tmp_path / "t.fathom", [], [program]).stdout
    bare_depth, traced_depth = int(bare.split()[0]), int(traced.split()[0])
    # The frames of `python -m fathom` itself are on the stack, as those of cProfile would be.
    assert bare_depth - 25 <= traced_depth <= bare_depth
    assert bare.split()[1:] == traced.split()[1:]


@pytest.mark.parametrize("python", [p for p in ALL if p.minor == 11], ids=str)
def test_deep_recursion_does_not_use_up_the_c_stack(python: Python, tmp_path: Path) -> None:
    # 3.11 recurses without C stack, and with a hook it does not: 200,000 calls would need some 100 MB of it.
    run = trace(python, tmp_path / "t.fathom", [], [source(tmp_path, RECURSION), "200000"])
    assert int(run.stdout.split()[0]) > 199000
    report = subprocess.run(
        [BUILD / "fathom", "report", tmp_path / "t.fathom"], stdout=subprocess.PIPE, text=True
    ).stdout
    assert "deepest points" in report
