# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin's marks limit_memory, limit_leaks and limit_time: what they let pass, what they fail, and what a failure shows."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest
from capture import BUILD, ROOT
from guest import clean_env
from tracing import RUNS_COROUTINES, install_plugin

MB = 1 << 20


def run_tests(folder: Path, source: str, *options: str, status: int = 0) -> str:
    if not (folder / "site").exists():
        install_plugin(folder / "site")
    (folder / "test_x.py").write_text(source)
    env = clean_env({"PYTHONPATH": "%s:%s" % (folder / "site", ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"})
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", *options, "test_x.py"]
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100
    )
    assert done.returncode == status, done.stdout
    return done.stdout


# Blocks of a known size, filled, so that none of it is memory that was never used.
MANY = """
import pytest, time, unittest
KEPT = []

def hold(n):
    block = b"x" * n
    return len(block)

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(20000))

@pytest.mark.limit_memory("24 MB")
def test_below(): hold(23 << 20)

@pytest.mark.limit_memory("24 MB")
def test_above(): hold(25 << 20)

@pytest.fixture
def large(): return b"y" * (40 << 20)

@pytest.mark.limit_memory("1MB")
def test_fixtures_are_not_the_tests(large): hold(1000)

@pytest.mark.limit_memory("10 MB")
def test_one_after_the_other():
    for i in range(8): hold(5 << 20)

@pytest.mark.limit_leaks("1 MB")
def test_leak():
    KEPT.append(b"x" * (2 << 20))
    KEPT.append(b"z" * (512 << 10))

@pytest.mark.limit_leaks("1 MB")
def test_small_leaks():
    KEPT.append(b"x" * (700 << 10))
    KEPT.append(b"z" * (700 << 10))

@pytest.mark.limit_leaks("1 MB")
def test_cycle():
    ring = [b"x" * (3 << 20)]
    ring.append(ring)

FILLED = []

@pytest.mark.limit_leaks(location_limit="1 MB", warmups=1)
def test_cache():
    if not FILLED: FILLED.append(b"x" * (4 << 20))

@pytest.mark.limit_time("60 ms", clock="cpu")
def test_slow(): burn(0.1)

@pytest.mark.limit_time(limit="5 s")
def test_fast(): burn(0.01)

@pytest.mark.limit_memory("1 MB")
def test_wrong():
    hold(2 << 20)
    assert hold(1) == 2

class TestOld(unittest.TestCase):
    @pytest.mark.limit_memory("1 MB")
    def test_method(self):
        hold(2 << 20)
"""
FAIL = ["test_above", "test_leak", "test_slow", "test_wrong", "test_method"]


@pytest.fixture(scope="module")
def many(tmp_path_factory: Any) -> Tuple[Path, str]:
    folder = tmp_path_factory.mktemp("limits")
    return folder, run_tests(folder, MANY, status=1)


def failure_of(out: str, test: str) -> str:
    """What pytest prints of it, between two headings."""
    parts = re.split(r"^_{3,} (\S+) _{3,}$", out.partition("= short test summary")[0], flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2]))
    return next(text for name, text in found.items() if name.endswith(test))


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(MANY.splitlines(), 1) if text in line)


def test_what_is_above_its_limit_fails_and_nothing_else(many: Tuple[Path, str]) -> None:
    out = many[1]
    failed = re.findall(r"^FAILED test_x.py::(?:TestOld::)?(\w+)", out, re.MULTILINE)
    assert sorted(failed) == sorted(FAIL), out
    assert "5 failed, 7 passed" in out


def test_a_failure_names_the_peak_its_line_and_its_stack(many: Tuple[Path, str]) -> None:
    text = failure_of(many[1], "test_above")
    assert text.startswith("\nlimit_memory: the test held 25.0 MB at its peak; its limit is 24 MB.\n"), "to the byte"
    place = "test_x.py:%d" % line_of('block = b"x" * n')
    assert re.search(r"^ +25\.0 MB +%s in hold\n +block = b\"x\" \* n$" % place, text, re.MULTILINE), text
    stack = text[text.index("The stack that held most of it:") :].splitlines()
    assert stack[1].strip() == "test_above (test_x.py:%d)" % line_of("def test_above")
    assert stack[2].strip() == "hold (%s)" % place


