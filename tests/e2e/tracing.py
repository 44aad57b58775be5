# SPDX-License-Identifier: Apache-2.0
"""Runs programs with every call traced, and reads what was written."""

import csv
import json
import os
import pstats
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, ROOT, TARGETS, Python, find_pythons
from hurt import check_end

TRUTH = TARGETS / "trace_truth.py"
LONG = bool(os.environ.get("FATHOM_TEST_LONG"))


def traceable() -> List[Python]:
    """The oldest release first, the newest last. Debug builds are like their releases."""
    found = find_pythons()
    releases, free_threaded = ([p for p in found if p.kind == kind] for kind in ("release", "freethreaded"))
    return releases[:-1] + free_threaded + releases[-1:]


ALL = traceable()
# One of each way to trace: the hook's three forms, and sys.monitoring, with and without a GIL.
FEW = [p for p in ALL if p.minor in (8, 10, 11, 12) or p.kind == "freethreaded" or p is ALL[-1]]


def pythons(wanted: List[Python]) -> Any:
    return pytest.mark.parametrize("python", ALL if LONG else wanted, ids=str)


def trace(
    python: Python, output: Path, options: List[str], target: List[str], status: int = 0, **popen: Any
) -> "subprocess.CompletedProcess[str]":
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONPATH"] = str(ROOT / "python")
    command = [python.path, "-m", "fathom", "-o", str(output), *options, *target]
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, timeout=300, **popen
    )
    if run.returncode != status:
        check_end(run)
    assert run.returncode == status, run.stdout + run.stderr
    return run


def rows_of(profile: Path) -> List[Dict[str, Any]]:
    """One per function; numbers as integers."""
    text = subprocess.run(
        [BUILD / "fathom", "export", "-f", "csv", profile], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    rows = list(csv.DictReader(text.splitlines()))
    return [{k: v if k in ("name", "file", "kind") else int(v) for k, v in row.items()} for row in rows]


def calls_of(profile: Path, kind: str = "python") -> Dict[str, int]:
    """By name."""
    calls: Dict[str, int] = {}
    for row in rows_of(profile):
        if row["kind"] == kind and (kind != "python" or row["file"] == str(TRUTH)):
            calls[row["name"]] = calls.get(row["name"], 0) + row["calls"]
    return calls


def check_truth(profile: Path, printed: str) -> None:
    truth = json.loads(printed)
    calls = calls_of(profile)
    calls = {name.rpartition("<locals>.")[2]: n for name, n in calls.items()}
    assert {name: calls.get(name) for name in truth} == truth


def source(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(text)
    return str(path)


def install_plugin(folder: Path) -> Path:
    """The pytest plugin's entry point as the wheel installs it, below a folder for PYTHONPATH."""
    info = folder / "fathom_profiler-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fathom\nVersion: 0.1.0\n")
    text = (ROOT / "pyproject.toml").read_text()
    (line,) = re.findall(r'^\[project.entry-points.pytest11\]\nfathom = "(.*)"', text, re.MULTILINE)
    (info / "entry_points.txt").write_text("[pytest11]\nfathom = %s\n" % line)
    return folder


# A conftest.py that runs coroutines, as plugins for them do.
RUNS_COROUTINES = """
import asyncio, inspect, pytest
@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj())
        return True
"""


def stats_of(path: Path) -> Dict[Any, Any]:
    stats: Dict[Any, Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    return stats


def called_from(stats: Dict[Any, Any], caller: str, kind: str = "built-in method") -> Dict[str, int]:
    """By callee, the calls that one function of the target made."""
    found = {}
    for (file, _, name), (_, _, _, _, callers) in stats.items():
        for (caller_file, _, caller_name), (n, *_) in callers.items():
            if caller_file == str(TRUTH) and caller_name == caller:
                found[name if file != "~" else name[len(kind) + 2 : -1]] = n
    return found


ZONES = """
import threading, fathom
def region(n):
    for i in range(n):
        with fathom.zone("load"):
            with fathom.zone("parse"):
                pass
        fathom.counter("rows", i * 2.5)
    fathom.mark("done")
@fathom.zone("whole")
def run():
    region(10)
    threads = [threading.Thread(target=region, args=(5,)) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    try:
        with fathom.zone("fails"):
            raise KeyError
    except KeyError:
        pass
run()
print(run.__name__)
"""
