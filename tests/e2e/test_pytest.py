# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: what its fixtures and --fathom profile, and that the rest of a test run is as without it."""

import csv
import json
import os
import pstats
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, ROOT
from tracing import RUNS_COROUTINES, install_plugin

TESTS = """
import os, pytest

def step(i): return i

def work(n):
    for i in range(n): step(i)

@pytest.fixture
def prepared():
    work(500)
    yield
    work(500)

def test_block(profiled, prepared):
    work(100)
    with profiled():
        work(7)
    with profiled():
        with profiled():
            work(5)
    work(100)

def test_whole(tracy_profile, prepared):
    work(40)

def test_other(prepared):
    work(1000)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with tests, and the plugin's entry point as the wheel installs it."""
    install_plugin(tmp_path / "site")
    (tmp_path / "test_x.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *arguments: str, status: int = 0) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PY")}
    env["PYTHONPATH"] = "%s:%s" % (project / "site", ROOT / "python")
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def calls_of(profile: Path) -> Dict[str, int]:
    command = [str(BUILD / "fathom"), "export", "-f", "csv", str(profile)]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return {row["name"]: int(row["calls"]) for row in csv.DictReader(text.splitlines())}


def stats_of(path: Path) -> Dict[Any, Any]:
    stats: Dict[Any, Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    return stats


def profiles(project: Path) -> List[str]:
    return sorted(path.name for path in (project / ".profiles").glob("*.prof"))


def test_fixtures_profile_what_they_are_put_around(project: Path) -> None:
    out = run(project, "-m", "pytest", "-q", "test_x.py")
    assert "3 passed" in out and "fathom" not in out
    folder = project / ".profiles"
    assert profiles(project) == ["test_block.prof", "test_whole.prof"]
    assert calls_of(folder / "test_block.fathom") == {"step": 12, "work": 2}, "nothing of pytest, nothing of ours"
    assert calls_of(folder / "test_whole.fathom") == {"step": 40, "work": 1, "test_whole": 1}
    counted = {key[2]: value[1] for key, value in stats_of(folder / "test_block.prof").items()}
    assert counted["step"] == 12 and counted["work"] == 2
    for path in folder.glob("*.prof"):
        assert "step" in run(project, "-m", "gprof2dot", "-f", "pstats", str(path), "-n", "0", "-e", "0")


@pytest.mark.parametrize("options", [[], ["-p"], ["-p", "-l"]], ids=str)
def test_commands_that_users_know(project: Path, options: List[str]) -> None:
    """python -m fathom -p -l -m pytest path::test, as the module of another profiler is used."""
    out = run(project, "-m", "fathom", *options, "-m", "pytest", "test_x.py::test_whole")
    assert "1 passed" in out
    calls = calls_of(project / "pytest.fathom")
    assert not (project / ".profiles").exists(), "the calls are in the profile that was asked for"
    if options:
        assert calls == {"step": 40, "work": 1, "test_whole": 1}
    else:
        assert calls["step"] == 1040 and calls["test_whole"] == 1 and calls["pytest_pyfunc_call"] == 1
    if "-l" in options:
        command = [str(BUILD / "fathom"), "export", "-f", "lines-csv", str(project / "pytest.fathom")]
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        reached = {int(row["line"]): int(row["hits"]) for row in csv.DictReader(text.splitlines())}
        assert reached[TESTS.splitlines().index("def step(i): return i") + 1] == 40


MANY = """
import pytest, time, unittest

def step(i): return i

@pytest.mark.parametrize("text", ["a/b", "a b", "../up", "x" * 300, "[*]"])
def test_names(text):
    for i in range(3): step(i)

def test_slow():
    time.sleep(0.2)

def test_wrong():
    assert step(1) == 2

@pytest.mark.skip
def test_skipped(): pass

class TestOld(unittest.TestCase):
    def test_method(self):
        self.assertEqual(step(3), 3)
"""


def test_every_test_is_profiled_and_the_slowest_are_listed(project: Path) -> None:
    (project / "test_x.py").write_text(MANY)
    (project / "test_y.py").write_text("def test_slow(): pass\n")
    out = run(project, "-m", "pytest", "-q", "--fathom-each", status=1)
    assert "1 failed, 8 passed, 1 skipped" in out
    names = profiles(project)
    assert len(names) == 9, names
    assert all(re.fullmatch(r"[\w.=+,-]{1,200}", name) for name in names)
    assert len([name for name in names if "test_names-a-b-" in name]) == 2, "they would have had the same name"
    assert len([name for name in names if "test_slow" in name]) == 2
    for name in names:
        if "test_names" in name:
            assert calls_of(project / ".profiles" / name.replace(".prof", ".fathom")) == {"test_names": 1, "step": 3}
    method = calls_of(project / ".profiles" / "test_method.fathom")
    assert method["step"] == 1 and not [name for name in method if name.startswith(("pytest_", "_multicall"))]
    rows = out[out.index("slowest tests") :].splitlines()
    assert rows[2].endswith("test_x.py::test_slow") and rows[2].split()[2] == "new"
    assert float(rows[2].split()[0]) >= 200
    assert [row for row in rows if row.endswith("::test_wrong") and " failed " in row]

    (project / "test_x.py").write_text(MANY.replace("0.2", "0.6"))
    out = run(project, "-m", "pytest", "-q", "--fathom-each", "test_x.py::test_slow")
    change = re.search(r"([+-]\d+) %  test_x.py::test_slow", out)
    assert change and 100 < int(change[1]) < 300, out
    kept = json.loads((project / ".profiles" / "last-run.json").read_text())["seconds"]
    assert len(kept) == 8 and "test_x.py::test_wrong" not in kept


def test_tests_in_several_processes(project: Path) -> None:
    pytest.importorskip("xdist")
    (project / "test_x.py").write_text(MANY)
    out = run(project, "-m", "pytest", "-q", "-n", "2", "--fathom-each", status=1)
    assert "1 failed, 7 passed, 1 skipped" in out
    assert len(profiles(project)) == 8 and "8 profiles in .profiles" in out
    assert calls_of(project / ".profiles" / "test_slow.fathom") == {"test_slow": 1}, "nothing of the worker's"
    assert "new  test_x.py::test_slow" in out


def zones_of(profile: Path) -> Dict[str, int]:
    """How often each zone was entered."""
    command = [str(BUILD / "fathom"), "export", "-f", "chrometrace", str(profile)]
    events = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    counted: Dict[str, int] = {}
    for event in events if isinstance(events, list) else events["traceEvents"]:
        if event["ph"] in ("B", "X"):
            counted[event["name"]] = counted.get(event["name"], 0) + 1
    return counted


@pytest.mark.parametrize("workers", [0, 2])
def test_all_tests_share_one_capture(project: Path, workers: int) -> None:
    if workers:
        pytest.importorskip("xdist")
    (project / "test_x.py").write_text(MANY)
    out = run(project, "-m", "pytest", "-q", "--fathom", *(["-n", str(workers)] if workers else []), status=1)
    assert "1 failed, 7 passed, 1 skipped" in out
    files = sorted(path.name for path in (project / ".profiles").glob("*.fathom"))
    expected = ["tests-gw%d.fathom" % i for i in range(workers)] if workers else ["tests.fathom"]
    assert files == expected and re.search(r"^8 tests in \.profiles/tests", out, re.M), out
    counts: Dict[str, int] = {}
    zones: Dict[str, int] = {}
    for name in files:
        for function, n in calls_of(project / ".profiles" / name).items():
            counts[function] = counts.get(function, 0) + n
        zones.update(zones_of(project / ".profiles" / name))
    assert counts["test_names"] == 5 and counts["step"] == 5 * 3 + 2 and counts["test_slow"] == 1
    assert not [name for name in counts if name.startswith(("pytest_", "_multicall"))], "nothing of pytest"
    assert zones["test_x.py::test_slow"] == 1 and zones["test_x.py::test_names[a/b]"] == 1, zones
    assert "new  test_x.py::test_slow" in out


def test_a_capture_that_a_test_ends_keeps_its_tests(project: Path) -> None:
    (project / "test_x.py").write_text(
        "from fathom import Profiler\n"
        "def before(): pass\ndef after(): pass\n"
        "def test_1(): before()\ndef test_2(): Profiler().close()\ndef test_3(): after()\n"
    )
    assert "3 passed" in run(project, "-m", "pytest", "-q", "-W", "error", "--fathom", "test_x.py")
    assert calls_of(project / ".profiles" / "tests.fathom")["before"] == 1
    assert calls_of(project / ".profiles" / "tests-2.fathom")["after"] == 1


def test_many_small_tests_cost_little(project: Path) -> None:
    """One file, and at most 10 ms of CPU time for each test beyond what it takes alone; a capture for each took 44 ms."""
    import resource

    (project / "test_x.py").write_text(
        "import pytest\n@pytest.mark.parametrize('i', range(150))\ndef test(i): sum(range(100))\n"
    )
    took = []
    for options in ([], ["--fathom"]):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "150 passed" in run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert took[1] - took[0] <= 150 * 0.010, took
    files = list((project / ".profiles").glob("*.fathom"))
    assert [path.name for path in files] == ["tests.fathom"] and files[0].stat().st_size < 150 * 10_000


def test_bad_use_is_harmless(project: Path) -> None:
    (project / "test_x.py").write_text(
        "from fathom import Profiler\n"
        "def test_raises(profiled):\n    with profiled():\n        raise ValueError('its own')\n"
        "def test_never_entered(profiled): pass\n"
        "def test_ends_the_capture(profiled):\n    with profiled():\n        Profiler().close()\n"
        "def test_after(profiled):\n    with profiled():\n        len('')\n"
    )
    out = run(project, "-m", "pytest", "-q", "-W", "error", "test_x.py", status=1)
    assert "1 failed, 3 passed" in out and "its own" in out
    assert "test_never_entered.prof" not in profiles(project) and "test_after.prof" in profiles(project)


def test_a_run_that_is_profiled_as_a_whole_says_so(project: Path) -> None:
    out = run(project, "-m", "fathom", "-p", "--quiet", "-m", "pytest", "-q", "--fathom", "test_x.py::test_other")
    assert "1 passed" in out and "profiled as a whole" in out
    assert calls_of(project / "pytest.fathom") == {"test_other": 1, "work": 1, "step": 1000}
    assert profiles(project) == []


ASYNC = """
import asyncio
async def step(): pass
async def test_async():
    for _ in range(6): await step()
def test_doc():
    \"\"\"
    >>> asyncio.run(test_async())
    \"\"\"
"""


def test_other_kinds_of_tests(project: Path) -> None:
    """A doctest, which is no function; and coroutines, run by a plugin."""
    (project / "test_x.py").write_text(ASYNC)
    (project / "conftest.py").write_text(RUNS_COROUTINES)
    out = run(project, "-m", "pytest", "-q", "--fathom-each", "--doctest-modules", "test_x.py")
    assert "3 passed" in out
    assert calls_of(project / ".profiles" / "test_async.fathom")["step"] == 6
    (doctest,) = [name for name in profiles(project) if "test_x" in name]
    assert calls_of(project / ".profiles" / doctest.replace(".prof", ".fathom"))["step"] == 6


def test_what_cannot_be_profiled_is_said_once(project: Path) -> None:
    (project / ".profiles").write_text("a file where the folder should be")
    out = run(project, "-m", "pytest", "-q", "--fathom", "-W", "error", "test_x.py")
    assert "3 passed" in out and out.count("3 tests not profiled") == 1


def test_nothing_is_loaded_when_nobody_asks(project: Path) -> None:
    (project / "test_x.py").write_text(
        "import sys\n"
        "def test(): assert not [m for m in sys.modules if m.startswith('fathom.') and m != 'fathom.pytest_plugin']\n"
    )
    assert "1 passed" in run(project, "-m", "pytest", "-q", "test_x.py")