def test_the_capture_of_a_failure_stays_and_others_go(many: Tuple[Path, str]) -> None:
    names = sorted(path.name for path in (many[0] / ".profiles").glob("*.fathom"))
    kept = [name + ".limit.fathom" for name in sorted(FAIL) if name != "test_wrong"]
    assert names == kept, "a test that fails by itself is no matter of limits"
    command = [str(BUILD / "fathom"), "report", "--json", str(many[0] / ".profiles" / kept[0])]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert 25 * MB <= report["memory"]["peak_bytes"] <= 25 * MB + 4096
    assert "fathom view .profiles/test_above.limit.fathom shows all of it." in many[1]


def test_what_is_left_behind_is_told_by_line(many: Tuple[Path, str]) -> None:
    text = failure_of(many[1], "test_leak")
    assert text.startswith(
        "\nlimit_leaks: the memory that the test leaves behind exceeds the limit of 1 MB for one line.\n"
    )
    assert "2.0 MB  test_x.py:%d in test_leak" % line_of('KEPT.append(b"x" * (2 << 20))') in text
    assert "512" not in text.partition("fathom view")[0].replace("(512 << 10)", ""), "the other line is within"


@pytest.mark.statistical
def test_a_slow_test_names_its_slowest_line(many: Tuple[Path, str]) -> None:
    text = failure_of(many[1], "test_slow")
    took = re.match(r"\nlimit_time: the test took ([\d.]+) ms of CPU time; its limit is 60 ms\.\n", text)
    assert took and 100 <= float(took[1]) < 200, text
    assert re.search(r"^ +[\d.]+ ms +test_x.py:%d in burn$" % line_of("sum(range(20000))"), text, re.MULTILINE), text


def test_a_failing_test_fails_as_ever(many: Tuple[Path, str]) -> None:
    text = failure_of(many[1], "test_wrong")
    assert "assert hold(1) == 2" in text and "limit_memory" not in text.replace('limit_memory("1 MB")', "")
    assert "_limits.py" not in text


RELATIVE = """
import pytest, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(20000))

@pytest.mark.limit_time("+20%%", clock="cpu", runs=2)
def test(): burn(%g)
"""


def baselines(folder: Path) -> Dict[str, Dict[str, float]]:
    found: Dict[str, Dict[str, float]] = json.loads((folder / ".profiles" / "limits.json").read_text())["seconds"]
    return found


@pytest.mark.statistical
def test_a_relative_limit_holds_against_the_first_run(tmp_path: Path) -> None:
    out = run_tests(tmp_path, RELATIVE % 0.05)
    assert "fathom: 1 new baseline of limit_time in .profiles/limits.json" in out
    ((key, seconds),) = baselines(tmp_path).items()
    assert "cpython %d.%d" % sys.version_info[:2] in key and " x " in key, "the machine and the Python"
    assert seconds["test_x.py::test"] == pytest.approx(0.05, abs=0.01)

    assert "new baseline" not in run_tests(tmp_path, RELATIVE % 0.051)
    out = run_tests(tmp_path, RELATIVE % 0.08, status=1)
    assert re.search(
        r"limit_time: the test took [\d.]+ ms of CPU time; its baseline is [\d.]+ ms, its limit \+20%", out
    )
    assert baselines(tmp_path) == {key: seconds}, "neither a slower run nor a failure moves it"

    assert "1 new baseline" in run_tests(tmp_path, RELATIVE % 0.08, "--fathom-new-baseline")
    assert baselines(tmp_path)[key]["test_x.py::test"] == pytest.approx(0.08, abs=0.015)

    other = {"another machine, %s" % key: seconds}
    (tmp_path / ".profiles" / "limits.json").write_text(json.dumps({"seconds": other}))
    assert "1 new baseline" in run_tests(tmp_path, RELATIVE % 0.05), "another machine's is none"
    assert len(baselines(tmp_path)) == 2


