# SPDX-License-Identifier: Apache-2.0
"""Pythons without a GIL: threads run at the same time, each with bytecode of its own, and what Fathom loads does not switch the GIL on again.

What is no different there, the other tests cover: they take a free-threaded Python where one is found (scripts/get-debian-pythons.sh).
"""

from pathlib import Path
from typing import Any, Dict

import pytest
from capture import ROOT, Capture, Python, find_pythons, record
from guest import FATHOM, clean_env, run
from test_truth import Comparison, knows_collector, line_row
from test_truth import run as run_truth
from tracing import rows_of, source, trace

each_python = True  # conftest: chosen here
FREE = [p for p in find_pythons() if p.kind == "freethreaded"]
N_THREADS = 8

if not FREE:
    pytest.skip("no free-threaded Python here", allow_module_level=True)

free_threaded = pytest.mark.parametrize("python", FREE, ids=str)


@pytest.mark.statistical
@free_threaded
def test_lines_of_one_function_in_many_threads(
    profile: Any, python: Python, tmp_path: Path, record_property: Any
) -> None:
    capture, truth = run_truth(profile, python, tmp_path, "truth_parallel.py", str(N_THREADS), seconds=0.25)
    assert "gil: False" in capture.run.stdout
    got = {name: line_row(capture, "truth_parallel.py", name)["total_s"] for name in truth}
    # How the time is split over lines. What eight threads did after their last samples is missing, more of it on a busy machine.
    share = sum(got.values()) / sum(truth.values())
    assert 0.85 < share < 1.02
    c = Comparison(f"lines in parallel {python}", capture.samples)
    for name, seconds in truth.items():
        c.add(name, seconds * share, got[name])
    c.judge(record_property)
    assert capture.report["failed_unwinds"] == 0
    assert capture.report["time"]["gil_wait_s"] == 0


@free_threaded
def test_the_report_says_it(profile: Any, python: Python, tmp_path: Path) -> None:
    capture = record(tmp_path / "p.fathom", Path(source(tmp_path, "sum(range(10**6))")), python=python)
    said = python.version.rstrip("+") + " free-threaded"
    assert capture.report["python"] == said
    assert [p["python"] for p in capture.report["processes"]] == [said]
    assert said in run([FATHOM, "report", capture.path]).stdout
    # With the GIL on it is the same build.
    env = clean_env({"PYTHON_GIL": "1"})
    done = run([FATHOM, "record", "-o", tmp_path / "g.fathom", "--", python.path, "-c", "sum(range(10**6))"], env=env)
    assert done.returncode == 0
    assert Capture(tmp_path / "g.fathom", done).report["python"] == said


GC = """
import gc, threading
gc.disable()
is_over = False
def python():
    while not is_over:
        for _ in range(1000): pass
def collect():
    for _ in range(100):
        cycles = []
        for i in range(2000):
            cycles.append([])
            cycles[-1].append(cycles[-1])
        del cycles
        gc.collect()
other = threading.Thread(target=python)
other.start()
collect()
is_over = True
other.join()
"""


@pytest.mark.statistical
@free_threaded
def test_only_the_thread_that_collects_is_in_the_collector(python: Python, tmp_path: Path) -> None:
    capture = record(tmp_path / "p.fathom", Path(source(tmp_path, GC)), python=python)
    rows = {f["name"]: f for f in capture.report["functions"] if f["kind"] == "python"}
    assert rows["python"]["gc_s"] == 0 and rows["python"]["python_s"] > 0.02
    if knows_collector(python):
        assert rows["collect"]["gc_s"] > 0.3 * rows["collect"]["total_s"]
    else:
        assert capture.report["time"]["gc_s"] == 0


ALLOCATIONS = """import sys, threading
kept = []
begin = threading.Barrier(8)
def keep():
    mine = []
    begin.wait()
    for _ in range(500):
        mine.append(bytearray(9999))  # line: kept
    for _ in range(3000):
        str(10**30)  # line: gone
    kept.append(mine)
threads = [threading.Thread(target=keep) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(sys.getsizeof(bytearray()), sys.getsizeof(str(10**30)), sys._is_gil_enabled())
"""


@free_threaded
def test_exact_memory_of_many_threads(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, ALLOCATIONS)
    command = [FATHOM, "record", "--memory=exact", "-o", tmp_path / "m.fathom", "--", python.path, program]
    done = run(command)
    bytearray_head, text, gil = done.stdout.split()
    assert gil == "False"
    rows = Capture(tmp_path / "m.fathom", done).report["lines"]
    source_of = dict(enumerate(ALLOCATIONS.splitlines(), 1))
    lines = {source_of[row["line"]].partition("# line: ")[2]: row for row in rows if row["file"] == program}
    # The object and, one byte longer than asked for, what it holds. The list grows at the same line: 2 to 8 bytes for a place.
    made = 8 * 500 * (int(bytearray_head) + 10000)
    assert 0 <= lines["kept"]["alloc_bytes"] - made <= 8 * 500 * 200
    assert lines["kept"]["peak_bytes"] >= made
    # A power of ten and its text, which is gone at once.
    assert lines["gone"]["alloc_bytes"] >= 8 * 3000 * int(text)
    assert lines["gone"]["peak_bytes"] < 8 * 4096


