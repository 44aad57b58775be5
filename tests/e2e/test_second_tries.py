# SPDX-License-Identifier: Apache-2.0
"""Who gets a second try: statistical tests, a few of them, and none in which a process crashed or hung."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, Tuple

import pytest
from capture import ROOT
from guest import wait_for

TESTS = """
import subprocess, sys, pytest
from capture import record
from guest import run

def python(code, **more): return subprocess.run([sys.executable, "-c", code], **more)
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"

@pytest.fixture(scope="module")
def crashing(): python(CRASH, check=True)

@pytest.mark.statistical
def test_chance(): assert python("pass").returncode == 1
def test_fault(): assert python("pass").returncode == 1
@pytest.mark.statistical
def test_crash_that_the_test_did_not_look_at():
    python(CRASH)
    assert 1 == 2
@pytest.mark.statistical
def test_crash_as_a_shell_tells_it(): assert python("import sys; sys.exit(139)").returncode == 0
@pytest.mark.statistical
def test_hang():
    assert run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.3).returncode == 0
@pytest.mark.statistical
def test_late(): python("import time; time.sleep(60)", timeout=0.3)
@pytest.mark.statistical
def test_crash_of_a_fixture(crashing): pass
@pytest.mark.statistical
def test_crash_of_a_fixture_told_again(crashing): pass
@pytest.mark.statistical
def test_chance_after_a_crash(): assert python("pass").returncode == 1
@pytest.mark.statistical
def test_well(): pass
"""


QUIET = ("--busy-limit", "1e9")  # however busy this machine is


def fail(folder: Path, text: str, *options: str) -> Dict[str, str]:
    (folder / "test_some.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = statistical: x\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
    env["PYTHONPATH"] = str(ROOT / "tests" / "e2e")
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "conftest", "--failures-to", "failed.json", *options]
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1, done.stdout
    (folder / "out.txt").write_text(done.stdout)
    found: Dict[str, str] = json.loads((folder / "failed.json").read_text())
    return {name.partition("::")[2]: why for name, why in found.items()}


def decide(folder: Path, failures: Dict[str, str]) -> Tuple[int, str, str]:
    (folder / "failed.json").write_text(json.dumps(failures))
    command = [sys.executable, ROOT / "scripts" / "second_tries.py", "list", "failed.json", "not-there.json"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, (folder / "list").read_text()


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one", "workers"])
def test_crashes_and_hangs_are_final(tmp_path: Path, options: Tuple[str, ...]) -> None:
    found = fail(tmp_path, TESTS, *QUIET, *options)
    assert {name for name, why in found.items() if not why} == {"test_chance", "test_chance_after_a_crash"}
    assert "not marked" in found["test_fault"]
    for name in ("that_the_test_did_not_look_at", "as_a_shell_tells_it", "of_a_fixture", "of_a_fixture_told_again"):
        assert "SIGSEGV" in found["test_crash_" + name], name
    assert "no end" in found["test_hang"] and found["test_late"]
    assert len(found) == 9


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one", "workers"])
def test_a_busy_machine_excuses_chance_and_nothing_else(tmp_path: Path, options: Tuple[str, ...]) -> None:
    found = fail(tmp_path, TESTS, "--busy-limit", "-1", *options)
    assert len(found) == 7 and all(found.values()) and not any("chance" in name for name in found), found
    told = (tmp_path / "out.txt").read_text()
    assert "skipped: machine too busy: " in told and "AssertionError: assert 0 == 1" in told, told


def test_only_what_is_listed_runs(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("test_some.py::test_chance\n")
    assert fail(tmp_path, TESTS, *QUIET, "--only-listed", "list") == {"test_chance": ""}


def test_few_get_a_second_try(tmp_path: Path) -> None:
    status, text, names = decide(tmp_path, {"t.py::a[x y]": "", "t.py::b": ""})
    assert (status, names) == (0, "t.py::a[x y]\nt.py::b\n") and "second tries: 2" in text
    status, text, names = decide(tmp_path, {"t.py::a": "", "t.py::b": "SIGSEGV of it"})
    assert (status, names) == (1, "t.py::a\n") and "final: t.py::b: SIGSEGV of it" in text


def test_many_get_none(tmp_path: Path) -> None:
    status, text, names = decide(tmp_path, {f"t.py::t{i}": "" for i in range(9)})
    assert (status, names) == (1, "") and "second tries: 0" in text


LEFT = """
import subprocess, pytest
@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()
def test_half_way(server, request):
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
    open("left", "w").write(shell.stdout.readline().decode())
    assert shell.wait(0.01) == 0
def test_after(server):
    assert server.poll() is None
"""


def test_what_a_failed_test_leaves_is_ended(tmp_path: Path) -> None:
    """Also what that started, and not what a fixture did."""
    assert set(fail(tmp_path, LEFT, *QUIET)) == {"test_half_way"}
    left = Path("/proc", (tmp_path / "left").read_text().strip())
    wait_for(lambda: not left.exists())  # its new parent reaps it