SIMPLE = """
import pytest
@pytest.mark.limit_memory("1 MB")
def test(): assert b"x" * (2 << 20)
"""


def test_limits_in_several_processes(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    source = SIMPLE + '@pytest.mark.limit_time("+50%")\ndef test_time(): sum(range(100000))\n'
    out = run_tests(tmp_path, source, "-n", "2", status=1)
    assert "1 failed, 1 passed" in out and "the test held 2.0 MB at its peak" in out
    assert "1 new baseline" in out and len(baselines(tmp_path)) == 1


def test_coroutines_have_limits_too(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RUNS_COROUTINES)
    source = (
        SIMPLE.replace("def test", "async def test") + "@pytest.mark.limit_time('5 s')\nasync def test_time(): pass\n"
    )
    out = run_tests(tmp_path, source, status=1)
    assert "1 failed, 1 passed" in out and "the test held 2." in out


@pytest.mark.parametrize(
    "mark, said",
    [
        ('limit_memory("much")', "limit_memory wants a size such as \"24 MB\", not 'much'"),
        ("limit_memory(24)", 'limit_memory wants a size such as "24 MB", not 24'),
        ("limit_memory()", "limit_memory wants one limit, not 0"),
        ('limit_memory("1 MB", current_thread_only=True)', "limit_memory cannot leave out other threads"),
        ('limit_leaks("1 MB", filter_fn=len)', "limit_leaks has no option filter_fn"),
        ('limit_leaks("1 MB", warmups=-1)', "limit_leaks wants a number from 0 to 1000, not -1"),
        ('limit_time("10%")', 'limit_time wants a time such as "200 ms", or "+10%" of the baseline, not \'10%\''),
        ('limit_time("1 s", clock="sun")', "limit_time has no clock 'sun'"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_before_anything_runs(tmp_path: Path, mark: str, said: str) -> None:
    out = run_tests(tmp_path, "import pytest\n@pytest.mark.%s\ndef test(): print('it ran')\n" % mark, status=4)
    assert "ERROR: test_x.py::test: " + said in out and "it ran" not in out


def test_where_it_cannot_be_judged_a_line_says_so(tmp_path: Path) -> None:
    out = run_tests(tmp_path, SIMPLE, "--fathom")
    assert "1 passed" in out
    assert "fathom: limits of 1 test not judged: the same run profiles them, which costs time and memory" in out
    install_plugin(tmp_path / "run" / "site")
    (tmp_path / "run" / "test_x.py").write_text(SIMPLE)
    env = clean_env({"PYTHONPATH": "%s:%s" % (tmp_path / "run" / "site", ROOT / "python")})
    command = [str(BUILD / "fathom"), "run", "--quiet", "--python", sys.executable, "-m", "pytest", "-q", "test_x.py"]
    done = subprocess.run(command, cwd=tmp_path / "run", env=env, stdout=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 0
    assert "fathom: limits of 1 test not judged: this process is being profiled already" in done.stdout


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / ".profiles").write_text("a file where the folder should be")
    out = run_tests(tmp_path, SIMPLE)
    assert "1 passed" in out and "fathom: limits of 1 test not judged: " in out


def test_marks_of_another_plugin_are_left_to_it(tmp_path: Path) -> None:
    """pytest-memray has two of them; two that count allocations would count each other."""
    info = tmp_path / "site" / "other-1.0.dist-info"
    install_plugin(tmp_path / "site")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nmemray = its_plugin\n")
    (tmp_path / "site" / "its_plugin.py").write_text("")
    source = SIMPLE + '@pytest.mark.limit_time("1 us")\ndef test_time(): sum(range(100000))\n'
    out = run_tests(tmp_path, source, status=1)
    assert "1 failed, 1 passed" in out and "FAILED test_x.py::test_time" in out, "this one is ours"
    assert out.count("limits of 1 test not judged: pytest-memray is installed and checks limit_memory") == 1
    assert "1 failed" in run_tests(tmp_path, SIMPLE, "-p", "no:memray", status=1)