@pytest.mark.statistical
@free_threaded
def test_sampled_memory_of_many_threads(python: Python, tmp_path: Path) -> None:
    """Blocks of a size that is always sampled: nothing is left to chance."""
    program = source(
        tmp_path,
        "import threading\n"
        "kept, begin = [], threading.Barrier(8)\n"
        "def keep():\n"
        "    begin.wait()\n"
        "    for _ in range(10): kept.append(bytearray(999_999))\n"
        "threads = [threading.Thread(target=keep) for _ in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n",
    )
    done = run([FATHOM, "record", "--memory", "-o", tmp_path / "m.fathom", "--", python.path, program])
    assert done.returncode == 0, done.stderr
    lines = Capture(tmp_path / "m.fathom", done).report["lines"]
    (line,) = [row for row in lines if row["file"] == program and row["line"] == 5]
    assert 0 <= line["alloc_bytes"] - 80 * 10**6 <= 10**6  # and small blocks beside them, by estimate
    assert line["peak_bytes"] == pytest.approx(80 * 10**6, rel=0.02)


CALLS = """
import sys, threading
def leaf(i): return i
def branch(n):
    for i in range(n): leaf(i)
def numbers(n):
    for i in range(n): yield leaf(i)
class Point:
    def __init__(self, x): self.x = x
def fails():
    raise KeyError
def run(begin):
    begin.wait()
    for _ in range(300):
        branch(20)
        for _ in numbers(5): pass
        Point(1)
        try: fails()
        except KeyError: pass
def main():
    begin = threading.Barrier(8)
    threads = [threading.Thread(target=run, args=(begin,)) for _ in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
if __name__ == "__main__":
    main()
    print(sys._is_gil_enabled())
"""
TRUTH = {"run": 8, "branch": 2400, "numbers": 2400, "Point.__init__": 2400, "fails": 2400, "leaf": 60000}


def counts(profile: Path, program: str) -> Dict[str, int]:
    return {row["name"]: row["calls"] for row in rows_of(profile) if row["file"] == program and row["name"] in TRUTH}


@free_threaded
def test_calls_of_many_threads_are_counted_exactly(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, CALLS)
    done = trace(python, tmp_path / "t.fathom", [], [program])
    assert done.stdout.strip() == "False", "the GIL was switched on"
    assert "lost" not in done.stderr
    assert counts(tmp_path / "t.fathom", program) == TRUTH
    done = trace(python, tmp_path / "c.fathom", ["--calls", "c"], [program])
    rows = {row["name"]: row["calls"] for row in rows_of(tmp_path / "c.fathom")}
    assert rows["leaf"] == TRUTH["leaf"] and rows["Thread.start"] == 8


@free_threaded
def test_calls_under_run(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, CALLS)
    done = run([FATHOM, "record", "--trace", "-o", tmp_path / "t.fathom", "--", python.path, program])
    assert done.stdout.strip() == "False"
    assert counts(tmp_path / "t.fathom", program) == TRUTH


ZONES = """
import sys, threading, fathom
assert not sys._is_gil_enabled(), "by the import"
stop = threading.Event()
def zones():
    n = 0
    while not stop.is_set():
        with fathom.zone("inner%d" % (n % 50)):
            fathom.counter("n", n)
        n += 1
def exactly(begin):
    begin.wait()
    for i in range(2000):
        with fathom.zone("outer"), fathom.zone("once"): pass
others = [threading.Thread(target=zones) for _ in range(3)]
for t in others: t.start()
for turn in range(4):  # captures come and go while the others write
    profiler = fathom.Profiler(sys.argv[1] + "/%d.fathom" % turn)
    with profiler:
        begin = threading.Barrier(8)
        threads = [threading.Thread(target=exactly, args=(begin,)) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
    profiler.close()
stop.set()
for t in others: t.join()
print(sys._is_gil_enabled())
"""


@free_threaded
def test_zones_of_many_threads_while_captures_come_and_go(python: Python, tmp_path: Path) -> None:
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    done = run([python.path, source(tmp_path, ZONES), tmp_path], env=env)
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
    for turn in range(4):
        rows = rows_of(tmp_path / ("%d.fathom" % turn))
        zones = {row["name"]: row["calls"] for row in rows if row["kind"] == "zone"}
        assert zones["outer"] == zones["once"] == 16000
        exactly = [row["calls"] for row in rows if row["name"] == "exactly"]
        assert exactly == [8]
