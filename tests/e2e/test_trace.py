# SPDX-License-Identifier: Apache-2.0
"""Traces: every call, counted exactly, on every Python; times that add up; nothing lost without a word."""

import csv
import json
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from capture import BUILD, TARGETS, Python
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
    check_truth(tmp_path / "t.fathom", run.stdout)


KINDS = """
import json, sys
sys.path.insert(0, %r)
import fathom, trace_kinds
if sys.argv[1] == "warm":
    trace_kinds.run(400)
with fathom.Profiler():
    truth = trace_kinds.run(400)
print(json.dumps(truth))
"""


@pythons(FEW)
@pytest.mark.parametrize("when", ["cold", "warm"])
def test_every_kind_of_call_is_counted(python: Python, tmp_path: Path, when: str) -> None:
    """In code that begins, and in code that the interpreter has made its shortcuts for already."""
    run = trace(python, tmp_path / "t.fathom", ["-p"], [source(tmp_path, KINDS % str(TARGETS)), when])
    calls: Dict[str, int] = {}
    for row in rows_of(tmp_path / "t.fathom"):
        if row["file"].endswith("trace_kinds.py"):
            name = row["name"].rpartition(".")[2]
            calls[name] = calls.get(name, 0) + row["calls"]
    truth = json.loads(run.stdout)
    assert {name: calls.get(name) for name in truth} == truth


@pytest.mark.statistical
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
    check_truth(tmp_path / "t.fathom", '{"leaf": 50}')


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
    check_truth(tmp_path / "t.fathom", run.stdout)


@pythons(FEW[-1:])
def test_a_program_that_just_stops_leaves_its_trace(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "ends_abruptly"], status=7)
    check_truth(tmp_path / "t.fathom", run.stdout)


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


DEEP = """
import sys, threading
sys.setrecursionlimit(10 ** 6)
def down(n):
    return n and down(n - 1)
def step(n):
    return n and step(n - 1) + leaf()
def leaf():
    return 0
def walk(n):
    if n:
        yield n
        yield from walk(n - 1)
def fails(n):
    if n == 0:
        raise KeyError
    fails(n - 1)
def more():
    for _ in range(3):
        down(400)
if len(sys.argv) > 1:
    threading.Thread(target=more).start()
sum(walk(100))
down(30000)
step(3000)
try:
    fails(3000)
except KeyError:
    leaf()
more()
"""


@pytest.mark.parametrize("python", [p for p in ALL if p.minor >= 12], ids=str)
@pytest.mark.parametrize("args", [[], ["with a thread"]], ids=["alone", "with a thread"])
def test_deep_recursion_loses_nothing(python: Python, tmp_path: Path, args: List[str]) -> None:
    """From 3.12 on another way of tracing takes over in the middle of the recursion; every call begins and ends once."""
    program = source(tmp_path, DEEP)
    run = trace(python, tmp_path / "t.fathom", [], [program, *args])
    assert "lost" not in run.stderr
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom") if row["file"] == program}
    truth = {"down": 30001 + 3 * 401, "step": 3001, "leaf": 3001, "walk": 101, "fails": 3001, "more": 1}
    truth["down"] += 3 * 401 * len(args)
    truth["more"] += len(args)
    assert {name: rows[name]["calls"] for name in truth} == truth
    in_threads = rows["more"]["total_ns"] if args else 0  # a thread's calls run beside the module's
    assert rows["<module>"]["total_ns"] + in_threads >= rows["down"]["total_ns"], "nothing is left open"
    total = subprocess.run(
        [BUILD / "fathom", "report", tmp_path / "t.fathom"], stdout=subprocess.PIPE, text=True
    ).stdout
    assert "deepest points" not in total


STOPPED = """
import os, signal, subprocess, time
def leaf(): pass
def deep(n):
    for _ in range(200): leaf()
    if n: deep(n - 1)
def work(n):
    for _ in range(n): leaf()
def up():
    work(400000)        # more than fits: the rest is lost, and so is the end of up()
    for _ in range(100): deep(10)
    return again
def again():
    work(1000)
(pid,) = subprocess.run(["pgrep", "-f", "collect-for .* %d " % os.getpid()], stdout=subprocess.PIPE).stdout.split()
work(1000)
os.kill(int(pid), signal.SIGSTOP)
begin = time.monotonic()
function = up()
took = time.monotonic() - begin
os.kill(int(pid), signal.SIGCONT)
time.sleep(0.5)
function()
print(took)
"""


@pythons(FEW[-1:])
def test_what_is_lost_is_counted_and_the_rest_fits(python: Python, tmp_path: Path) -> None:
    """A collector that was stopped: the program goes on, and the stack is right again when it reads on."""
    run = trace(python, tmp_path / "t.fathom", ["--quiet"], [source(tmp_path, STOPPED)])
    assert float(run.stdout) < 20, "it did not wait for a reader that does not read"
    report = json.loads(
        subprocess.run(
            [BUILD / "fathom", "report", "--json", tmp_path / "t.fathom"], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    missing = [entry for entry in report["coverage"] if "events of the trace" in entry["what"]]
    n_lost = int(missing[0]["what"].split()[0])
    rows = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["file"].endswith("program.py")}
    n_calls = 1000 + 400000 + 100 * 11 * 200 + 1000 + 100 * 11 + 3 + 2  # of leaf, deep, work, up and again
    seen = sum(rows[name] for name in ("leaf", "work", "up", "again")) + rows.get("deep", 0)
    # Calls whose beginning was lost but not their end, or the other way round, are at most as deep as the stack.
    assert abs(seen + n_lost / 2 - n_calls) <= 12
    assert rows["again"] == 1 and rows["<module>"] == 1
    stats = {row["name"]: row for row in rows_of(tmp_path / "t.fathom")}
    assert stats["<module>"]["total_ns"] >= 0.5e9, "it is open to the end"
