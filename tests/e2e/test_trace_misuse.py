# SPDX-License-Identifier: Apache-2.0
"""Profilers used wrongly, or in programs that get in their way: one clear word at most, no harm, and numbers that are still right."""

import os
import subprocess
from pathlib import Path
from typing import List

import pytest
from capture import ROOT, Python
from tracing import FEW, pythons, rows_of, source, trace

each_python = True  # tests name their Pythons themselves


def run_alone(python: Python, tmp_path: Path, program: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        [python.path, source(tmp_path, program)],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


FORKS = """
import os, sys, fathom
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
profiler = fathom.Profiler()
profiler.enable()
work(10)
pid = os.fork()
if pid == 0:
    work(100)
    profiler.disable()
    work(1000)          # not traced
    with profiler:
        work(200)
    sys.exit(3)         # with its exit handlers, one of which is ours
assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 3
work(20)
profiler.disable()
work(1000)
print(profiler.close())
"""


@pythons(FEW)
def test_a_fork_between_enable_and_disable(python: Python, tmp_path: Path) -> None:
    run = run_alone(python, tmp_path, FORKS)
    assert (run.returncode, run.stdout, run.stderr) == (0, "trace.fathom\n", "")
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "trace.fathom")}
    assert calls["leaf"] == 10 + 100 + 200 + 20


FORKS_BY_ITSELF = """
import ctypes, os
from fathom import zone
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
def fork():
    with zone("fork"):
        number = {"x86_64": (57,), "aarch64": (220, 17, 0, 0, 0, 0)}[os.uname().machine]  # fork, or clone
        return ctypes.CDLL(None).syscall(*number)
work(10)
pid = fork()
if pid == 0:
    work(100)
    with zone("in the child"): len("")
    os._exit(3)
print(os.waitpid(pid, 0)[1] == 3 << 8)
work(20)
"""


@pythons(FEW)
@pytest.mark.parametrize("options", [[], ["--calls", "c"]])
def test_a_child_that_nobody_is_told_of(python: Python, tmp_path: Path, options: List[str]) -> None:
    """Forked past the C library: it cannot be followed, and must live all the same."""
    run = trace(python, tmp_path / "t.fathom", ["--quiet", *options], [source(tmp_path, FORKS_BY_ITSELF)])
    assert run.stdout == "True\n"
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom")}
    assert calls["leaf"] == 10 + 20


THREADS = """
import threading, warnings, fathom
warnings.simplefilter("error")
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
profiler = fathom.Profiler()
def elsewhere(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
elsewhere(profiler.enable)
work(10)
elsewhere(lambda: work(20))
try:
    elsewhere(profiler.enable)
finally:
    profiler.disable()
work(1000)
try:
    profiler.disable()
except RuntimeWarning as warning:
    print(warning)
def closes():
    profiler.enable()
    profiler.close()    # enabled as it is
    work(1000)
closes()
try:
    profiler.disable()
except RuntimeWarning as warning:
    print(warning)
print(fathom.Profiler().close())
"""


@pythons(FEW[-1:])
def test_enabled_here_and_disabled_there(python: Python, tmp_path: Path) -> None:
    run = run_alone(python, tmp_path, THREADS)
    assert run.returncode == 0, run.stderr
    assert "is enabled already" in run.stderr, "raised in the thread that asked twice"
    assert run.stdout.splitlines() == ["this Profiler is not enabled; disable() does nothing"] * 2 + ["None"]


REFUSES = """
import sys
def refuse(event, args):
    if event.startswith(("sys.set", "sys.monitoring")):
        raise PermissionError(event)
def leaf(): pass
def numbers():
    try:
        while True:
            leaf()
            yield 1
    except KeyError:
        leaf()
        raise
def work():
    for _ in range(100): leaf()
    generator = numbers()
    next(generator)
    try:
        generator.throw(KeyError("thrown"))
    except KeyError as error:
        print(error)
work()
sys.addaudithook(refuse)
work()
"""


@pythons(FEW)
@pytest.mark.parametrize("options", [["-l"], ["--calls", "c"], ["--lines", "__main__:numbers"], []], ids=str)
def test_a_program_that_refuses_hooks_goes_on(python: Python, tmp_path: Path, options: List[str]) -> None:
    """Its audit hook raises where ours are set; neither that nor exceptions of its own are mixed up."""
    run = trace(python, tmp_path / "t.fathom", ["--quiet", *options], [source(tmp_path, REFUSES)])
    assert run.stdout == "'thrown'\n'thrown'\n"
    assert "SystemError" not in run.stderr
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["file"].endswith("program.py")}
    assert calls["leaf"] == 204 and calls["numbers"] == 2 and calls["work"] == 2


REFUSED = """
import sys, fathom
def refuse(event, args):
    if event.startswith("sys.monitoring"):
        raise PermissionError(event)
sys.addaudithook(refuse)
profiler = fathom.Profiler(lines=True)
try:
    profiler.enable()
except RuntimeError as error:
    print(error)
def leaf(): pass
leaf()
profiler.close()
"""


@pytest.mark.parametrize("python", [p for p in FEW if p.minor >= 12][-1:], ids=str)
def test_a_trace_that_cannot_begin_says_so(python: Python, tmp_path: Path) -> None:
    run = run_alone(python, tmp_path, REFUSED)
    assert run.returncode == 0, run.stderr
    assert "sys.monitoring" in run.stdout and len(run.stdout.splitlines()) == 1
