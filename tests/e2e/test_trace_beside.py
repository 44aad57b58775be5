# SPDX-License-Identifier: Apache-2.0
"""Traces beside other tools that hook into the interpreter: debuggers, coverage and cProfile by its trace and profile functions, and
compilers as torch's by its frame evaluation (PEP 523)."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from capture import BUILD, ROOT, TARGETS, Python
from tracing import FEW, pythons, rows_of, source, trace

each_python = True  # tests name their Pythons themselves
WITH_HOOK: List[Python] = [p for p in FEW if 9 <= p.minor <= 13 and p.kind == "release"]

TOOLS = """
import cProfile, pstats, sys
def leaf(text): return len(text)
def work():
    for _ in range(100): leaf("abc")
work()
other = cProfile.Profile()
other.enable(); work(); other.disable()
work()
seen = []
def tracer(frame, event, arg):
    seen.append((event, frame.f_code.co_name))
    return tracer
sys.settrace(tracer); work(); is_tracer = sys.gettrace() is tracer; sys.settrace(None)
work()
def watcher(frame, event, arg): seen.append(("profile " + event, frame.f_code.co_name))
sys.setprofile(watcher); work(); is_watcher = sys.getprofile() is watcher; sys.setprofile(None)
work()
counted = {key[2]: value[1] for key, value in pstats.Stats(other).stats.items()}
print(counted["leaf"], counted["<built-in method builtins.len>"], is_tracer, is_watcher)
print([seen.count((event, "leaf")) for event in ("call", "line", "return", "profile call", "profile c_call")])
"""


@pythons([p for p in FEW if p.minor in (8, 11) or p is FEW[-1]])
@pytest.mark.parametrize("options", [["--calls", "c", "-l"], ["--lines", "__main__:leaf"]], ids=str)
def test_neither_blinds_the_other(python: Python, options: List[str], tmp_path: Path) -> None:
    """Lines and C calls come by functions of which a thread has one each, up to 3.11. Other tools come and go, and all see all."""
    run = trace(python, tmp_path / "t.fathom", options, [source(tmp_path, TOOLS)])
    assert run.stdout == "100 100 True True\n[100, 100, 100, 100, 100]\n"
    calls: Dict[str, int] = {}
    for row in rows_of(tmp_path / "t.fathom"):
        calls[row["name"]] = calls.get(row["name"], 0) + row["calls"]
    assert calls["leaf"] == 700 and calls["work"] == 7
    assert "-l" not in options or calls["builtins.len"] >= 700  # some are the tools' own
    text = subprocess.run(
        [BUILD / "fathom", "export", "-f", "lines-csv", tmp_path / "t.fathom"], stdout=subprocess.PIPE, text=True
    ).stdout
    assert [line.split(",")[3] for line in text.splitlines() if ',"leaf",' in line] == ["700"]


PROGRAM = """
import ctypes, json, sys, fathom
tool = ctypes.PyDLL("./eval_hook.so")
profiler = fathom.Profiler("t.fathom")
def leaf(): pass
def numbers():
    yield leaf()
def work(n):
    for _ in range(n): leaf()
    return list(numbers())
def deep(n):
    return n and deep(n - 1)
sys.setrecursionlimit(100000)
steps = {
    "+": tool.shim_on,
    "-": tool.shim_off,
    "(": profiler.enable,
    ")": profiler.disable,
    "w": lambda: work(10),
    "x": lambda: work(1000),    # outside of the trace
    "d": lambda: deep(60000),
}
for step in sys.argv[1]:
    steps[step]()
work(1000)
profiler.close()
print(ctypes.c_long.in_dll(tool, "n_frames").value)
"""

# What happens, and how often work(10) is traced.
ORDERS = {
    "(w+w-w)x": 3,  # the tool comes and goes within a trace
    "+(w-w)x": 2,  # it was there first
    "+(w-w+w)x-x": 3,  # and comes back: on top of the trace that stands over it
    "+(w-w+w)x(w)-x(w)": 5,
    "(w+w)x(w)x-x(w)x": 4,  # it stays over a trace that ended
    "(w+w)x-(w+w)x-x": 4,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("eval") / "eval_hook.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, TARGETS / "eval_hook.c"], check=True)
    return path


@pytest.mark.parametrize("python", WITH_HOOK, ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_beside_another_evaluator(python: Python, order: str, library: Path, tmp_path: Path) -> None:
    shutil.copy(library, tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [python.path, source(tmp_path, PROGRAM), order]
    run = subprocess.run(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 10, "the tool's hook is called, too"
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["file"].endswith("program.py")}
    assert calls["work"] == ORDERS[order] and calls["leaf"] == 11 * ORDERS[order]
    assert calls["numbers"] == ORDERS[order]


@pytest.mark.parametrize("python", [p for p in WITH_HOOK if p.minor >= 11], ids=str)
@pytest.mark.parametrize("order", ["(w+w)-d", "(w+w-w)d", "(w+w)-(w)d"])
def test_no_hook_is_left_that_takes_the_stack(python: Python, order: str, library: Path, tmp_path: Path) -> None:
    """A tool that stood over ours when the trace ended puts ours back when it goes. With it the recursion would take C stack."""
    shutil.copy(library, tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [python.path, source(tmp_path, PROGRAM), order]
    run = subprocess.run(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 0, run.stderr
